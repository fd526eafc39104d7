"""A table of numbers in plain memory ("plain"), in a region of uzram's ("region"), or in a file ("memmap"): the same
work on each. Columns lie one after the other."""

import sys
from time import perf_counter
from zlib import crc32

import numpy
import numpy.random

from asked import answer, memory

COLUMNS = 8
# Numbers that are loaded, sorted or changed at once.
PIECE = 1 << 16

kind, source, rows, seed, place = sys.argv[1:6]
rows, seed = int(rows), int(seed)
# Sorts as later ones do: what that brings along is there before.
numpy.random.default_rng(seed).random(PIECE).sort()
before = memory()
if kind == "plain":
    numbers = numpy.zeros(COLUMNS * rows)
elif kind == "memmap":
    mapped = numpy.memmap(place, numpy.float64, "w+", shape=COLUMNS * rows)
    numbers = numpy.asarray(mapped)
else:
    import uzram

    limit, algorithm, block = int(sys.argv[6]), sys.argv[7], int(sys.argv[8])
    region = uzram.Region(8 * COLUMNS * rows, limit, algorithm=algorithm, block_size=block)
    numbers = numpy.frombuffer(region, numpy.float64)
columns = numbers.reshape(COLUMNS, rows)


def pieces(of):
    return (of[first : first + PIECE] for first in range(0, len(of), PIECE))


def load(turn):
    """Takes the table as it was made."""
    seconds = 0
    with open(source, "rb") as file:
        for piece in pieces(numbers):
            read = numpy.fromfile(file, numpy.float64, len(piece))
            begun = perf_counter()
            piece[:] = read
            seconds += perf_counter() - begun
    return seconds, memory() - before


def sums(turn):
    """Adds up each column. They are whole numbers, and their sums are exact."""
    begun = perf_counter()
    sums = [float(column.sum()) for column in columns]
    seconds = perf_counter() - begun
    return seconds, crc32(repr(sums).encode())


def sort(turn):
    """Sorts each piece of each column."""
    begun = perf_counter()
    for column in columns:
        for piece in pieces(column):
            piece.sort()
    return perf_counter() - begun, memory() - before


def update(turn):
    """Adds to numbers that are drawn from a tenth of the table, as many as it has."""
    chance, tenth, seconds = numpy.random.default_rng((seed, turn)), max(1, len(numbers) // 10), 0
    first = chance.integers(len(numbers) - tenth)
    for _ in range(-(-tenth // PIECE)):
        places = first + chance.integers(0, tenth, PIECE)
        begun = perf_counter()
        numbers[places] += 1.0
        seconds += perf_counter() - begun
    return seconds, memory() - before


def settle(turn):
    """Has what was written to a file be there, so that it is written in nobody else's time."""
    if kind == "memmap":
        mapped.flush()


def check(turn):
    """Returns a checksum of all numbers."""
    checksum = 0
    for piece in pieces(numbers):
        checksum = crc32(piece, checksum)
    return 0, checksum


answer(memory, load, sums, sort, update, settle, check)
