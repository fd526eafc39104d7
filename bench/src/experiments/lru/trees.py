"""The text files below some folders, in an order of chance."""

import os
import random


def files(folders, seed):
    """Returns the paths of all regular files, the same for each seed."""
    paths = []
    for top in folders:
        for folder, below, names in os.walk(top):
            below.sort()
            paths += (os.path.join(folder, name) for name in sorted(names))
    paths = [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
    random.Random(seed).shuffle(paths)
    return paths


def texts(folders, seed):
    """Yields paths and the bytes of files that are text, as far as their beginning tells."""
    for path in files(folders, seed):
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError:
            continue  # Not for us, or gone.
        if text and b"\0" not in text[:4096]:
            yield path, text
