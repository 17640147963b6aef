#!/usr/bin/env python3
"""Runs ctest, then says what this machine could not run, then prints ctest's own summary as the last lines.

    run_ctest.py BUILD_DIR [CTEST ARGS]

A test that is skipped passes silently; this makes it visible. Read from the log that ctest leaves: skipped
tests with their reasons, and lines that tests print as "isa not run here: NAME (reason)". The exit status is
ctest's.
"""

import re
import subprocess
import sys
from pathlib import Path

SUMMARY = re.compile(r"^\d+% tests passed, ")
TEST_HEADER = re.compile(r"^\d+/\d+ Test(ing)?: (?P<name>.+)$")
SKIP_PLACE = re.compile(r"^(?P<place>\S+:\d+): Skipped$")
SKIP_PLAIN = re.compile(r"^SKIP(PED)?: (?P<reason>.+)$")
NOT_RUN = re.compile(r"^isa not run here:\s*(?P<what>.+)$")


def not_run(log_lines):
    """Returns (things not run, {skip reason: [test names]}) from the lines of ctest's LastTest.log."""
    things, reasons, name = [], {}, "?"
    expect_reason = False
    for line in log_lines:
        line = line.rstrip("\n")
        if match := TEST_HEADER.match(line):
            name = match["name"]
        elif match := NOT_RUN.match(line):
            if match["what"] not in things:
                things.append(match["what"])
        elif SKIP_PLACE.match(line):
            expect_reason = True
            continue
        elif expect_reason or SKIP_PLAIN.match(line):
            plain = SKIP_PLAIN.match(line)
            reason = plain["reason"] if plain else line.strip() or "no reason given"
            tests = reasons.setdefault(reason, [])
            if name not in tests:
                tests.append(name)
        expect_reason = False
    return things, reasons


def print_not_run(build_dir):
    log = Path(build_dir) / "Testing" / "Temporary" / "LastTest.log"
    if not log.exists():
        print(f"(no {log}: what was not run is not known)")
        return
    with log.open(errors="replace") as lines:
        things, reasons = not_run(lines)
    if not things and not reasons:
        print("Not run on this machine: nothing, every path was tested.")
        return
    print("Not run on this machine:")
    for thing in things:
        print(f"  instruction set {thing}")
    for reason, tests in reasons.items():
        shown = ", ".join(tests[:4]) + (f" and {len(tests) - 4} more" if len(tests) > 4 else "")
        print(f"  {reason}: {shown}")


def main(arguments):
    if not arguments:
        print(__doc__, file=sys.stderr)
        return 2
    build_dir, ctest_arguments = arguments[0], arguments[1:]
    process = subprocess.Popen(
        ["ctest", "--test-dir", build_dir, *ctest_arguments],
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    summary = []
    for line in process.stdout:
        if summary or SUMMARY.match(line):
            summary.append(line)
        else:
            print(line, end="", flush=True)
    status = process.wait()
    if summary:
        print_not_run(build_dir)
        print()
    print("".join(summary), end="", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
