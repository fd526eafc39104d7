"""Formats numbers and tables for the documents."""

from textwrap import fill

INPUTS = [("source", "Linux source tree"), ("system", "system files"), ("heap", "CPython heap")]
STEPS = [
    "untar", "-drivers", "-arch", "-fs", "-sound", "-include", "-net", "-Documentation", "-kernel", "-tools",
]


def tables(module, results):
    """Returns the blocks of a module by name. The function `table_two_words` generates the block `two-words`."""
    made = {name: value for name, value in vars(module).items() if name.startswith("table_")}
    return {name.removeprefix("table_").replace("_", "-"): value(results) for name, value in made.items()}


def prose(text, indent=""):
    """Wraps a paragraph to the width of the documents."""
    return fill(text, 118, subsequent_indent=indent)


def table(head, rows):
    """Returns a Markdown table with the column titles `head`."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def percent(number):
    """Formats a percentage with two decimals below ten, and with three digits from ten on."""
    return f"{number:.2f}%" if number < 10 else f"{number:.1f}%" if number < 100 else f"{number:.0f}%"


def ratio(number):
    """Formats a ratio with two decimals, or with three decimals if the ratio is close to one."""
    return f"{number:.3f}" if 0.985 <= number < 1.02 else f"{number:.2f}"


def thousands(number):
    """Formats a rate rounded to thousands, or to hundreds below ten thousand."""
    return f"{round(number, -3 if number >= 10_000 else -2):,.0f}"


def of_inputs(results, file, what, form=ratio):
    """Returns a figure's cell for each input."""
    return [form(results.value(file, f"{name}/{what}")) for name, _ in INPUTS]


def span(low, high):
    """Formats a range with two decimals."""
    return f"{low:.2f} to {high:.2f}"


def over_kernel(results, what):
    """Returns, for each processor, the range over all inputs of a ratio to the kernel's zram."""
    whole = f"{what}, ours over kernel zram"
    return [span(*results.ends(run, whole)) for run in results.runs("throughput")]
