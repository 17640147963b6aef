"""tools/check_style.py finds each kind of violation, and nothing in a tree that has none."""

import unittest

from planted import PlantedTree

NOTE = "TO" + "DO"  # in two halves: this file is checked too


def function_of(lines, name="f", indent=""):
    body = "".join(f"{indent}  x += {n};\n" for n in range(lines - 2))
    return f"{indent}void {name}(int x) {{\n{body}{indent}}}\n"


class Style(PlantedTree):
    def finds(self, place, *words):
        self.assert_finds(place, *words, tool="check_style.py")

    def assert_clean_style(self):
        self.assert_clean("check_style.py")

    def test_clean_tree_passes(self):
        self.put("src/a.h", "// What it is.\n#pragma once\n\nvoid f();\n")
        self.put("src/a.cc", '#include "a.h"\n\n' + function_of(70))
        self.put("a.py", "def f():\n    return 1\n")
        self.assert_clean_style()

    def test_long_function(self):
        self.put("src/a.cc", '#include "a.h"\n\n' + function_of(71))
        self.finds("src/a.cc:3", "function f", "71 lines", "at most 70")

    def test_long_functions_in_disguise(self):
        long_body = "".join(f"  x += {n};\n" for n in range(80))
        for head, name in [
            ("TEST(Suite, name) {", "TEST"),
            ("A::A(int b)\n    : b_(b) {", "A::A"),
            ("auto f(int x) const noexcept -> int {", "f"),
            ("static int g(int (*h)(int)) {", "g"),
            ("template <class T>\nvoid t(T x) {", "t"),
            ('struct S* make(const char* s = "{") {', "make"),
        ]:
            with self.subTest(head):
                self.put("src/a.cc", f"namespace n {{\n\n{head}\n{long_body}}}\n\n}}  // namespace n\n")
                self.finds("src/a.cc:3", f"function {name} ", "at most 70")

    def test_method_inside_a_class(self):
        self.put("src/a.cc", "class C {\n public:\n" + function_of(71, "m", "  ") + "};\n")
        self.finds("src/a.cc:3", "function m", "71 lines")

    def test_long_table_and_class_are_no_functions(self):
        self.put(
            "src/a.cc",
            "const int kTable[] = {\n" + "  1,\n" * 100 + "};\n\nclass C {\n" + "  int x;\n" * 90 + "};\n",
        )
        self.assert_clean_style()

    def test_braces_in_strings_comments_and_macros_do_not_count(self):
        self.put(
            "src/a.cc",
            '#define OPEN {\n// {\n/* { */\nconst char* k = "{";\nconst char* r = R"x({)x";\n'
            "const char c = '{';\nint big = 1'000'000;\n" + function_of(60) + "\n" + function_of(60, "g"),
        )
        self.assert_clean_style()
        self.put("src/b.cc", 'const char* k = "{";\n' + function_of(75))
        self.finds("src/b.cc:2", "function f", "75 lines")

    def test_long_python_function(self):
        self.put("a.py", "def f():\n" + "    x = 1\n" * 70)
        self.finds("a.py:1", "function f", "71 lines")

    def test_long_file(self):
        self.put("src/a.cc", "int x;\n" * 601)
        self.finds("src/a.cc:1", "file has 601 lines", "at most 600")

    def test_ratchet_allows_but_only_shrinks(self):
        self.put("src/a.cc", function_of(80))
        self.put("tools/style_ratchet.txt", "# PATH WHAT LINES\nsrc/a.cc f 80\n")
        self.assert_clean_style()
        self.put("src/a.cc", function_of(81))
        self.finds("src/a.cc:1", "81 lines", "at most 80")
        self.put("src/a.cc", function_of(79))
        self.finds("src/a.cc:1", "shrunk to 79")
        self.put("src/a.cc", "int x;\n")
        self.finds("tools/style_ratchet.txt:2", "is gone")

    def test_wide_line(self):
        self.put("src/a.cc", "int x;\n" + "// " + "y" * 108 + "\n")
        self.finds("src/a.cc:2", "111 columns")

    def test_tabs_and_trailing_blanks(self):
        self.put("src/a.cc", "int x;\n\tint y;\nint z; \n")
        self.finds("src/a.cc:2", "tab")
        self.finds("src/a.cc:3", "blanks at the end")

    def test_missing_line_break_at_the_end(self):
        self.put("src/a.cc", "int x;\nint y;")
        self.finds("src/a.cc:2", "no line break")

    def test_notes_to_oneself(self):
        self.put("README.md", f"# Title\n\n{NOTE}: write this\n")
        self.finds("README.md:3", NOTE)

    def test_header_without_comment_or_guard(self):
        self.put("src/a.h", "#pragma once\nvoid f();\n")
        self.finds("src/a.h:1", "opens with")
        self.put("src/a.h", "// What it is.\nvoid f();\n")
        self.finds("src/a.h:1", "#pragma once")


if __name__ == "__main__":
    unittest.main()
