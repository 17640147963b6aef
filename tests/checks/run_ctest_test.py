"""tools/run_ctest.py shows what was skipped, keeps ctest's exit status, and ends with ctest's summary."""

import subprocess
import sys
import unittest

from planted import ROOT, PlantedTree

# What a GoogleTest program prints for GTEST_SKIP() << "needs a fast disk".
SKIPPING = """cat <<'TEXT'
[ RUN      ] A.b
src/x_test.cc:7: Skipped
needs a fast disk

[  SKIPPED ] A.b (0 ms)
TEXT"""


class RunCtest(PlantedTree):
    def run_tree(self, *tests):
        """Configures a project whose tests are shell commands, runs run_ctest.py on it."""
        lines = ["cmake_minimum_required(VERSION 3.25)", "project(p NONE)", "enable_testing()"]
        for number, command in enumerate(tests):
            script = self.put(f"test{number}.sh", command + "\n")
            lines.append(f"add_test(NAME t{number} COMMAND sh {script})")
            lines.append(f'set_tests_properties(t{number} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")')
        self.put("CMakeLists.txt", "\n".join(lines) + "\n")
        build = self.root / "build"
        subprocess.run(
            ["cmake", "-G", "Ninja", "-S", str(self.root), "-B", str(build)], check=True, capture_output=True
        )
        result = subprocess.run(
            [sys.executable, str(ROOT / "tools" / "run_ctest.py"), str(build)],
            capture_output=True,
            text=True,
            check=False,
        )
        return result.returncode, result.stdout

    def test_what_did_not_run_comes_before_the_summary(self):
        status, output = self.run_tree("true", SKIPPING, "echo 'isa not run here: AMX (not on this CPU)'")
        self.assertEqual(status, 0, output)
        not_run = output.index("Not run on this machine:")
        summary = output.index("100% tests passed, 0 tests failed out of 3")
        self.assertLess(not_run, summary)
        self.assertIn("needs a fast disk: t1", output[not_run:summary])
        self.assertIn("AMX (not on this CPU)", output[not_run:summary])
        self.assertNotIn("t0", output[not_run:summary])

    def test_everything_ran(self):
        status, output = self.run_tree("true", "true")
        self.assertEqual(status, 0, output)
        self.assertIn("every path was tested", output)
        last_lines = output.splitlines()[-4:]
        self.assertIn("100% tests passed, 0 tests failed out of 2", last_lines)

    def test_a_failure_is_a_failure(self):
        status, output = self.run_tree("true", "false")
        self.assertNotEqual(status, 0, output)
        self.assertIn("50% tests passed, 1 tests failed out of 2", output)


if __name__ == "__main__":
    unittest.main()
