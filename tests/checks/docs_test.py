"""tools/check_docs.py finds broken links and commands that are not there."""

import unittest

from planted import PlantedTree

DEV = """#!/bin/sh
echo 'usage: ./dev COMMAND'
echo
echo '  build     build it'
echo '  test      test it'
"""
LOCKSTEP = """#!/bin/sh
if [ "$1" = --help ]; then
  echo 'Subcommands:'
  echo '  train         train a model'
  echo '  data prepare  prepare data'
else
  echo '  --out-dir TEXT   where'
fi
"""
README = """# Title

See [the map](docs/map.md), [a part](docs/map.md#the-second-part) and [below](#below).

```sh
./dev build   # builds
lockstep train --out-dir=run --out-dir run
lockstep data prepare --out-dir run
```

## Below
"""


class Docs(PlantedTree):
    def setUp(self):
        super().setUp()
        self.put("dev", DEV).chmod(0o755)
        self.binary = str(self.put("bin/lockstep", LOCKSTEP))
        (self.root / "bin/lockstep").chmod(0o755)
        self.put("docs/map.md", "# Map\n\n## The second part\n")

    def finds(self, place, *words):
        self.assert_finds(place, *words, tool="check_docs.py", arguments=("--binary", self.binary))

    def readme(self, old, new):
        self.assertIn(old, README)
        self.put("README.md", README.replace(old, new))

    def test_clean_tree_passes(self):
        self.put("README.md", README)
        self.assert_clean("check_docs.py", "--binary", self.binary)

    def test_link_to_nothing(self):
        self.readme("docs/map.md)", "docs/mop.md)")
        self.finds("README.md:3", "docs/mop.md", "does not exist")

    def test_link_to_no_heading(self):
        self.readme("#the-second-part", "#the-third-part")
        self.finds("README.md:3", "no heading #the-third-part")
        self.readme("(#below)", "(#above)")
        self.finds("README.md:3", "no heading #above")

    def test_links_are_relative_to_their_document(self):
        self.put("README.md", README)
        self.put("docs/map.md", "# Map\n\n## The second part\n\n[up](README.md)\n")
        self.finds("docs/map.md:5", "README.md", "does not exist")
        self.put("docs/map.md", "# Map\n\n## The second part\n\n[up](../README.md)\n")
        self.assert_clean("check_docs.py", "--binary", self.binary)

    def test_path_that_is_not_there(self):
        self.put("src/model/gpt.cc", "// a file\n")
        for names in ("`src/model/gpt.cc`", "`src/model/*.cc`", "`src/NAME/gpt.cc --flag`", "`src/`"):
            self.put("README.md", README + names + "\n")
            self.assert_clean("check_docs.py", "--binary", self.binary)
        for name in ("src/model/got.cc", "src/model/*.cpp", "src/NAME/got.cc", "tools/"):
            self.put("README.md", README + f"\nSee `{name}`\n")
            self.finds("README.md:13", name, "does not exist")

    def test_document_that_code_refers_to(self):
        self.put("README.md", README)
        self.put("src/a.h", "// The map: docs/map.md.\n")
        self.assert_clean("check_docs.py", "--binary", self.binary)
        self.put("src/a.h", "// A header.\n// The map: docs/mop.md.\n")
        self.finds("src/a.h:2", "docs/mop.md", "does not exist")

    def test_dev_command_that_is_not_there(self):
        self.readme("./dev build", "./dev bild")
        self.finds("README.md:6", "./dev bild", "no such command")

    def test_lockstep_command_that_is_not_there(self):
        self.readme("lockstep train", "lockstep trian")
        self.finds("README.md:7", "lockstep trian", "no such command")

    def test_command_of_two_words_that_is_not_there(self):
        self.readme("data prepare", "data repair")
        self.finds("README.md:8", "lockstep data", "no such command")

    def test_lockstep_option_that_is_not_there(self):
        self.readme("=run --out-dir run", "=run --out run")
        self.finds("README.md:7", "--out", "no such option")

    def test_without_a_binary_it_says_so(self):
        self.readme("lockstep train", "lockstep trian")
        status, output = self.check("check_docs.py", "--binary", str(self.root / "nowhere"))
        self.assertEqual(status, 77, output)
        self.assertTrue(output.startswith("SKIPPED: "), output)
        status, output = self.check("check_docs.py", "--binary", str(self.root / "nowhere"), ci=True)
        self.assertEqual(status, 1, output)


if __name__ == "__main__":
    unittest.main()
