"""./dev: its help, its errors, and that `deps` touches nothing it need not and says what it will do."""

import os
import subprocess
import unittest

from planted import ROOT, PlantedTree

FAKES = {
    # Every header is there, except those in $ABSENT.
    "c++": """#!/bin/sh
while read -r line; do
  case "$line" in
    *__has_include*) header=${line#*<}; header=${header%%>*} ;;
    missing:*) case " $ABSENT " in *" $header "*) echo "$line" ;; esac ;;
  esac
done
""",
    "sudo": '#!/bin/sh\necho "sudo $*" >> "$LOG"\nexec "$@"\n',
    "apt-get": '#!/bin/sh\necho "apt-get $*" >> "$LOG"\n',
    "id": '#!/bin/sh\necho "$FAKE_ID"\n',
}
TOOLS = ["bash", "env", "cat", "dirname", "readlink", "sed", "sh", "rm"]


class Dev(PlantedTree):
    """Runs ./dev with a PATH of fakes only: no real package manager can be reached."""

    def setUp(self):
        super().setUp()
        self.log = self.root / "log"
        self.log.write_text("")
        for name in ("cmake", "ninja", "pkg-config", "python3"):
            self.fake(name, "#!/bin/sh\n")
        self.fake("c++", FAKES["c++"])
        for name in TOOLS:
            real = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
            os.symlink(real, self.bin(name))

    def bin(self, name):
        folder = self.root / "bin"
        folder.mkdir(exist_ok=True)
        return folder / name

    def fake(self, name, text=None):
        self.bin(name).write_text(text or FAKES[name])
        self.bin(name).chmod(0o755)

    def dev(self, *arguments, absent="", uid="1000"):
        self.fake("id")
        environment = {"PATH": str(self.root / "bin"), "LOG": str(self.log), "ABSENT": absent, "FAKE_ID": uid}
        result = subprocess.run(
            [str(ROOT / "dev"), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return result.returncode, result.stdout + result.stderr

    def test_nothing_is_touched_when_nothing_is_missing(self):
        self.fake("sudo")
        self.fake("apt-get")
        self.assertEqual(self.dev("deps"), (0, ""))
        self.assertEqual(self.log.read_text(), "")

    def test_the_command_is_shown_then_run_with_sudo(self):
        self.fake("sudo")
        self.fake("apt-get")
        status, output = self.dev("deps", absent="zstd.h")
        self.assertEqual(status, 2)  # the fake installs nothing, and that is noticed
        command = (
            "sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends libzstd-dev"
        )
        self.assertIn(command, output)
        self.assertIn("still missing after installing: libzstd-dev", output)
        log = self.log.read_text()
        self.assertIn("sudo env DEBIAN_FRONTEND=noninteractive apt-get install", log)
        self.assertIn("apt-get install -y --no-install-recommends libzstd-dev\n", log)

    def test_root_needs_no_sudo(self):
        self.fake("sudo")
        self.fake("apt-get")
        _, output = self.dev("deps", absent="zstd.h", uid="0")
        self.assertNotIn("sudo", output)
        self.assertNotIn("sudo", self.log.read_text())
        self.assertIn("apt-get install -y", self.log.read_text())

    def test_without_sudo_it_says_what_to_run_and_touches_nothing(self):
        self.fake("apt-get")
        status, output = self.dev("deps", absent="zstd.h hwy/highway.h")
        self.assertEqual(status, 2)
        self.assertIn("libhwy-dev libzstd-dev", output)
        self.assertIn("as root", output)
        self.assertEqual(self.log.read_text(), "")

    def test_without_apt_it_names_what_is_missing(self):
        status, output = self.dev("deps", absent="sodium.h")
        self.assertEqual(status, 2)
        self.assertIn("libsodium-dev", output)
        self.assertIn("package manager", output)

    def test_without_a_compiler_everything_is_asked_for(self):
        self.bin("c++").unlink()
        _, output = self.dev("deps")
        self.assertIn("g++", output)
        self.assertIn("libdnnl-dev", output)

    def test_unknown_words_are_usage_errors(self):
        for arguments, word in [(["bild"], "bild"), (["deps", "--cii"], "--cii"), (["demo", "x"], "x")]:
            with self.subTest(arguments):
                status, output = self.dev(*arguments)
                self.assertEqual(status, 2)
                self.assertIn(f"'{word}'", output)

    def test_help_lists_every_public_command(self):
        _, output = self.dev("help")
        for command in ("deps", "build", "test", "demo", "bench", "fmt", "lint", "ci"):
            self.assertRegex(output, rf"(?m)^  {command}\b")


if __name__ == "__main__":
    unittest.main()
