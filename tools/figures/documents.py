"""Documents with blocks of figures in them.

    <!-- figures: NAME -->
    what this program makes of the committed results
    <!-- end -->

Between the marks all is written by this program. Elsewhere in such a document no measured figure may stand, since
nobody would notice when the results change.
"""

import re

BLOCK = re.compile(r"<!-- figures: ([a-z-]+) -->\n(.*?)<!-- end -->\n", re.DOTALL)
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
FIGURE = re.compile(r"\d+\.\d+%?|\d+ ?%")
# Versions of what was measured, or is needed, are no figures.
VERSION = re.compile(r"(Linux|Rust|nbdkit|[Vv]ersion)[ -]?\d+(\.\d+)+|GPL-2\.0|Apache-2\.0")


def filled(text, tables):
    """Returns `text` with what each block has to hold, by the name of its table."""

    def block(match):
        name = match[1]
        if name not in tables:
            raise KeyError(f"tools/figures makes no table {name!r}")
        return f"<!-- figures: {name} -->\n{tables[name].strip()}\n<!-- end -->\n"

    return BLOCK.sub(block, text)


def strays(text):
    """Returns number and text of the lines with a figure that stands in no block."""

    def blank(match):
        return "\n" * match[0].count("\n")

    rest = VERSION.sub("", CODE.sub(blank, BLOCK.sub(blank, text)))
    lines = enumerate(rest.splitlines(), 1)
    return [(number, line.strip()) for number, line in lines if FIGURE.search(line)]


def differences(old, new):
    """Returns number, old and new text of the first line that differs, or None."""
    if old == new:
        return None
    pairs = enumerate(zip(old.splitlines(), new.splitlines()), 1)
    for number, (before, after) in pairs:
        if before != after:
            return number, before, after
    return min(len(old.splitlines()), len(new.splitlines())) + 1, "(end)", "(more)"
