"""Generates the blocks of README.md, from the committed results and from `answered`."""

from answered import OVERWRITES_COMMIT, OVERWRITES_CPU, STORE_OVER
from form import over_kernel, percent, prose, ratio, span, table, thousands

OTHER = "overwriting with other pages by 4 KiB"
ANYWHERE = "reading by 4 KiB in random order"
RUN = ": wall clock {}, over the kernel's"


def table_front(r):
    """Compares the memory that stored data use with the size of the data."""
    def row(what, name):
        ours = [r.value("blocks-ratio", f"{name}/{codec}: memory over original")
                for codec in ("lz4, 4 KiB", "zstd 3, 4 KiB", "zstd 3, 64 KiB")]
        raw = r.rival("blocks-ratio", f"{name}/lz4, 4 KiB: memory over original")
        kernel = raw * (1 + r.rival("fill", f"{name}/overhead over C") / 100)
        return [what, *(percent(value) for value in [*ours, kernel])]

    rows = [row("a Linux source tree", "source"), row("the heap of a Python process", "heap")]
    return table(["memory, in percent of the data's size", "uzram: lz4", "zstd", "zstd, blocks of 64 KiB",
                  "the kernel's zram (Linux 6.18): lz4"], rows)


def table_six(r):
    """Lists the most important figures, each with the rival's figure."""
    def removed(what):
        return percent(r.value("removal", f"random 97%/{what}"))

    compact = removed("kernel's overhead over C after its compact")
    kernel_removed = percent(r.rival("removal", "random 97%/overhead over C"))
    jobs = [f"zstd: random 4 KiB {job}" for job in ("writes", "reads")]
    run = span(*r.ends("run", RUN.format("with none and as much memory in all")))
    return table(["measurement (with lz4 unless a codec is named)", "uzram", "rival"], [
        ["memory in excess of C, the size of the data compressed by lz4 alone: 1 GiB of the Linux source tree",
         percent(r.value("fill", "source/overhead over C")),
         f"kernel zram {percent(r.rival('fill', 'source/overhead over C'))}"],
        ["the same for the whole tree, after a random 97% of its pages was dropped",
         removed("overhead over C"),
         f"kernel zram {kernel_removed}; {compact} after its `compact`"],
        ["overwrites of 4 KiB by one thread, in the same process", *beside_kernel(over_kernel(r, OTHER))],
        ["random reads of 4 KiB by one thread, in the same process", *beside_kernel(over_kernel(r, ANYWHERE))],
        ["4 KiB requests a second over NBD, 16 at a time, zstd: writes; reads",
         "; ".join(thousands(r.value("nbd", job)) for job in jobs),
         "nbdkit, blocks of 32 KiB: " + "; ".join(thousands(r.rival("nbd", job)) for job in jobs)],
        ["wall-clock time of seven programs that need more memory than their limit, under `uzram run`, without privileges",
         f"{run} times the kernel's", "swap on the kernel's zram, with the same total memory"],
    ])


def beside_kernel(ranges):
    """Returns two cells: the throughput by processor, relative to the kernel's, and the rival."""
    first, *others = ranges
    cell = "; ".join([f"{first} times the kernel's", *(f"{other} on another processor" for other in others)])
    return [cell, "kernel zram by direct I/O"]


def table_losses(r):
    """Lists the figures in which rivals are better. The input is the heap if a figure has several inputs."""
    def requests(what):
        # Converts MB/s to requests of 4 KiB per second.
        return thousands(r.rival("throughput", f"heap/{what}, ours over kernel zram") * 1e6 / 4096)

    served = thousands(r.value("nbd", "lz4 over uncompressed: 4 KiB reads and writes"))
    raw = span(*r.ends("throughput", f"/{OTHER}, ours over raw lz4"))
    run = span(*r.ends("run", RUN.format("with none")))
    return "\n".join([
        prose(f"- **A served disk is slower than the kernel's device.** A request goes to another process and back: "
              f"over NBD it serves {served} requests of 4 KiB a second, 16 at a time; the kernel's zram gives "
              f"one thread {requests(OTHER)} writes, {requests(ANYWHERE)} reads.", "  "),
        prose(f"- **It takes processor time.** Overwriting gets {raw} of the throughput of lz4 alone. Moving objects "
              f"during ten million overwrites took {OVERWRITES_CPU} (commit `{OVERWRITES_COMMIT}`).", "  "),
        prose(f"- **As an allocator the pool is slow**: a store and a free take {STORE_OVER['mimalloc']} times "
              f"mimalloc's time, {STORE_OVER['jemalloc']} jemalloc's.", "  "),
        prose("- **`uzram run` counts compressed data towards its limit**, which the limit of a memory cgroup does not. At "
              f"equal limits, programs took {run} times the wall-clock time that they took with the kernel's swap on "
              "zram.", "  "),
    ])
