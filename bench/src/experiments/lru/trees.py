"""The text files below some folders, in random order."""

import os
import random


def files(folders, seed):
    """Returns the paths of all regular files, in an order that depends only on the seed."""
    paths = []
    for top in folders:
        for folder, below, names in os.walk(top):
            below.sort()
            paths += (os.path.join(folder, name) for name in sorted(names))
    paths = [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
    random.Random(seed).shuffle(paths)
    return paths


def texts(folders, seed):
    """Yields the paths and the contents of text files. The first bytes of a text file contain no zero."""
    for path in files(folders, seed):
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError:
            continue  # The file can't be read, or was deleted.
        if text and b"\0" not in text[:4096]:
            yield path, text
