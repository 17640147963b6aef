"""tools/check_layers.py finds each kind of violation, and nothing in a tree that has none."""

import re
import sys
import unittest

from planted import ROOT, PlantedTree

sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402


class Layers(PlantedTree):
    def setUp(self):
        super().setUp()
        self.module("base", "", ["log.h", "log.cc"])
        self.module("tensor", "base", ["buffer.h", "buffer.cc"])
        self.module("model", "tensor base", ["gpt.h", "gpt.cc"])
        self.put(
            "src/model/gpt.cc", '#include "model/gpt.h"\n\n#include <vector>\n\n#include "tensor/buffer.h"\n'
        )

    def module(self, name, deps, files):
        deps_line = f"  DEPS {deps}\n" if deps else ""
        sources = " ".join(file for file in files if file.endswith(".cc") and not file.endswith("_test.cc"))
        headers = " ".join(file for file in files if file.endswith(".h"))
        tests = " ".join(file for file in files if file.endswith("_test.cc"))
        tests_line = f"  TESTS {tests}\n" if tests else ""
        self.put(
            f"src/{name}/CMakeLists.txt",
            f"# {name}\nlockstep_module(NAME {name}\n{deps_line}  SOURCES {sources}\n{tests_line}"
            f"  HEADERS {headers})\n",
        )
        for file in files:
            self.put(f"src/{name}/{file}", "// a file\n")

    def finds(self, place, *words):
        self.assert_finds(place, *words, tool="check_layers.py")

    def test_clean_tree_passes(self):
        self.assert_clean("check_layers.py")

    def test_include_that_deps_do_not_list(self):
        self.put("src/tensor/buffer.cc", '// one\n// two\n#include "model/gpt.h"\n')
        self.finds("src/tensor/buffer.cc:3", "model/gpt.h", "DEPS")

    def test_include_of_a_lower_module_must_be_listed_too(self):
        self.module("model", "tensor", ["gpt.h", "gpt.cc"])
        self.put("src/model/gpt.h", '#include "base/log.h"\n')
        self.finds("src/model/gpt.h:1", "base/log.h", "DEPS")

    def test_deps_that_point_upwards(self):
        self.module("tensor", "base model", ["buffer.h", "buffer.cc"])
        self.finds("src/tensor/CMakeLists.txt:3", "tensor may not depend on model")

    def test_deps_of_no_module(self):
        self.module("tensor", "base bases", ["buffer.h", "buffer.cc"])
        self.finds("src/tensor/CMakeLists.txt:3", "bases", "no module")

    def test_folder_that_is_no_module(self):
        self.put("src/helpers/x.h", "// a file\n")
        self.finds("src/helpers:1", "unknown module")

    def test_name_that_differs_from_the_folder(self):
        self.put("src/base/CMakeLists.txt", "lockstep_module(NAME bass SOURCES log.cc HEADERS log.h)\n")
        self.finds("src/base/CMakeLists.txt:1", "NAME base")

    def test_test_that_is_never_built(self):
        self.put("src/base/log_test.cc", "// a test\n")
        self.finds("src/base/log_test.cc:1", "never built")

    def test_a_comment_does_not_name_a_file(self):
        self.put("src/base/log_test.cc", "// a test\n")
        self.put(
            "src/base/CMakeLists.txt",
            "lockstep_module(NAME base SOURCES log.cc HEADERS log.h) # log_test.cc\n",
        )
        self.finds("src/base/log_test.cc:1", "never built")

    def test_a_variable_in_a_name_stands_for_anything(self):
        self.put("src/base/log_v2.cc", "// a file\n")
        self.put(
            "src/base/CMakeLists.txt",
            "lockstep_module(NAME base SOURCES log.cc log_v${VERSION}.cc HEADERS log.h)\n",
        )
        self.assert_clean("check_layers.py")
        self.put("src/base/lag_v2.cc", "// a file\n")
        self.finds("src/base/lag_v2.cc:1", "never built")

    def test_tests_may_use_test_libs(self):
        self.module("base", "", ["log.h", "log.cc", "log_test.cc"])
        self.put("src/base/log_test.cc", '#include "tensor/buffer.h"\n')
        self.finds("src/base/log_test.cc:1", "tensor")
        self.put(
            "src/base/CMakeLists.txt",
            "lockstep_module(NAME base SOURCES log.cc HEADERS log.h\n"
            "  TESTS log_test.cc TEST_LIBS lockstep_tensor)\n",
        )
        self.assert_clean("check_layers.py")

    def test_third_party_header_outside_its_adapter(self):
        for header, home in [
            ("<oneapi/dnnl/dnnl.hpp>", "gemm_onednn"),
            ('"hwy/highway.h"', "src/kernels"),
            ("<CLI/CLI.hpp>", "src/cli"),
            ("<curl/curl.h>", "download.cc"),
            ("<sodium.h>", "hash.cc"),
            ("<xxhash.h>", "hash.cc"),
            ("<spdlog/spdlog.h>", "log.cc"),
            ("<nlohmann/json.hpp>", "src/data"),
            ("<zstd.h>", "src/data"),
            ("<omp.h>", "kernels"),
        ]:
            with self.subTest(header):
                self.put("src/tensor/buffer.cc", f"// one\n#include {header}\n")
                self.finds("src/tensor/buffer.cc:2", home)

    def test_library_with_one_adapter_in_two_files(self):
        self.module("data", "base", ["a.cc", "b.cc"])
        for file in "ab":
            self.put(f"src/data/{file}.cc", "#include <zstd.h>\n")
        self.finds("src/data/b.cc:1", "2 files, at most 1")

    def test_unknown_library(self):
        self.put(
            "src/tensor/buffer.cc", "#include <vector>\n#include <sys/mman.h>\n#include <boost/any.hpp>\n"
        )
        self.finds("src/tensor/buffer.cc:3", "boost/any.hpp", "unknown")
        self.put("src/tensor/buffer.cc", "#include <cblas.h>\n")
        self.finds("src/tensor/buffer.cc:1", "cblas.h", "unknown")

    def test_table_that_points_upwards_is_found(self):
        problems = check_layers.Problems()
        allowed = dict(check_layers.ALLOWED_DEPS)
        self.addCleanup(setattr, check_layers, "ALLOWED_DEPS", check_layers.ALLOWED_DEPS)
        check_layers.ALLOWED_DEPS = {**allowed, "tensor": {"model"}}
        check_layers.check_table(problems)
        self.assertTrue(re.search("tensor include model", "\n".join(problems.lines)), problems.lines)


if __name__ == "__main__":
    unittest.main()
