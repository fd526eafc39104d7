"""Writes a table of numbers, float64, one column after the other: for each line of the text files below some
folders its file, number, place, length, indentation, words, letters and first character. Prints its rows."""

import itertools
import json
import sys

import numpy

from trees import texts

COLUMNS = 8


def rows(number, text):
    """Returns a column for each thing that is known of the lines of a file."""
    text = numpy.frombuffer(text, numpy.uint8)
    ends = numpy.flatnonzero(text == ord("\n"))
    starts = numpy.concatenate(([0], ends[:-1] + 1))[: len(ends)]
    lengths = ends - starts
    is_blank = (text == ord(" ")) | (text == ord("\t")) | (text == ord("\n"))
    begins = ~is_blank & numpy.concatenate(([True], is_blank[:-1]))
    is_letter = (text >= ord("a")) & (text <= ord("z"))
    words, letters = (
        sums[ends] - sums[starts] for sums in (numpy.concatenate(([0], numpy.cumsum(of))) for of in (begins, is_letter))
    )
    shown = numpy.append(numpy.flatnonzero(~is_blank), len(text) - 1)
    indents = numpy.clip(shown[numpy.searchsorted(shown[:-1], starts)] - starts, 0, lengths)
    file = numpy.full(len(ends), number)
    return numpy.stack([file, numpy.arange(len(ends)) + 1, starts, lengths, indents, words, letters, text[starts + indents]])


path, size, seed, *folders = sys.argv[1:]
wanted, parts, count = int(size) // (8 * COLUMNS), [], 0
for number, (_, text) in zip(itertools.count(), texts(folders, int(seed))):
    if count >= wanted:
        break
    parts.append(rows(number, text).astype(numpy.float64))
    count += parts[-1].shape[1]
table = numpy.concatenate(parts, axis=1)[:, :wanted]
table.tofile(path)
print(json.dumps(table.shape[1]))
