"""The blocks of README.md: each number is read from the committed results."""

from form import over_kernel, percent, prose, ratio, span, table, thousands

OTHER = "overwriting with other pages by 4 KiB"
ANYWHERE = "reading by 4 KiB in random order"


def table_front(r):
    """Memory beyond the data, in two rows."""
    def row(what, step, suffix=""):
        figure = f"{step}/overhead over C"
        mebibytes = r.value("removal", f"{step}/C by raw lz4")
        ours, kernel = r.value("removal", figure), r.rival("removal", figure)
        return [what.format(f"{mebibytes:.0f} MiB"), percent(ours), percent(kernel) + suffix]

    compact = percent(r.value("removal", "directories/kernel's overhead over C after its compact"))
    rows = [
        row("a whole Linux source tree, C = {}; a second after it was stored", "untar"),
        row("the same after deletions, C = {}", "-tools", f"; {compact} after its `compact`"),
    ]
    head = "memory taken beyond C, which is what lz4 alone makes of the data"
    return table([head, "uzram", "the kernel's zram (Linux 6.18)"], rows)


def table_six(r):
    """What matters most, beside a rival each."""
    def removed(what):
        return percent(r.value("removal", f"random 97%/{what}"))

    compact = removed("kernel's overhead over C after its compact")
    kernel_removed = percent(r.rival("removal", "random 97%/overhead over C"))
    jobs = [f"zstd: random 4 KiB {job}" for job in ("writes", "reads")]
    sizes = [f"heap/zstd 3, {size} KiB: memory over original" for size in (4, 16, 64)]
    return table(["what (lz4 where nothing is said)", "uzram", "beside it"], [
        ["memory beyond C: 1 GiB of the Linux source tree, as soon as it is stored",
         percent(r.value("fill", "source/overhead over C")),
         f"kernel zram {percent(r.rival('fill', 'source/overhead over C'))}"],
        ["the whole tree, after all but a random 3% of its pages was dropped",
         removed("overhead over C"),
         f"kernel zram {kernel_removed}; {compact} after its `compact`"],
        ["4 KiB overwrites on one thread, in process", *beside_kernel(over_kernel(r, OTHER))],
        ["4 KiB reads anywhere on one thread, in process", *beside_kernel(over_kernel(r, ANYWHERE))],
        ["4 KiB requests a second over NBD, 16 at a time, zstd: writes; reads",
         "; ".join(thousands(r.value("nbd", job)) for job in jobs),
         "nbdkit, blocks of 32 KiB: " + "; ".join(thousands(r.rival("nbd", job)) for job in jobs)],
        ["memory of a CPython heap over its size, zstd, blocks of 4; 16; 64 KiB",
         "; ".join(f"{r.value('blocks', figure):.1f}%" for figure in sizes),
         "zstd alone " + "; ".join(f"{r.rival('blocks', figure):.1f}%" for figure in sizes)],
    ])


def beside_kernel(ranges):
    """Returns two cells: the throughput over the kernel's, for each processor, and what it is held against."""
    first, *others = ranges
    cell = "; ".join([f"{first} times the kernel's", *(f"{other} on another processor" for other in others)])
    return [cell, "kernel zram by direct I/O"]


def table_losses(r):
    """What it loses to each rival; for the heap where an input has to be chosen."""
    def requests(what):
        # MB/s, by requests of 4 KiB.
        return thousands(r.rival("throughput", f"heap/{what}, ours over kernel zram") * 1e6 / 4096)

    served = thousands(r.value("nbd", "lz4 over uncompressed: 4 KiB reads and writes"))
    raw = span(*r.ends("throughput", f"/{OTHER}, ours over raw lz4"))
    compaction = r.value("churn", "device/compaction's CPU time")
    mimalloc, jemalloc = (ratio(r.value("malloc", f"store and free/our pool over {name}"))
                          for name in ("mimalloc", "jemalloc"))
    return "\n".join([
        prose(f"- **A served disk is slower than the kernel's device.** A request goes to another process and back: "
              f"over NBD it serves {served} requests of 4 KiB a second, 16 at a time; the kernel's zram, measured in "
              f"another run, gives one thread {requests(OTHER)} writes or {requests(ANYWHERE)} reads a second, one "
              "at a time. In process there is no such trip.", "  "),
        prose(f"- **It takes processor time.** Overwriting gets {raw} of the throughput of lz4 alone. Moving objects "
              f"together in the background took {compaction:.1f} s of processor time for ten million overwrites.",
              "  "),
        prose(f"- **As an allocator the pool is slow.** A store and a free take {mimalloc} times mimalloc's time, "
              f"{jemalloc} times jemalloc's.", "  "),
    ])
