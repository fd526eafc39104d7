#!/usr/bin/env python3
"""Prints the test targets of packages as arguments of `cargo test`. With `except`, also prints the
programs that have unit tests.

usage: tools/test-targets.py of PACKAGE... | except PACKAGE...

Cargo unifies features over the packages that a command names. So `cargo test -p PACKAGE` would
build crates again, while `cargo test --workspace` with the names of test targets does not. If a
package in the arguments and another package have test targets with the same name, only `of` prints
the name. The name then selects the tests of all these packages.
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
            # Only programs that have unit tests are selected.
            elif target["test"] and "bin" in target["kind"]:
                targets[False].add(f"--bin {target['name']}")
    # If a package in the arguments and another package share a name, the name selects the tests of
    # both packages. So only `of` prints the name.
    names = targets[True] if how == "of" else targets[False] - targets[True]
    print(" ".join(sorted(names)))


main()
