"""Generates the blocks of docs/results.md. Each number is read from the committed results."""

from form import INPUTS, STEPS, of_inputs, over_kernel, percent, prose, ratio, span, table


def table_processors(r):
    named = {file: r.processors(file) for file in r.files}
    rows = [[f"`{file}.jsonl`", "; ".join(names)] for file, names in named.items() if names]
    rest = ", ".join(f"`{file}`" for file, names in named.items() if not names)
    rest = [prose(f"The results of {rest} were made before `bench` recorded the processor.")] if rest else []
    return "\n\n".join([*([table(["result", "processor"], rows)] if rows else []), *rest])


def table_failed(r):
    def missed(line):
        """Returns the value with enough digits to show that it misses its bound."""
        bound = line["must"].split()[-1]
        digits = (f"{line['value']:.{count}f}" for count in range(2, 6))
        return next((text for text in digits if float(text) != float(bound)), str(line["value"]))

    rows = [[f"`{file}`", line["figure"], missed(line), line["must"]] for file, line in r.failed()]
    return table(["result", "figure", "is", "must be"], rows) if rows else "None."


def table_fill(r):
    def row(label, file, name):
        over = f"{name}/overhead over C"
        counted = r.value(file, f"{name}/everything counted over C")
        return [label, percent(r.value(file, over)), percent(r.rival(file, over)), percent(counted)]

    rows = [row(label, "fill", name) for name, label in INPUTS]
    rows.append(row("Linux source tree, whole", "density", "source"))
    return table(["input", "overhead", "kernel zram", "everything counted"], rows)


def table_removal(r):
    def row(label, step):
        over = f"{step}/overhead over C"
        left, counted = (r.value("removal", f"{step}/{what}") for what in ("C by raw lz4", "everything counted"))
        percents = (r.value("removal", over), r.rival("removal", over), counted)
        return [label, f"{left:.1f}", *map(percent, percents)]

    def both(what, form):
        """Returns the figures of both removals: of directories, and at random."""
        directories, random = (form(r.value("removal", f"{name}/{what}")) for name in ("directories", "random 97%"))
        return f"{directories} and {random}"

    rows = [row("all stored" if step == "untar" else step, step) for step in STEPS]
    rows.append(row("all stored, then a random 97% dropped", "random 97%"))
    compact = both("kernel's overhead over C after its compact", percent)
    spent, moved = both("compaction's CPU time", ratio), both("bytes moved over bytes freed", ratio)
    text = prose(f"After the directories' and the random removal: the kernel's zram moves nothing by itself, and has "
                 f"{compact} after its `compact`; uzram spent {spent} s of processor time on moving objects, and moved "
                 f"{moved} bytes for each byte that was freed.")
    head = ["dropped, one after another", "C, MiB", "overhead", "kernel zram", "everything counted"]
    return f"{table(head, rows)}\n\n{text}"


def table_allocators(r):
    def row(name):
        removal = (r.value("removal", f"{step}/{name} over C") for step in ("untar", "last step", "random 97%"))
        return [name, *(ratio(x) for x in (*removal, r.value("churn", f"allocators/{name} over C")))]

    rows = [row(name) for name in ("our slots", "our pool", "glibc malloc", "jemalloc", "mimalloc")]
    return table(["bytes over C", "all stored", "directories dropped", "a random 97% dropped", "overwritten"], rows)


def table_malloc(r):
    def rows(job, names):
        return [[name, f"{r.value('malloc', f'{job}/{name}'):.0f} ns"] for name in names]

    store = rows("store and free", ("our pool", "glibc malloc", "mimalloc", "jemalloc"))
    read = rows("read", ("our slots", "our pool", "memcpy"))
    return "\n\n".join([table(["a store and a free", "time"], store), table(["a read", "time"], read)])


def table_raw(r):
    jobs = ["filling a fresh device by 4 KiB", "overwriting with the same pages by 4 KiB",
            "overwriting with other pages by 4 KiB", "reading by 4 KiB in random order",
            "reading by 64 KiB a device just filled", "reading by 64 KiB after all the overwriting"]
    rows = [[job, *of_inputs(r, "throughput", f"{job}, ours over raw lz4")] for job in jobs]
    for job in ("overwriting", "reading"):
        speedup = of_inputs(r, "throughput", f"two threads {job}, scaling over raw lz4's")
        rows.append([f"two threads {job}: their speed-up", *speedup])
    return table(["over raw lz4", *(name for name, _ in INPUTS)], rows)


