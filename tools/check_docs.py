#!/usr/bin/env python3
"""Checks that the documents do not promise what is not there.

    check_docs.py [ROOT] [--binary LOCKSTEP]

Every relative link in a *.md file leads to a file, and its #anchor to a heading. Every command line in a
fenced block of the top-level documents that begins with `./dev` names a command of `./dev help`, and one that
begins with `lockstep` names a command of `lockstep --help` and options of that command's --help; without a
built binary the latter is left out, aloud. Prints FILE:LINE: what is wrong, exits 1 if anything is.
"""

import argparse
import re
import shlex
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from check_style import files_of

LINK = re.compile(r"(?<!!)\[[^\]\[]*\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)(?P<language>\w*)")
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


def commands_of(help_text):
    """The words that open an indented line of a help text: its commands."""
    return set(re.findall(r"^\s{2,}([a-z][\w-]*)(?:\s|$)", help_text, re.M))


@lru_cache(maxsize=None)
def help_of(*command):
    result = subprocess.run([*command], capture_output=True, text=True, check=False, timeout=60)
    return result.stdout + result.stderr


def check_commands(root, path, text, binary):
    """Checks the fenced command lines of one document."""
    for number, line, language in lines_outside_and_inside(text):
        if language is None:
            continue
        words = shlex.split(line.strip().removeprefix("$ "), comments=True) if line.strip() else []
        if len(words) < 2:
            continue
        program, command = words[0], words[1]
        if program == "./dev":
            if command not in commands_of(help_of(str(root / "dev"), "help")):
                yield f"{path}:{number}: `./dev {command}`: ./dev help has no such command"
        elif program in ("lockstep", "build/release/lockstep") and binary:
            if command.startswith("-"):
                continue
            if command not in commands_of(help_of(binary, "--help")):
                yield f"{path}:{number}: `lockstep {command}`: lockstep --help has no such command"
                continue
            known = help_of(binary, command, "--help")
            for word in words[2:]:
                option = word.split("=")[0]
                if option.startswith("--") and not re.search(rf"{re.escape(option)}(?![\w-])", known):
                    yield f"{path}:{number}: `lockstep {command} {option}`: no such option in its --help"


def check_tree(root, binary):
    for path in files_of(root):
        if path.suffix != ".md":
            continue
        text = (root / path).read_text()
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
        print(f"SKIPPED: no binary at {binary}: `lockstep` commands in documents were not checked")
        binary = None
    problems = list(check_tree(arguments.root.resolve(), binary))
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
