#!/usr/bin/env python3
"""Makes the text that is built into the binary (--data builtin) out of the project's own words.

Documents are taken first (README, docs/guide, the rest of docs), then the comments of the sources as prose,
up to a size. The parts are then put in the order of the hash of their paths, so that the last tenth, which is
the validation split, is a mixture like the rest. The result is plain ASCII in lines of at most 80 characters,
the same for the same tree.

    tools/make_builtin_text.py               show what would go in, write nothing
    tools/make_builtin_text.py --text FILE   write the text to look at
    tools/make_builtin_text.py --freeze      write src/data/builtin_text.txt.zst and builtin_text.sha256

The frozen text is part of what a run means, so freeze only on purpose: every loss on it changes.
Needs the zstd program for --freeze.
"""
import argparse
import hashlib
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST_DOCUMENTS = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
SOURCE_FOLDERS = ["src", "tests", "bench", "fuzz", "tools"]
LINE_CHARACTERS = 80

ASCII = {
    "\u2013": "-", "\u2014": "-", "\u2212": "-", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"',
    "\u2026": "...", "\u00d7": "x", "\u00b7": "*", "\u2192": "->", "\u2190": "<-", "\u2264": "<=",
    "\u2265": ">=", "\u2260": "!=", "\u2248": "~", "\u221a": "sqrt", "\u00b2": "^2", "\u00b3": "^3",
    "\u00b1": "+-", "\u00b5": "u", "\u03bc": "u", "\u03b2": "beta", "\u03c3": "sigma", "\u00a0": " ",
    "\u2022": "-", "\u2211": "sum", "\u03b5": "eps", "\u2070": "^0", "\u207b": "^-",
}


def to_ascii(text, path):
    for character, replacement in ASCII.items():
        text = text.replace(character, replacement)
    unknown = sorted({c for c in text if ord(c) > 126 or (ord(c) < 32 and c != "\n")})
    if unknown:
        print(f"{path}: left out {' '.join(f'U+{ord(c):04X}' for c in unknown)}", file=sys.stderr)
    return "".join(c for c in text if c not in unknown)


def wrap(paragraph, indent=""):
    return textwrap.fill(paragraph, LINE_CHARACTERS, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def is_rule_or_table(line):
    return line.startswith("|") or re.fullmatch(r"[-=*_ ]{3,}", line) is not None


def document_text(markdown):
    """Markdown as plain paragraphs: no markup, tables, links' addresses or commands in fences."""
    markdown = re.sub(r"<!--.*?-->", "", markdown, flags=re.S)
    paragraphs, lines, fenced = [], [], False

    def flush():
        if lines:
            indent = "  " if re.match(r"(- |\d+\. )", lines[0]) else ""
            paragraphs.append(wrap(" ".join(lines), indent))
            lines.clear()

    for raw in markdown.splitlines():
        line = raw.strip()
        if line.startswith("```"):
            flush()
            fenced = not fenced
            continue
        if fenced or is_rule_or_table(line):
            continue
        if raw.startswith("    ") and not lines:  # an indented formula stays as it is
            paragraphs.append("    " + line)
            continue
        line = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", line)
        line = re.sub(r"\*\*|`", "", line)
        if line.startswith("#"):
            flush()
            paragraphs.append(line.lstrip("# "))
        elif not line:
            flush()
        else:
            if re.match(r"([-*]|\d+\.) ", line):
                flush()
                line = re.sub(r"^\* ", "- ", line)
            lines.append(line)
    flush()
    return "\n\n".join(paragraphs) + "\n"


def comment_text(source):
    """The // and /// comments that stand on lines of their own, one paragraph for each run of lines."""
    paragraphs, lines = [], []
    for raw in source.splitlines() + [""]:
        match = re.match(r"\s*///?<?( .*|)$", raw)
        words = match.group(1).strip() if match else ""
        if words:
            lines.append(words)
        elif lines:
            paragraph = " ".join(lines)
            # NOLINT marks, labels and commented code are no prose.
            if len(paragraph.split()) >= 6 and "NOLINT" not in paragraph and "clang-format" not in paragraph:
                paragraphs.append(wrap(paragraph))
            lines.clear()
    return "\n\n".join(paragraphs) + "\n" if paragraphs else ""


def collect():
    """(path, text) of every part, the most wanted first."""
    documents = [ROOT / name for name in FIRST_DOCUMENTS if (ROOT / name).exists()]
    documents += sorted((ROOT / "docs" / "guide").glob("*.md"))
    documents += [p for p in sorted((ROOT / "docs").rglob("*.md")) if p not in documents]
    parts = [(path, document_text(path.read_text(encoding="utf-8"))) for path in documents]
    for folder in SOURCE_FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc") and path.is_file():
                parts.append((path, comment_text(path.read_text(encoding="utf-8"))))
    named = [(path.relative_to(ROOT).as_posix(), text) for path, text in parts]
    return [(name, to_ascii(text, name)) for name, text in named if text.strip()]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--freeze", action="store_true")
    parser.add_argument("--text", metavar="FILE")
    parser.add_argument("--max-bytes", type=int, default=400_000, help="leave out the parts after this size")
    arguments = parser.parse_args()
    kept, size = [], 0
    for name, part in collect():
        if size + len(part) + 1 > arguments.max_bytes:
            break
        kept.append((hashlib.sha256(name.encode()).hexdigest(), name, part))
        size += len(part) + 1
    text = "".join(part + "\n" for _, _, part in sorted(kept))
    for _, name, part in sorted(kept):
        print(f"{len(part):8d}  {name}")
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    print(f"{len(text):8d}  in all, {len(set(text))} distinct characters, SHA-256 {digest}")
    if arguments.text:
        pathlib.Path(arguments.text).write_text(text, encoding="ascii")
    if arguments.freeze:
        target = ROOT / "src" / "data" / "builtin_text.txt.zst"
        packed = subprocess.run(["zstd", "-19", "--no-check", "-c", f"--stream-size={len(text)}"],
                                input=text.encode("ascii"), stdout=subprocess.PIPE, check=True).stdout
        target.write_bytes(packed)
        (target.parent / "builtin_text.sha256").write_text(f"{digest} {len(text)}\n", encoding="ascii")
        print(f"{len(packed):8d}  compressed, in {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
