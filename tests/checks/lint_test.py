"""The repository's .clang-tidy and .clang-format find what they are there for."""

import os
import shutil
import subprocess
import sys
import unittest

from planted import ROOT, PlantedTree

GOOD = """namespace lockstep {

constexpr int kLimit = 3;

class Counter {
 public:
  int next_value() { return ++count_ + kLimit; }

 private:
  int count_ = 0;
};

}  // namespace lockstep
"""
# What is planted, what replaces it, and the check that must find it.
PLANTED = [
    ("kLimit", "LIMIT", "readability-identifier-naming"),
    ("next_value", "nextValue", "readability-identifier-naming"),
    ("Counter", "counter_type", "readability-identifier-naming"),
    ("count_", "count", "readability-identifier-naming"),
    ("return ++count_ + kLimit", "double x = count_ / kLimit; return int(x)", "bugprone-integer-division"),
    (
        "return ++count_ + kLimit",
        "long y = sizeof(sizeof(count_)); return int(y)",
        "bugprone-sizeof-expression",
    ),
    ("int count_ = 0", "int* count_ = 0", "modernize-use-nullptr"),
]


class Lint(PlantedTree):
    def run_on(self, text, *command):
        file = self.put("src/base/a.cc", text)
        result = subprocess.run(
            [*command, str(file), *self.after], capture_output=True, text=True, check=False
        )
        return result.returncode, result.stdout + result.stderr

    def test_clang_tidy(self):
        self.after = ("--", "-std=c++20")
        command = ("clang-tidy-19", "--quiet", f"--config-file={ROOT}/.clang-tidy")
        status, output = self.run_on(GOOD, *command)
        self.assertEqual(status, 0, output)
        for old, new, check in PLANTED:
            with self.subTest(new):
                self.assertIn(old, GOOD)
                status, output = self.run_on(GOOD.replace(old, new), *command)
                self.assertNotEqual(status, 0, output)
                self.assertIn(check, output)

    def test_clang_format(self):
        self.after = ()
        command = ("clang-format-19", "--dry-run", "-Werror", f"--style=file:{ROOT}/.clang-format")
        status, output = self.run_on(GOOD, *command)
        self.assertEqual(status, 0, output)
        status, output = self.run_on(GOOD.replace("  int count_ = 0;", "    int count_=0;"), *command)
        self.assertNotEqual(status, 0, output)
        self.assertIn("a.cc:10", output)


if __name__ == "__main__":
    missing = [tool for tool in ("clang-tidy-19", "clang-format-19") if not shutil.which(tool)]
    if missing and not os.environ.get("LOCKSTEP_CI"):
        print(f"SKIPPED: {' and '.join(missing)} not installed")
        sys.exit(77)
    unittest.main()
