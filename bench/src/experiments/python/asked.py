"""Answers another process: each line that it sends is a list, a function's name and what it is given."""

import json
import sys


def memory():
    """Returns bytes of memory that are this process's own, files left out."""
    with open("/proc/self/status", encoding="ascii") as file:
        kibibytes = [int(line.split()[1]) for line in file if line.startswith(("RssAnon:", "RssShmem:", "VmSwap:"))]
    return sum(kibibytes) << 10


def answer(*functions):
    """Calls what is asked for until nothing more is."""
    by_name = {function.__name__: function for function in functions}
    for line in sys.stdin:
        name, *given = json.loads(line)
        print(json.dumps(by_name[name](*given)), flush=True)
