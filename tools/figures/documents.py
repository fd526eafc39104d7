"""Fills the blocks of figures in documents. A block has this form:

    <!-- figures: NAME -->
    the text that this program generates from the committed results
    <!-- end -->

This program writes the text between the marks. The text outside of blocks must not contain measured figures,
because a figure outside of a block is not updated when the results change.
"""

import re

BLOCK = re.compile(r"<!-- figures: ([a-z-]+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
FIGURE = re.compile(r"\d+\.\d+%?|\d+ ?%")
# Versions of programs are not figures.
VERSION = re.compile(r"(Linux|Rust|nbdkit|[Vv]ersion)[ -]?\d+(\.\d+)+|GPL-2\.0|Apache-2\.0")


def filled(text, tables):
    """Replaces the text of each block in `text` by the table with the block's name."""

    def block(match):
        name = match[1]
        if name not in tables:
            raise KeyError(f"tools/figures makes no table {name!r}")
        return f"<!-- figures: {name} -->\n{tables[name].strip()}\n<!-- end -->\n"

    return BLOCK.sub(block, text)


def strays(text):
    """Returns the number and the text of each line that has a figure outside of a block."""

    def blank(match):
        return "\n" * match[0].count("\n")

    rest = VERSION.sub("", CODE.sub(blank, BLOCK.sub(blank, text)))
    lines = enumerate(rest.splitlines(), 1)
    return [(number, line.strip()) for number, line in lines if FIGURE.search(line)]


def differences(old, new):
    """Returns the number of the first different line, its old text and its new text, or None if no line differs."""
    if old == new:
        return None
    pairs = enumerate(zip(old.splitlines(), new.splitlines()), 1)
    for number, (before, after) in pairs:
        if before != after:
            return number, before, after
    return min(len(old.splitlines()), len(new.splitlines())) + 1, "(end)", "(more)"
