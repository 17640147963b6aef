#!/usr/bin/env python3
"""Checks that the documents do not promise what is not there.

    check_docs.py [ROOT] [--binary LOCKSTEP]

Every relative link in a *.md file leads to a file, and its #anchor to a heading; a path of this tree in
backquotes is there (a word in capitals stands for any name). A document that code refers to as docs/….md is
there. Every command line in a
```sh block of the top-level documents that begins with `./dev` names a command of `./dev help`, and one that
begins with `lockstep` names a command of `lockstep --help` and options of that command's --help; without a
built binary the latter is left out, aloud. Prints FILE:LINE: what is wrong, exits 1 if anything
is, and 77 if nothing is but a part was left out.
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from check_style import CODE, files_of

SKIPPED = 77  # exit status: nothing wrong, but not everything was looked at
LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)(?P<language>\w*)")
TREE_PATH = re.compile(r"`((?:src|tools|docs|tests|bench|fuzz|recipes|cmake)/[\w./*-]*)[^`]*`")
DOCUMENT = re.compile(r"\bdocs/[\w/-]+\.md\b")
HEADING = re.compile(r"^#{1,6}\s+(?P<text>.+?)\s*#*$")


def anchors_of(text):
    """The #anchors of a document's headings, spelled as GitHub spells them."""
    anchors, fenced = set(), False
    for line in text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced and (match := HEADING.match(line)):
            plain = re.sub(r"[^\w\- ]", "", match["text"].lower())
            anchors.add(plain.replace(" ", "-"))
    return anchors


def lines_outside_and_inside(text):
    """Yields (line number, line, language of the fenced block or None)."""
    language = None
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if match:
            language = (match["language"] or "text") if language is None else None
            continue
        yield number, line, language


def check_links(root, path, text):
    for number, line, language in lines_outside_and_inside(text):
        if language is not None:
            continue
        for match in LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            target = match["target"]
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            goal = (root / path).parent / file if file else root / path
            if not goal.exists():
                yield f"{path}:{number}: link to {target}, which does not exist"
            elif anchor and goal.suffix == ".md" and anchor not in anchors_of(goal.read_text()):
                yield f"{path}:{number}: link to {target}: {goal.name} has no heading #{anchor}"


def check_paths(root, path, text):
    """Paths of this tree that prose names, and documents that code names."""
    if path.suffix == ".md":
        for number, line, language in lines_outside_and_inside(text):
            for name in TREE_PATH.findall(line) if language is None else ():
                pattern = re.sub(r"\b[A-Z]{2,}\b", "*", name).rstrip("/")
                if not any(root.glob(pattern)):
                    yield f"{path}:{number}: `{name}` does not exist"
    elif path.suffix in CODE and path.parts[0] != "tests":
        for number, line in enumerate(text.splitlines(), 1):
            for name in DOCUMENT.findall(line):
                if not (root / name).exists():
                    yield f"{path}:{number}: refers to {name}, which does not exist"


def commands_of(help_text):
    """What opens an indented line of a help text, up to an argument or two blanks: "data prepare"."""
    return set(re.findall(r"^  ([a-z][\w-]*(?: [a-z][\w-]*)*)(?:  | [\[A-Z]|$)", help_text, re.M))


@lru_cache(maxsize=None)
def help_of(*command):
    result = subprocess.run([*command], capture_output=True, text=True, check=False, timeout=60)
    return result.stdout + result.stderr


def check_lockstep(words, binary):
    """Says what is wrong with the words of a `lockstep` command line, or None."""
    commands = commands_of(help_of(binary, "--help"))
    command = next((n for n in (2, 1) if " ".join(words[1 : 1 + n]) in commands), 0)
    if command == 0:
        return f"`lockstep {words[1]}`: lockstep --help has no such command"
    command_words = words[1 : 1 + command]
    known = help_of(binary, *command_words, "--help")
    for word in words[1 + command :]:
        option = word.split("=")[0]
        if option.startswith("--") and not re.search(rf"{re.escape(option)}(?![\w-])", known):
            return f"`lockstep {' '.join(command_words)} {option}`: no such option in its --help"
    return None


def check_commands(root, path, text, binary):
    """Checks the fenced command lines of one document."""
    for number, line, language in lines_outside_and_inside(text):
        if language != "sh" or not line.strip():
            continue
        words = shlex.split(line.strip().removeprefix("$ "), comments=True)
        if len(words) < 2:
            continue
        program, command = words[0], words[1]
        if program == "./dev":
            if command not in commands_of(help_of(str(root / "dev"), "help")):
                yield f"{path}:{number}: `./dev {command}`: ./dev help has no such command"
        elif program in ("lockstep", "build/release/lockstep") and binary and not command.startswith("-"):
            if wrong := check_lockstep(words, binary):
                yield f"{path}:{number}: {wrong}"


def check_tree(root, binary):
    for path in files_of(root):
        if path.suffix not in CODE | {".md"}:
            continue
        text = (root / path).read_text()
        yield from check_paths(root, path, text)
        if path.suffix != ".md":
            continue
        yield from check_links(root, path, text)
        if len(path.parts) == 1:
            yield from check_commands(root, path, text, binary)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("root", nargs="?", default=Path(__file__).parent.parent, type=Path)
    parser.add_argument("--binary", help="the built lockstep, to compare with its --help")
    arguments = parser.parse_args()
    binary = arguments.binary
    if not binary or not Path(binary).exists():
        if os.environ.get("LOCKSTEP_CI"):
            print(f"no binary at {binary}, and LOCKSTEP_CI is set")
            return 1
        print(f"SKIPPED: no binary at {binary}: `lockstep` commands in documents were not checked")
        binary = None
    problems = list(check_tree(arguments.root.resolve(), binary))
    for line in problems:
        print(line)
    if problems:
        return 1
    return 0 if binary else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
