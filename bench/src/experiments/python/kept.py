"""Documents in a cache of uzram's ("cache"), in a dict as they are ("dict") or by zlib ("zlib"), or in diskcache's
cache ("diskcache"): how many fit, and how fast they come back."""

import random
import sys
import zlib
from time import perf_counter

from asked import answer, memory

# Documents after which it is seen whether memory is full.
STEP = 256


class Zlib(dict):
    """A dict whose values are compressed, as far as it is used here."""

    def __setitem__(self, key, value):
        super().__setitem__(key, zlib.compress(value))

    def __getitem__(self, key):
        return zlib.decompress(super().__getitem__(key))


def made():
    if kind == "cache":
        import uzram

        return lambda: uzram.Cache(limit)
    if kind == "diskcache":
        import diskcache

        return lambda: diskcache.Cache(place, size_limit=1 << 40)
    return {"dict": dict, "zlib": Zlib}[kind]


kind, path, limit, place = sys.argv[1:]
limit = int(limit)
make = made()
before = memory()
store, inserted, keys = make(), 0, []


def documents():
    """Yields numbers and documents of the file."""
    with open(path, "rb") as file:
        for number, line in enumerate(file):
            yield number, line.rstrip(b"\n")


def is_full(most):
    if kind == "cache":
        # Some have gone by then, and those that came before there was a dictionary are among them.
        return len(store) < inserted * 19 // 20
    return memory() - before >= most


def fill(most):
    """Stores documents until memory is full: of a cache its limit, else so many bytes. Returns how many it keeps, of
    how many, the memory that they take, and seconds."""
    global inserted
    begun = perf_counter()
    for key, document in documents():
        store[key] = document
        inserted += 1
        if inserted % STEP == 0:
            # What is there for reading counts too.
            store[key]
            if is_full(most):
                break
    return len(store), inserted, memory() - before, perf_counter() - begun


def load(count):
    """Stores the first documents; returns seconds."""
    global inserted
    begun = perf_counter()
    for (key, document), inserted in zip(documents(), range(1, count + 1)):
        store[key] = document
        keys.append(key)
    return perf_counter() - begun


def differing():
    """Returns how many documents are not what was stored, and how many it keeps."""
    wrong = kept = 0
    for (key, document), _ in zip(documents(), range(inserted)):
        if key in store:
            wrong, kept = wrong + (store[key] != document), kept + 1
    return wrong, kept


def gets(count, seed):
    """Gets documents by chance; returns seconds and the sum of their lengths."""
    wanted, size = random.Random(seed).choices(keys, k=count), 0
    begun = perf_counter()
    for key in wanted:
        size += len(store[key])
    return perf_counter() - begun, size


answer(fill, load, differing, gets)
