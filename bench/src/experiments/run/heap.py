"""Creates a heap of small objects of many kinds from the library's sources. Most of the work uses a tenth
of the heap. The arguments are the heap's size in bytes and a seed, which determine the printed checksum."""

import os
import random
import sys
import sysconfig
import zlib

ROUNDS = 3
OF_HOT = 60
OF_COLD = 1


def sources():
    """Returns the paths of the library's sources."""
    root = sysconfig.get_paths()["stdlib"]
    paths = []
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in ("dist-packages", "site-packages"))
        paths += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")]
    return paths


def built(target):
    """Returns records of lines, and an index of words per file, with `target` bytes in total."""
    records, indexes, size, paths = [], [], 0, sources()
    while True:
        for path in paths:
            index = {}
            indexes.append(index)
            with open(path, encoding="utf-8", errors="replace") as file:
                for at, text in enumerate(file):
                    words = text.split()
                    record = {"line": at, "text": text, "words": words, "hits": [len(records)]}
                    # The sizes of the record's parts, and of their references in the list and the index.
                    size += sys.getsizeof(record) + sys.getsizeof(text) + sys.getsizeof(words) + 8
                    size += sum(map(sys.getsizeof, words)) + sys.getsizeof(record["hits"]) + 64
                    records.append(record)
                    for word in words[:4]:
                        index.setdefault(word, []).append((at, len(records) - 1))
                        size += 56 + 24 + 32 + 9
                    if size >= target:
                        return records, indexes


def visit(record, checksum):
    """Reads a record and changes it."""
    hits = record["hits"]
    hits[0] = hits[0] * 31 + len(record["text"]) & 0xFFFFFFFF
    word = record["words"][-1] if record["words"] else ""
    return zlib.crc32(word.encode(), checksum ^ hits[0])


def main():
    target, seed = int(sys.argv[1]), int(sys.argv[2])
    chance, checksum = random.Random(seed), 0
    records, indexes = built(target)
    indexes = [(index, sorted(index)) for index in indexes if index]
    count = len(records)
    for nth in range(ROUNDS):
        hot = count * nth // (ROUNDS + 7)
        for _ in range(OF_HOT * count // 100):
            checksum = visit(records[hot + chance.randrange(count // 10)], checksum)
        for _ in range(OF_COLD * count // 100):
            index, words = indexes[chance.randrange(len(indexes))]
            places = index[words[chance.randrange(len(words))]]
            checksum = visit(records[places[chance.randrange(len(places))][1]], checksum)
    for record in records:
        checksum = visit(record, checksum)
    print(f"{count} records, {len(indexes)} files, {checksum:08x}")


main()
