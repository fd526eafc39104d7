"""Writes documents of JSON, one a line, in an order of chance. "sources" are the text files below some folders in
pieces, as a code search has them; "packages" what Debian's package lists say of each; "syntax" the syntax trees of
statements of Python's library. Prints how many, and their bytes."""

import ast
import json
import os
import random
import subprocess
import sys
import sysconfig

from trees import texts

# Bytes of a document.
LEAST, MOST = 400, 4096
# Bytes of a piece: it ends with the first empty line after the one, or at the other.
PIECE, PIECE_MOST = 2000, 3200
# So that no file is more than a few of them.
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
    """Returns what a package's paragraph says; where something is a list of others, it is one."""
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
        return  # Another system's packages are not known here.
    paragraphs = [paragraph for paragraph in lists.split("\n\n") if paragraph.strip()]
    random.Random(seed).shuffle(paragraphs)
    yield from map(fields, paragraphs)


def tree(node):
    """Returns a syntax tree without what is empty."""
    if isinstance(node, list):
        return [tree(each) for each in node]
    if not isinstance(node, ast.AST):
        return node if isinstance(node, (str, int, float, bool)) else repr(node)
    known = {"node": type(node).__name__, "line": getattr(node, "lineno", None)}
    known |= {name: tree(value) for name, value in ast.iter_fields(node) if name != "ctx" and value is not None}
    return {name: value for name, value in known.items() if value not in (None, [])}


def statements(path, body):
    """Yields statements, and in place of those that are too large what is in them."""
    for node in body:
        length = (node.end_lineno - node.lineno) * 40
        if length < MOST and length > 0:
            yield {"path": path, "statement": tree(node)}
        else:
            yield from statements(path, getattr(node, "body", []))


def syntax(_, seed):
    library = sysconfig.get_paths()["stdlib"]
    for path, text in texts([library], seed):
        if not path.endswith(".py") or "-packages" in path:
            continue
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError):
            continue  # Not in this version's syntax.
        yield from statements(os.path.relpath(path, library), body)


kind, path, most, seed, *folders = sys.argv[1:]
count = size = 0
with open(path, "wb") as file:
    for known in {"sources": sources, "packages": packages, "syntax": syntax}[kind](folders, int(seed)):
        document = json.dumps(known, separators=(",", ":")).encode()
        if size >= int(most):
            break
        if LEAST <= len(document) <= MOST:
            file.write(document + b"\n")
            count, size = count + 1, size + len(document)
print(json.dumps([count, size]))