def table_kernel(r):
    jobs = ["overwriting with other pages by 4 KiB", "overwriting with other pages by 64 KiB",
            "reading by 4 KiB in random order", "reading by 64 KiB a device just filled"]
    rows = [[job, *of_inputs(r, "throughput", f"{job}, ours over kernel zram")] for job in jobs]
    runs = ["; ".join(r.processors(run)) or "not recorded" for run in r.runs("throughput")]
    ranges = [[job, *over_kernel(r, job)] for job in (jobs[0], jobs[2])]
    return "\n\n".join([table(["over kernel zram", *(name for name, _ in INPUTS)], rows),
                        table(["range over the inputs, by processor", *runs], ranges)])


def table_slots(r):
    slot, timed = (r.value("table", f"source/metadata per slot{more}") for more in ("", " with its time of access"))
    kernel = r.rival("table", "source/metadata per slot")
    # The slot itself takes 8 bytes.
    sparse = r.value("sparse", "source/memory beyond the dense device's, over the slots' own") * 8
    return prose(f"A slot costs {slot:.1f} bytes beside its data, {timed:.1f} with the time of its last access; the "
                 f"kernel's costs {kernel:.0f} by its structures. Slots that lie far apart on a device of 16 TiB cost "
                 f"{sparse:.1f} bytes more each.")


def table_blocks(r):
    def memory(name, size):
        return f"{r.value('blocks', f'{name}/zstd 3, {size} KiB: memory over original'):.1f}%"

    rows = [[f"{size} KiB", memory("heap", size), memory("source", size)] for size in (4, 16, 64)]
    jobs = [("writing whole blocks", "write time per byte, 16 over 4 KiB"),
            ("reading whole blocks", "read time per byte, 16 over 4 KiB"),
            ("reading single pages in order", "4 KiB reads in order, time over 4 KiB blocks"),
            ("reading single pages anywhere", "4 KiB reads in random order, time over 4 KiB blocks"),
            ("overwriting single pages anywhere", "4 KiB writes in random order, time over 4 KiB blocks")]
    costs = [[label, ratio(r.value("blocks", f"heap/zstd 3: {figure}"))] for label, figure in jobs]
    return "\n\n".join([table(["block", "CPython heap: memory over original", "Linux source tree"], rows),
                        table(["16 KiB blocks of the heap", "processor time over 4 KiB blocks"], costs)])


def table_served(r):
    def rates(label, figure):
        over = ratio(r.value("nbd", f"{figure}, ours over nbdkit's"))
        return [label, f"{r.value('nbd', figure):,.0f}", f"{r.rival('nbd', figure):,.0f}", over]

    def memory(count):
        figure = f"zstd: memory for 1 GiB over nbdkit's, connections: {count}"
        over, nbdkit = r.value("nbd", figure), r.rival("nbd", figure) / 1e6
        return [f"memory for that GiB, MB; connections: {count}", f"{over * nbdkit:.1f}", f"{nbdkit:.1f}", ratio(over)]

    rows = [rates(f"random 4 KiB {job}, requests a second", f"zstd: random 4 KiB {job}")
            for job in ("writes", "reads")]
    rows += [rates(f"1 MiB {job} in order, MB/s; jobs: {count}{rest}", f"{codec}: 1 MiB {job}, jobs: {count}")
             for codec, job, rest in (("zstd", "reads", ""), ("zstd", "writes", ""),
                                      ("lz4 over uncompressed", "reads", "; lz4 beside nbdkit's *uncompressed* disk"))
             for count in (1, 4)]
    rows += [rates(f"1 GiB copied {way}, MB/s; connections: {count}", f"zstd: 1 GiB {way}, connections: {count}")
             for count in (1, 4) for way in ("in", "out")]
    rows += [memory(count) for count in (1, 4)]
    rows.append(rates("4 KiB reads and writes, lz4 beside nbdkit's *uncompressed* disk",
                      "lz4 over uncompressed: 4 KiB reads and writes"))
    tree = r.value("nbd", "ext4 on a loop device, a source tree unpacked: time over ext4 on kernel zram")
    text = prose("A source tree unpacked to ext4, on a loop device over the file of `uzram serve --mount`, takes "
                 f"{ratio(tree)} of the time that it takes on ext4 over the kernel's zram, unmounting included; lz4 on "
                 "both sides.")
    return table(["", "uzram", "nbdkit", "ratio"], rows) + "\n\n" + text


