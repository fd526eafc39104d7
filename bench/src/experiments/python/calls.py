"""A device of uzram's that is written and read by 64 KiB, by one thread or by two."""

import sys
import threading
from array import array
from time import perf_counter

import uzram

from asked import answer

REQUEST = 64 << 10

with open(sys.argv[1], "rb") as file:
    pages = memoryview(file.read())
order = array("I")
with open(sys.argv[2], "rb") as file:
    order.frombytes(file.read())
device = uzram.Device(len(pages), block_size=4096)


def part(slot, shift):
    """Returns what lies in a slot, where each holds the pages of one so many further on."""
    first = (slot + shift) % len(order) * REQUEST
    return pages[first : first + REQUEST]


def write(todo, _):
    for offset, data in todo:
        device.write(offset, data)


def read(todo, buffer):
    for offset, _ in todo:
        device.readinto(offset, buffer)


def turn(job, shift, threads):
    """Does a job for all slots in the order; returns seconds from the first thread let go to the last one done.

    Each thread takes the next slot: processors of a machine that others use are not equally fast.
    """
    todo = iter([(slot * REQUEST, part(slot, shift)) for slot in order])
    times = []
    barrier = threading.Barrier(threads)

    def work(buffer):
        barrier.wait()
        begun = perf_counter()
        {"write": write, "read": read}[job](todo, buffer)
        times.append((begun, perf_counter()))

    started = [threading.Thread(target=work, args=(bytearray(REQUEST),)) for _ in range(threads)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    if len(times) < threads:
        raise SystemExit("a thread failed: see its message above")
    return max(end for _, end in times) - min(begun for begun, _ in times)


def differing(shift):
    """Returns how many slots hold something else than was written there."""
    return sum(device.read(slot * REQUEST, REQUEST) != part(slot, shift) for slot in order)


answer(turn, differing)
