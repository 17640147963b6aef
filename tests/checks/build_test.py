"""cmake/Lockstep.cmake: headers that do not compile alone, warnings in CI and memory errors are found."""

import platform
import subprocess
import unittest

from planted import ROOT, PlantedTree

PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(planted LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
include({ROOT}/cmake/Lockstep.cmake)
add_subdirectory(src/base)
add_executable(program program.cc)
target_link_libraries(program PRIVATE lockstep_base)
"""


class Build(PlantedTree):
    def setUp(self):
        super().setUp()
        self.put("CMakeLists.txt", PROJECT)
        self.put("src/base/CMakeLists.txt", "lockstep_module(NAME base SOURCES a.cc HEADERS a.h)\n")
        self.put("src/base/a.h", "// One function.\n#pragma once\n\nint f(int x);\n")
        self.put("src/base/a.cc", '#include "base/a.h"\n\nint f(int x) { return x; }\n')
        self.put("program.cc", '#include "base/a.h"\n\nint main(int argc, char**) { return f(argc) - 1; }\n')

    def build(self, *options, target="all"):
        """Returns (exit status, output) of configuring and building."""
        build = str(self.root / "build")
        output = ""
        for command in (
            ["cmake", "-G", "Ninja", "-S", str(self.root), "-B", build, *options],
            ["cmake", "--build", build, "--target", target],
        ):
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            output += result.stdout + result.stderr
            if result.returncode != 0:
                break
        return result.returncode, output

    def assert_builds(self, *options, target="all"):
        status, output = self.build(*options, target=target)
        self.assertEqual(status, 0, output)

    def assert_breaks(self, words, *options, target="all"):
        status, output = self.build(*options, target=target)
        self.assertNotEqual(status, 0, output)
        self.assertIn(words, output)

    def test_header_that_needs_another_before_it(self):
        headers = "all_verify_interface_header_sets"
        self.assert_builds(target=headers)
        self.put("src/base/a.h", "// One function.\n#pragma once\n\nstd::string f(int x);\n")
        self.assert_breaks("base/a.h:4", target=headers)

    def test_warning_is_an_error_in_ci_only(self):
        self.put("src/base/a.cc", '#include "base/a.h"\n\nint f(int x) { int y; return x; }\n')
        self.assert_builds()
        self.assert_breaks("a.cc:3", "-DLOCKSTEP_WERROR=ON")

    def test_memory_error_stops_the_program(self):
        self.put(
            "src/base/a.cc",
            '#include "base/a.h"\n\nint f(int x) {\n  int* p = new int[1]{1};\n  volatile int i = x;\n'
            "  const int y = p[i];\n  delete[] p;\n  return y;\n}\n",
        )
        self.assert_builds("-DLOCKSTEP_SANITIZE=address,undefined")
        result = subprocess.run(
            [str(self.root / "build" / "program")], capture_output=True, text=True, check=False
        )
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("heap-buffer-overflow", result.stderr)

    @unittest.skipUnless(platform.machine() == "x86_64", "-mfma is an option for x86-64")
    def test_no_contraction_of_multiply_and_add(self):
        self.put(
            "src/base/a.cc",
            '#include "base/a.h"\n\ndouble g(double a, double b, double c) { return a * b + c; }\n'
            "int f(int x) { return x; }\n",
        )
        self.assert_builds("-DCMAKE_CXX_FLAGS=-O2 -mfma")
        library = str(self.root / "build/src/base/liblockstep_base.a")
        code = subprocess.run(["objdump", "-d", library], capture_output=True, text=True, check=True).stdout
        self.assertIn("mulsd", code)
        self.assertNotIn("fmadd", code)


if __name__ == "__main__":
    unittest.main()