def table_cold(r):
    jobs = [("compressed again, lz4 to zstd: memory over raw zstd's", "recompress/heap/memory after over raw zstd"),
            ("the same: time over raw decoding and encoding", "recompress/heap/time over raw decode and encode"),
            ("written back to a file: throughput over `dd` with fsync",
             "writeback/source/throughput over dd with fsync"),
            ("the same: bytes on disk over compressed bytes", "writeback/source/bytes on disk over compressed"),
            ("random reads from there: time over `pread` of the file", "writeback/source/random reads over pread"),
            ("the same from the page cache, where decompression is all",
             "writeback/source/random reads over pread, from the page cache"),
            ("saved to a file: time over `cp` with fsync", "save/source/save over cp"),
            ("restored: time over `cp` with fsync", "save/source/restore over cp")]
    return table(["job", "ratio"], [[label, ratio(r.value("cold", figure))] for label, figure in jobs])


# The backends of a region, by their names in figures.
BACKENDS = [("signals", "signal"), ("userfaultfd by SIGBUS", "userfaultfd-sigbus"), ("userfaultfd by threads", "userfaultfd")]


def table_zmem(r):
    def row(label, figure):
        return [label, *(ratio(r.value("zmem", f"heap/{backend}{figure}")) for _, backend in BACKENDS)]

    jobs = [("out, in order", "in order: out"), ("in, in order", "in order: in"), ("in, at random", "at random: in"),
            ("in, at random, in a program of several threads", "beside another thread, at random: in")]
    rows = [row(f"{size} KiB blocks: {label}", f", {size} KiB blocks, {figure}, over the kernel's")
            for size in (4, 16) for label, figure in jobs]
    threads = ": 8 threads at once, over one thread's rate times processors"
    rows.append(row("8 threads that touch 4 KiB blocks at once, over one thread's rate times processors", threads))
    kernels = [r.rival("zmem", f"heap/{backend}{threads}") for _, backend in BACKENDS]
    text = prose(f"The kernel's own 8 threads come to {span(min(kernels), max(kernels))} in the same runs. Each fault by signals takes "
                 "the lock of the process's mappings twice, so threads that fault at once wait for each other.")

    def memory(size, codec):
        return f"{r.value('zmem', f'heap/{codec}, {size} KiB: memory over original'):.1f}%"

    sizes = [[f"{size} KiB", memory(size, "lz4"), memory(size, "zstd 3")] for size in (4, 16, 64)]
    heads = [name for name, _ in BACKENDS]
    return "\n\n".join([table(["lz4, time over the kernel's swap", *heads], rows), text,
                        table(["block", "memory over original, lz4", "zstd 3"], sizes)])


def table_churn(r):
    def row(side):
        end = f"{side}/overhead over C at the end"
        later = r.value("churn", f"{side}/overhead over C a second later")
        densities = [r.value("churn", end), r.rival("churn", end), later]
        spent = r.value("churn", f"{side}/compaction's CPU time")
        throughput = r.value("churn", f"{side}/throughput, compacting over not")
        slowest = r.value("pause", f"{side}/99.9% of reads within, compacting over not")
        return [side, *map(percent, densities), ratio(throughput), f"{spent:.1f} s", ratio(slowest)]

    return table(["", "overhead", "without compaction", "a second later", "throughput, compacting over not",
                  "compaction's processor time", "slowest 0.1% of reads, compacting over not"],
                 [row("device"), row("pool")])


def table_grow(r):
    jobs = [("an extent given back and made", "addresses", "8 GiB"),
            ("an extent given back and made", "addresses", "1 TiB"),
            ("a page committed under a limit of all memory", "addresses", "8 GiB"),
            ("a page committed under a limit of all memory", "addresses", "1 TiB"),
            ("a free and a store at the limit", "what is stored", "8 GiB")]
    at = {"addresses": "of addresses", "what is stored": "stored"}
    rows = [[job, f"{size} {at[of]}", *(ratio(r.value("grow", f"{job}, by {of}/{size} over {small}"))
                                        for small in ("256 MiB", "1 GiB"))] for job, of, size in jobs]
    return table(["cost", "at", "over 256 MiB", "over 1 GiB"], rows)


