"""Writes JSON documents to a file in random order, with one document per line.

A document of the kind "sources" is a piece of a text file below some folders, as in the index of a code search. A
document of the kind "packages" is an entry of Debian's package lists.

Prints the number of documents, and their total size in bytes.
"""

import json
import os
import random
import subprocess
import sys

from trees import texts

# The minimum and the maximum size of a document in bytes.
LEAST, MOST = 400, 4096
# A piece ends at the first empty line after PIECE bytes, and has at most about PIECE_MOST bytes.
PIECE, PIECE_MOST = 2000, 3200
# The maximum number of pieces of a file.
PIECES = 64
LISTS = {"Breaks", "Conflicts", "Depends", "Enhances", "Pre-Depends", "Provides", "Recommends", "Replaces", "Suggests", "Tag"}


def pieces(path, text):
    lines, first = text.decode(errors="replace").split("\n"), 0
    for _ in range(PIECES):
        size, end = 0, first
        while end < len(lines) and size < PIECE_MOST and (lines[end].strip() or size < PIECE):
            size, end = size + len(lines[end]) + 1, end + 1
        if first == end:
            return
        yield {"path": path, "first": first + 1, "last": end, "lines": lines[first:end]}
        while end < len(lines) and not lines[end].strip():
            end += 1
        first = end


def sources(folders, seed):
    for path, text in texts(folders, seed):
        yield from pieces(os.path.relpath(path, folders[0]), text)


def fields(paragraph):
    """Returns the fields of a package's paragraph. A field that lists other packages becomes a list."""
    known, name = {}, None
    for line in paragraph.splitlines():
        if line[:1].isspace():
            known[name] += "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            known[name] = value.strip()
    return {name: value.replace("\n", " ").split(", ") if name in LISTS else value for name, value in known.items()}


def packages(_, seed):
    try:
        lists = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        return  # Only Debian has this command.
    paragraphs = [paragraph for paragraph in lists.split("\n\n") if paragraph.strip()]
    random.Random(seed).shuffle(paragraphs)
    yield from map(fields, paragraphs)


kind, path, most, seed, *folders = sys.argv[1:]
count = size = 0
with open(path, "wb") as file:
    for known in {"sources": sources, "packages": packages}[kind](folders, int(seed)):
        document = json.dumps(known, separators=(",", ":")).encode()
        if size >= int(most):
            break
        if LEAST <= len(document) <= MOST:
            file.write(document + b"\n")
            count, size = count + 1, size + len(document)
print(json.dumps([count, size]))
