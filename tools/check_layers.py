#!/usr/bin/env python3
"""Checks that the source tree is layered as ARCHITECTURE.md says.

    check_layers.py [ROOT]

For every file in src/MODULE: a `#include "other/file.h"` needs `other` in the DEPS of MODULE's
lockstep_module call (a test may also use the modules in TEST_LIBS); DEPS may name only what ALLOWED_DEPS
allows, and that table is itself a DAG of layers; a third-party header may appear only in its adapter files;
every file is named in the CMake call, for a test that is not named there never runs. Prints FILE:LINE: what
is wrong, exits 1 if anything is.
"""

import fnmatch
import re
import sys
from pathlib import Path

# The layers of ARCHITECTURE.md, lowest first. A module may include modules of lower layers and, beside that,
# only what SAME_LAYER lists.
LAYERS = [
    ["base"],
    ["kernels", "tensor", "data"],
    ["model", "optim", "checkpoint", "report"],
    ["train"],
    ["cli"],
]
ALLOWED_DEPS = {
    "base": set(),
    "kernels": {"base"},
    "tensor": {"base"},
    "data": {"base"},
    "model": {"tensor", "kernels", "base"},
    "optim": {"tensor", "kernels", "model", "base"},
    "checkpoint": {"tensor", "base"},
    "report": {"base"},
    "train": {"base", "kernels", "tensor", "data", "model", "optim", "checkpoint", "report"},
    "cli": {"base", "kernels", "tensor", "data", "model", "optim", "checkpoint", "report", "train"},
}
SAME_LAYER = {("optim", "model")}  # optim works on model's parameter registry

# Third-party headers: pattern of the include, the files it may appear in, how many files at most (0: any).
THIRD_PARTY = [
    (r"oneapi/dnnl/|dnnl", ["src/kernels/gemm_onednn*"], 0),
    (r"hwy/", ["src/kernels/*"], 0),
    (r"omp\.h", ["src/kernels/*.cc"], 0),
    (r"CLI/", ["src/cli/*.cc", "src/cli/*.h"], 0),
    (r"toml\+\+/", ["src/*/*.cc"], 1),
    (r"curl/", ["src/data/download.cc"], 1),
    (r"sodium", ["src/base/hash.cc"], 1),
    (r"xxhash", ["src/base/hash.cc"], 1),
    (r"zstd", ["src/data/*.cc"], 1),
    (r"spdlog/", ["src/base/log.cc"], 1),
    (r"nlohmann/json_fwd\.hpp", ["src/*"], 0),
    (r"nlohmann/", [f"src/{m}/*.cc" for m in ("data", "checkpoint", "report", "train", "cli")], 0),
    (r"fmt/", ["src/*"], 0),
    (r"g(test|mock)/", ["src/*_test.cc", "src/*/testing.h", "src/*/testing/*", "tests/*"], 0),
]
# Headers of the C library and the kernel; C++'s own have neither a dot nor a slash.
SYSTEM_FOLDERS = {"sys", "linux", "asm", "netinet", "arpa", "net"}
SYSTEM_HEADERS = {
    "cpuid.h",
    "dirent.h",
    "errno.h",
    "fcntl.h",
    "immintrin.h",
    "limits.h",
    "poll.h",
    "pthread.h",
    "pwd.h",
    "sched.h",
    "signal.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "string.h",
    "termios.h",
    "time.h",
    "unistd.h",
}

THIS_FILE = "tools/check_layers.py"
INCLUDE = re.compile(r'^\s*#\s*include\s+(?P<quote>["<])(?P<path>[^">]+)[">]')
KEYWORDS = {"NAME", "DEPS", "SOURCES", "HEADERS", "LIBS", "TESTS", "TEST_LIBS"}


class Problems:
    """Collects FILE:LINE: message lines."""

    def __init__(self):
        self.lines = []

    def add(self, path, line, message):
        self.lines.append(f"{path}:{line}: {message}")


def layer_of(module):
    for level, modules in enumerate(LAYERS):
        if module in modules:
            return level
    return None


def check_table(problems):
    """ALLOWED_DEPS must itself point downwards, so that no edit of this file can make a cycle."""
    for module, deps in ALLOWED_DEPS.items():
        for dep in deps:
            if layer_of(dep) >= layer_of(module) and (module, dep) not in SAME_LAYER:
                problems.add(THIS_FILE, 1, f"ALLOWED_DEPS lets {module} include {dep}, which is not below it")
    for module, dep in SAME_LAYER:
        if (dep, module) in SAME_LAYER:
            problems.add(THIS_FILE, 1, f"SAME_LAYER makes {module} and {dep} include each other")