def table_slab(r):
    sizes, names = (32, 64, 192, 512), ("our cache", "glibc malloc", "jemalloc", "mimalloc")

    def times(job, name):
        return [f"{job}, {name}", *(f"{r.value('slab', f'{job}/{size} bytes/{name}'):.1f} ns" for size in sizes)]

    def memory(name):
        figures = [f"{size} bytes live/{name}: resident over the objects" for size in sizes]
        return [f"resident over the objects, {name}", *(ratio(r.value("slab", figure)) for figure in figures)]

    rows = [times(job, name) for job in ("one thread", "freed by another thread") for name in names]
    rows += [memory(name) for name in names]
    return table(["objects of", *(f"{size} bytes" for size in sizes)], rows)


def table_parity(r):
    rows = []
    for name, label in INPUTS:
        figure = f"{name}/mem_used_total"
        apart = r.value("parity", f"{figure}, apart")
        rows.append([label, f"{r.value('parity', figure):.2f}", f"{r.rival('parity', figure):.2f}", f"{apart:.3f}%"])
    return table(["input", "uzram, MiB", "kernel zram, MiB", "apart"], rows)


def table_python(r):
    file = "python"

    def named(begin, end):
        """Yields the part of each figure's name between `begin` and `end`, and the name."""
        for name in r.files[file]:
            if name.startswith(begin) and name.endswith(end):
                yield name[len(begin) : len(name) - len(end)], name

    over, cached = ": time over plain memory's", "numpy.memmap, all of it in the page cache"
    arrays = [(what, name) for what, name in named("an array of ", over) if cached not in what]
    size = arrays[0][0].split(", ")[0]
    rows = [[what.partition(", ")[2], ratio(r.value(file, name)), ratio(r.rival(file, name)),
             ratio(r.value(file, name.replace(f"{size}, ", f"{size} in {cached}, ")))] for what, name in arrays]
    columns = table([f"an array of {size}: time over plain memory's", "`Region`", "`memmap`, as much memory",
                     "`memmap`, all of it in the page cache"], rows)
    rows = [[what.partition(", ")[2].replace(" by 64 KiB", ""), ratio(r.value(file, name))]
            for what, name in named("Device, ", "")]
    calls = table(["`Device` by 64 KiB a call", "ratio"], rows)
    kept, gets = ": kept in a Cache over a dict of bytes in the same memory", ": gets over those of "
    zlib, disk = "a dict of what zlib makes of them", "diskcache"

    def got(kind, rival):
        return ratio(r.value(file, next(name for _, name in named(f"documents, {kind}, ", gets + rival))))

    rows = [[what, ratio(r.value(file, name)), *(got(what.split(",")[0], rival) for rival in (zlib, disk))]
            for what, name in named("documents, ", kept)]
    documents = table(["documents of JSON, the `Cache`'s limit", "kept, over a `dict` of bytes", "gets, over `dict` and zlib",
                       "gets, over diskcache"], rows)
    return "\n\n".join([columns, calls, documents])


def table_run(r):
    file = "run"

    def names(end):
        """Returns the part before `end` of each figure's name that has this end."""
        return [name.removesuffix(end) for name in r.files[file] if name.endswith(end)]

    def given(name):
        """Returns the cell of a figure, or a dash if the rival did not reach it."""
        number = r.line(file, name)["value"]
        return "-" if number is None else ratio(number)

    takes, even = ": memory alone over the limit", "with none and as much memory in all"
    parts = [("wall clock", way) for way in ("with every right", "with none", even)]
    parts.append(("processor time", "with none"))
    rows = [[job, given(f"{job}{takes}"), *(given(f"{job}: {part} {way}, over the kernel's") for part, way in parts),
             given(f"{job}: most memory over the limit")] for job in names(takes)]
    limited = table(["job, its limit", "it takes, over the limit", "wall clock, with every right", "with none", even,
                     "processor time, with none", "most memory, over the limit"], rows)
    wall, spent = (f", with room: {part} over alone" for part in ("wall clock", "processor time"))
    rows = [[job, given(job + wall), given(job + spent)] for job in names(wall)]
    return "\n\n".join([limited, table(["where memory suffices, over the same alone", "wall clock", "processor time"], rows)])
