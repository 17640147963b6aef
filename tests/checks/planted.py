"""A small source tree in a temporary folder, in which a test plants what a check must find."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class PlantedTree(unittest.TestCase):
    """Has self.root, an empty tree; put() writes a file, check() runs a tool on the tree."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def check(self, tool, *arguments, ci=False):
        """Returns (exit status, output) of tools/TOOL on the tree; with ci as where everything must run."""
        environment = {name: value for name, value in os.environ.items() if name != "LOCKSTEP_CI"}
        if ci:
            environment["LOCKSTEP_CI"] = "1"
        result = subprocess.run(
            [sys.executable, str(ROOT / "tools" / tool), str(self.root), *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )
        return result.returncode, result.stdout + result.stderr

    def assert_clean(self, tool, *arguments):
        self.assertEqual(self.check(tool, *arguments), (0, ""))

    def assert_finds(self, place, *words, tool, arguments=()):
        """The check fails and one of its lines starts with FILE:LINE: and has all the words."""
        status, output = self.check(tool, *arguments)
        self.assertEqual(status, 1, output)
        lines = [line for line in output.splitlines() if line.startswith(place + ": ")]
        self.assertTrue(
            any(all(word in line for word in words) for line in lines),
            f"no line {place} with {words} in:\n{output}",
        )
