#!/usr/bin/env python3
"""Writes the figures in README.md and docs/results.md, and the chart docs/overhead.svg, from the committed results.

    python3 tools/figures            writes the figures and the chart
    python3 tools/figures --check    writes nothing, and exits with 1 if a figure or the chart is out of date
"""

import argparse
import sys
from pathlib import Path

# Python writes no bytecode files beside the sources.
sys.dont_write_bytecode = True

import chart
import documents
import form
import readme
import report
from results import Missing, Results

DOCUMENTS = ["README.md", "docs/results.md"]
PICTURE = "docs/overhead.svg"


def wanted(root):
    """Yields the path of each generated file, and the text that the file must have."""
    results = Results(root / "bench/results")
    made = form.tables(readme, results) | form.tables(report, results)
    for name in DOCUMENTS:
        yield name, documents.filled((root / name).read_text(), made)
    yield PICTURE, chart.drawn(results)


def faults(root):
    """Yields a message with a remedy for each wrong line of the generated files."""
    for name, text in wanted(root):
        path = root / name
        old = path.read_text() if path.exists() else ""
        if differs := documents.differences(old, text):
            number, before, after = differs
            yield (f"{name}:{number} is not what the committed results say:\n"
                   f"  is      {before}\n  must be {after}\n  run: make figures")
        if name in DOCUMENTS:
            for number, line in documents.strays(text):
                yield (f"{name}:{number} has a figure that no result stands behind:\n  {line}\n"
                       "  move it to a block, whose text is made in tools/figures/readme.py or report.py")


def main():
    form_of_help = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="tools/figures", description=__doc__, formatter_class=form_of_help)
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if something is out of date")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2], help="another checkout")
    arguments = parser.parse_args()
    try:
        if not arguments.check:
            for name, text in wanted(arguments.root):
                (arguments.root / name).write_text(text)
        found = list(faults(arguments.root))
    except (Missing, KeyError, ValueError, OSError) as error:
        found = [str(error)]
    for fault in found:
        print(f"figures: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