def parse_module_call(path):
    """Returns ({keyword: [(line, word)]}, line) of the one lockstep_module call in a CMakeLists.txt."""
    words, depth, start = {}, 0, 0
    keyword = None
    for number, text in enumerate(path.read_text().splitlines(), 1):
        text = text.split("#")[0]
        for token in re.findall(r"[()]|[^\s()]+", text):
            if depth == 0:
                if token == "lockstep_module":
                    start = number
                elif token == "(" and start and not words:
                    depth = 1
            elif token == "(":
                depth += 1
            elif token == ")":
                depth -= 1
            elif token in KEYWORDS:
                keyword = token
                words.setdefault(keyword, [])
            elif keyword:
                words[keyword].append((number, token))
    return words, start


def check_call(root, module, problems):
    """Checks one module's CMake call; returns (allowed includes, allowed includes of tests)."""
    cmake = root / "src" / module / "CMakeLists.txt"
    shown = cmake.relative_to(root)
    if not cmake.exists():
        problems.add(shown, 1, f"module {module} has no CMakeLists.txt")
        return set(), set()
    call, start = parse_module_call(cmake)
    if not start:
        problems.add(shown, 1, "no lockstep_module call")
        return set(), set()
    if [word for _, word in call.get("NAME", [])] != [module]:
        problems.add(shown, start, f"lockstep_module must have NAME {module}, like its folder")
    deps = set()
    for line, dep in call.get("DEPS", []):
        deps.add(dep)
        if dep not in ALLOWED_DEPS:
            problems.add(shown, line, f"DEPS names {dep}, which is no module")
        elif dep not in ALLOWED_DEPS[module]:
            problems.add(shown, line, f"{module} may not depend on {dep}: see ALLOWED_DEPS in {THIS_FILE}")
    named = {word for key in ("SOURCES", "HEADERS", "TESTS") for _, word in call.get(key, [])}
    for file in sorted((root / "src" / module).iterdir()):
        if file.suffix not in (".cc", ".h") or file.name.endswith("-inl.h") or file.name == "testing.h":
            continue
        if file.name not in named and not is_named_elsewhere(cmake, file.name):
            problems.add(file.relative_to(root), 1, f"not named in {shown}, so it is never built or run")
    test_libs = [word for _, word in call.get("TEST_LIBS", [])]
    return deps, deps | {word.removeprefix("lockstep_") for word in test_libs if word.startswith("lockstep_")}


def is_named_elsewhere(cmake, name):
    """True when any command of the CMakeLists.txt names the file; ${VARIABLE} in a name matches anything."""
    words = re.findall(r"[^\s()]+", re.sub(r"#.*", "", cmake.read_text()))
    return any(fnmatch.fnmatchcase(name, re.sub(r"\$\{[^}]*\}", "*", word.split("/")[-1])) for word in words)


def includes_of(path):
    for number, text in enumerate(path.read_text(errors="replace").splitlines(), 1):
        if match := INCLUDE.match(text):
            yield number, match["path"], match["quote"] == '"'


def is_system_header(path):
    if "/" in path:
        return path.split("/")[0] in SYSTEM_FOLDERS
    return "." not in path or path in SYSTEM_HEADERS


def check_third_party(path, shown, line, included, users, problems):
    for pattern, allowed, _ in THIRD_PARTY:
        if re.match(pattern, included):
            users.setdefault(pattern, {}).setdefault(shown, line)
            if not any(fnmatch.fnmatch(shown, glob) for glob in allowed):
                problems.add(shown, line, f"<{included}> belongs into {' or '.join(allowed)} only")
            return
    if not is_system_header(included):
        problems.add(shown, line, f"<{included}> is unknown to {THIS_FILE}: add a rule for its library")


def check_file(root, path, module, allowed, users, problems):
    shown = str(path.relative_to(root))
    for line, included, quoted in includes_of(path):
        folder = included.split("/")[0]
        if not quoted:
            check_third_party(path, shown, line, included, users, problems)
        elif folder == module or included == shown.removeprefix("src/"):
            continue
        elif folder not in ALLOWED_DEPS:
            check_third_party(path, shown, line, included, users, problems)
        elif folder not in allowed:
            problems.add(shown, line, f'"{included}": {module} does not list {folder} in its DEPS')


def check_tree(root):
    problems = Problems()
    users = {}
    check_table(problems)
    for folder in sorted(path for path in (root / "src").iterdir() if path.is_dir()):
        module = folder.name
        if module not in ALLOWED_DEPS:
            problems.add(folder.relative_to(root), 1, f"unknown module: add it to LAYERS in {THIS_FILE}")
            continue
        deps, test_deps = check_call(root, module, problems)
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".cc", ".h") and "testdata" not in path.parts:
                allowed = test_deps if path.name.endswith("_test.cc") else deps
                check_file(root, path, module, allowed, users, problems)
    for pattern, _, limit in THIRD_PARTY:
        files = users.get(pattern, {})
        if limit and len(files) > limit:
            for file, line in files.items():
                problems.add(file, line, f"{pattern} is included by {len(files)} files, at most {limit} may")
    return problems.lines


def main(arguments):
    root = Path(arguments[0] if arguments else Path(__file__).parent.parent).resolve()
    problems = check_tree(root)
    for line in problems:
        print(line)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
