#!/usr/bin/env python3
"""Prints the test targets of packages as arguments of `cargo test`. The programs with unit tests
are printed with `except`.

usage: tools/test-targets.py of PACKAGE... | except PACKAGE...

Cargo unifies features over the packages that a command names. So `cargo test --workspace` with the
names of test targets builds nothing again, and `cargo test -p PACKAGE` would. A name that packages
on both sides have is printed for the named ones, and selects the tests of all of them.
"""

import json
import subprocess
import sys


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("of", "except"):
        sys.exit(__doc__.split("\n\n")[1])
    how, named = sys.argv[1], set(sys.argv[2:])
    command = ["cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"]
    packages = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["packages"]
    unknown = named - {package["name"] for package in packages}
    if unknown:
        sys.exit(f"test-targets: no package is named {', '.join(sorted(unknown))}")
    targets = {True: set(), False: set()}
    for package in packages:
        for target in package["targets"]:
            if target["test"] and "test" in target["kind"]:
                targets[package["name"] in named].add(f"--test {target['name']}")
            # The unit tests of all programs; an explicit choice would include those without tests.
            elif target["test"] and "bin" in target["kind"]:
                targets[False].add(f"--bin {target['name']}")
    # If both sides have a test target of the same name, the name selects the tests of both.
    names = targets[True] if how == "of" else targets[False] - targets[True]
    print(" ".join(sorted(names)))


main()
