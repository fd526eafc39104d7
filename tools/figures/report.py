"""Generates the blocks of docs/results.md, from the committed results and from `answered`."""

from answered import ANSWERS
from form import INPUTS, STEPS, of_inputs, over_kernel, percent, prose, ratio, span, table


def table_processors(r):
    named = {file: r.processors(file) for file in r.files}
    rows = [[f"`{file}.jsonl`", "; ".join(names)] for file, names in named.items() if names]
    rest = ", ".join(f"`{file}`" for file, names in named.items() if not names)
    rest = [prose(f"The results of {rest} were made before `bench` recorded the processor.")] if rest else []
    return "\n\n".join([*([table(["result", "processor"], rows)] if rows else []), *rest])


def table_failed(r):
    def missed(line):
        """Formats the value with the fewest digits by which it differs from its bound."""
        bound = line["must"].split()[-1]
        digits = (f"{line['value']:.{count}f}" for count in range(2, 6))
        return next((text for text in digits if float(text) != float(bound)), str(line["value"]))

    rows = [[f"`{file}`", line["figure"], missed(line), line["must"]] for file, line in r.failed()]
    return table(["result", "figure", "is", "must be"], rows) if rows else "None."


def table_fill(r):
    def row(label, name):
        over = f"{name}/overhead over C"
        counted = r.value("fill", f"{name}/everything counted over C")
        return [label, percent(r.value("fill", over)), percent(r.rival("fill", over)), percent(counted)]

    rows = [row(label, name) for name, label in INPUTS]
    return table(["input", "overhead", "kernel zram", "everything counted"], rows)


def table_removal(r):
    def row(label, step):
        over = f"{step}/overhead over C"
        left, counted = (r.value("removal", f"{step}/{what}") for what in ("C by raw lz4", "everything counted"))
        percents = (r.value("removal", over), r.rival("removal", over), counted)
        return [label, f"{left:.1f}", *map(percent, percents)]

    def both(what, form):
        """Returns the figure for the removal of directories, and the figure for the random removal."""
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
    slot, timed = (r.value("sparse", f"source/metadata per slot{more}") for more in ("", " with its time of access"))
    kernel = r.rival("sparse", "source/metadata per slot")
    # A slot uses 8 bytes.
    sparse = r.value("sparse", "source/memory beyond the dense device's, over the slots' own") * 8
    return prose(f"A slot costs {slot:.1f} bytes beside its data, {timed:.1f} with the time of its last access; the "
                 f"kernel's costs {kernel:.0f} by its structures. Slots that lie far apart on a device of 16 TiB cost "
                 f"{sparse:.1f} bytes more each.")


def table_blocks(r):
    def memory(name, size):
        return f"{r.value('blocks-ratio', f'{name}/zstd 3, {size} KiB: memory over original'):.1f}%"

    rows = [[f"{size} KiB", memory("heap", size), memory("source", size)] for size in (4, 16, 64)]
    return table(["block", "CPython heap: memory over original", "Linux source tree"], rows)


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


# The backends of a region: the name in tables, and the name in figures.
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


def table_run(r):
    file = "run"

    def names(end):
        """Returns the names of the figures that end with `end`, without `end`."""
        return [name.removesuffix(end) for name in r.files[file] if name.endswith(end)]

    def given(name):
        """Returns the cell of a figure, or a dash if the figure has no value."""
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


def table_answered(_):
    rows = [[question, answer, f"`{commit}`"] for question, answer, commit in ANSWERS]
    return table(["question", "answer", "commit"], rows)
