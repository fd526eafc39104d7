# Fills the heap with syntax trees of the standard library, until the process has the given number of resident bytes.
# Prints the number of trees, and waits until standard input is closed.
import ast
import os
import sys
import sysconfig


def modules():
    found = []
    for folder, folders, names in os.walk(sysconfig.get_paths()["stdlib"]):
        folders[:] = sorted(set(folders) - {"dist-packages", "site-packages", "__pycache__"})
        found += [os.path.join(folder, name) for name in sorted(names) if name.endswith(".py")]
    # The tests come last, because some systems lack them.
    return sorted(found, key=lambda path: "/test/" in path or "/tests/" in path)


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


trees = []
for path in modules():
    if resident_bytes() >= int(sys.argv[1]):
        break
    try:
        with open(path, "rb") as file:
            trees.append(ast.parse(file.read(), path))
    except (OSError, SyntaxError, ValueError, RecursionError):
        pass  # Python can't parse some files, such as lib2to3's samples.
print(len(trees), flush=True)
sys.stdin.read()
