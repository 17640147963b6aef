#!/usr/bin/env python3
"""Checks of style that the formatter and the linter do not make.

    check_style.py [ROOT]

Length of files and functions (with a ratchet file for exceptions, which may only shrink), width of lines,
tabs, trailing blanks, notes to oneself, and the opening of headers: a comment that says what the file is, and
`#pragma once`. Prints FILE:LINE: what is wrong, exits 1 if anything is.

Functions are measured by their braces after strings and comments have been blanked out: good enough to keep
functions readable, with no ambition to parse C++.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
LINE_COLUMNS_MAX = 110
OPENING_LINES = range(1, 26)  # comment lines at the top of a header

RATCHET = "tools/style_ratchet.txt"
CODE = {".cc", ".h", ".py", ".sh", ".cmake"}
CODE_NAMES = {"dev", "run", "CMakeLists.txt"}
WIDTH_CHECKED = CODE | {""}  # not the lists of files in CMakeLists.txt
PROSE = {".md", ".toml", ".json", ".yml", ".yaml"}
SKIPPED_FOLDERS = {"build", "out", ".git", ".venv", "testdata", "__pycache__"}
# Spelled in two halves so that this file passes its own check.
FORBIDDEN = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")
LABEL = re.compile(r"^\s*(public|private|protected)\s*:")
FUNCTION_NAME = re.compile(r"([~\w:]+(?:\s*operator\s*[^\s(]+)?)\s*\(")


def files_of(root):
    """The files under version control or about to be, relative to root; everything where there is no git."""
    command = ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = [Path(name) for name in listing.split("\0") if name]
    except (FileNotFoundError, subprocess.CalledProcessError):
        names = [path.relative_to(root) for path in root.rglob("*") if path.is_file()]
    for name in sorted(set(names)):
        if not SKIPPED_FOLDERS.intersection(name.parts) and (root / name).is_file():
            yield name


def read_ratchet(root):
    """{(path, function name or "file"): lines} from lines "PATH WHAT LINES"; # starts a comment."""
    path = root / RATCHET
    entries = {}
    if path.exists():
        for number, text in enumerate(path.read_text().splitlines(), 1):
            words = text.split("#")[0].split()
            if words:
                entries[(words[0], words[1])] = (int(words[2]), number)
    return entries


def blank_out(text):
    """C++ text with comments, strings and preprocessor lines replaced by blanks; line breaks stay."""
    token = re.compile(
        r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"'
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*",
        re.S | re.M,
    )
    return token.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def cpp_functions(text):
    """Yields (name, first line, last line) of each outermost function body."""
    text = blank_out(text)
    stack = []  # for each open brace: (kind, name, first line)
    head_start = 0
    for match in re.finditer(r"[{};]", text):
        position, character = match.start(), match.group()
        inside_function = any(kind == "function" for kind, _, _ in stack)
        if character == "{":
            head = text[head_start:position]
            head = LABEL.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), head)
            kind, name = classify(head, inside_function)
            first = text.count("\n", 0, head_start + len(head) - len(head.lstrip())) + 1
            stack.append((kind, name, first))
        elif character == "}" and stack:
            kind, name, first = stack.pop()
            if kind == "function":
                yield name, first, text.count("\n", 0, position) + 1
        # A parenthesis that is still open means `for (;;)` or a braced argument: the head goes on.
        head_start = position + 1


def classify(head, inside_function):
    """("function", name) or ("other", ""): what a brace after `head` opens."""
    if inside_function or CONTAINER.search(re.sub(r"<[^<>]*>", "", head)) and "(" not in head:
        return "other", ""
    name = FUNCTION_NAME.search(head)
    if name is None or re.search(r"=\s*$", head):
        return "other", ""
    return "function", name.group(1)


def python_functions(text, path):
    for node in ast.walk(ast.parse(text, str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno, node.end_lineno


class Checker:
    def __init__(self, root):
        self.root = root
        self.problems = []
        self.ratchet = read_ratchet(root)
        self.used = set()

    def add(self, path, line, message):
        self.problems.append(f"{path}:{line}: {message}")

    def limit_length(self, path, what, line, length, limit):
        """A length over the limit needs a ratchet entry of that length: it may shrink, never grow."""
        key = (str(path), what)
        allowed, _ = self.ratchet.get(key, (limit, 0))
        if key in self.ratchet:
            self.used.add(key)
        shown = "file" if what == "file" else f"function {what}"
        if length > max(allowed, limit):
            self.add(path, line, f"{shown} has {length} lines, at most {max(allowed, limit)} may be")
        elif key in self.ratchet and length < allowed:
            self.add(path, line, f"{shown} has shrunk to {length} lines: say so in {RATCHET}")

    def check_lines(self, path, lines):
        for number, text in enumerate(lines, 1):
            if text != text.rstrip():
                self.add(path, number, "blanks at the end of the line")
            if "\t" in text:
                self.add(path, number, "tab")
            if match := FORBIDDEN.search(text):
                self.add(path, number, f"{match.group()}: finish it, or write down what is left in an issue")
            if path.suffix in WIDTH_CHECKED and len(text) > LINE_COLUMNS_MAX and "://" not in text:
                self.add(path, number, f"line has {len(text)} columns, at most {LINE_COLUMNS_MAX} may be")

    def check_header(self, path, lines):
        opening = next((n for n, text in enumerate(lines) if not text.startswith("//")), len(lines))
        if opening not in OPENING_LINES:
            limits = f"{OPENING_LINES.start} to {OPENING_LINES.stop - 1}"
            message = f"a header opens with {limits} comment lines that say what it is, not {opening}"
            self.add(path, 1, message)
        if not path.name.endswith("-inl.h") and "#pragma once" not in lines:
            self.add(path, 1, "no #pragma once")

    def check_file(self, path):
        is_code = path.suffix in CODE or path.name in CODE_NAMES
        if not is_code and path.suffix not in PROSE:
            return
        text = (self.root / path).read_text(errors="replace")
        lines = text.split("\n")
        self.check_lines(path, lines)
        if not is_code:
            return
        if text and not text.endswith("\n"):
            self.add(path, len(lines), "no line break at the end of the file")
        self.limit_length(path, "file", 1, len(text.splitlines()), FILE_LINES_MAX)
        if path.suffix == ".h":
            self.check_header(path, lines)
        functions = []
        if path.suffix in (".cc", ".h"):
            functions = cpp_functions(text)
        elif path.suffix == ".py":
            functions = python_functions(text, path)
        for name, first, last in functions:
            self.limit_length(path, name, first, last - first + 1, FUNCTION_LINES_MAX)

    def run(self):
        for path in files_of(self.root):
            self.check_file(path)
        for key in sorted(set(self.ratchet) - self.used):
            self.add(RATCHET, self.ratchet[key][1], f"{key[0]} {key[1]} is gone: remove the line")
        return self.problems


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    problems = Checker(root).run()
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
