"""Draws an SVG chart of the overhead of uzram and of the kernel's zram while directories are removed."""

from math import log10

from form import STEPS, percent

WIDTH, HEIGHT = 800, 450
LEFT, RIGHT, TOP, BOTTOM = 74, 782, 72, 362
MARGIN = 22
LEAST, MOST = 0.3, 100.0
GRID = [0.5, 1, 2, 5, 10, 20, 50, 100]

# Each colour has a value for light pages and a value for dark pages. CSS variables are not used, because only browsers
# support them.
COLOURS = {"ground": ("#ffffff", "#0d1117"), "text": ("#1f2328", "#e6edf3"), "soft": ("#59636e", "#9198a1"),
           "grid": ("#d8dee4", "#30363d"), "ours": ("#0969da", "#58a6ff"), "kernel": ("#bc4c00", "#f0883e")}


def style():
    """Returns the CSS rules for light and dark pages."""
    def rules(dark):
        ground, plain, soft, grid, ours, kernel = (pair[dark] for pair in COLOURS.values())
        return " ".join([
            f".ground, .dot {{ fill: {ground}; }} text {{ fill: {plain}; }} text.soft {{ fill: {soft}; }}",
            f".grid {{ stroke: {grid}; }} .ours {{ stroke: {ours}; }} text.ours {{ fill: {ours}; }}",
            f".kernel {{ stroke: {kernel}; }} text.kernel {{ fill: {kernel}; }}"])
    return "\n".join([
        'text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }',
        "text.title { font-size: 16px; font-weight: 600; } text.named { font-weight: 600; }",
        ".line { fill: none; stroke-width: 2.5; stroke-linejoin: round; } .dot { stroke-width: 2.5; }",
        rules(False), f"@media (prefers-color-scheme: dark) {{ {rules(True)} }}",
        "text.ours, text.kernel { stroke: none; }"])


def x_of(step):
    return LEFT + 34 + (RIGHT - LEFT - 68) * step / (len(STEPS) - 1)


def y_of(value):
    return BOTTOM - (BOTTOM - TOP) * log10(value / LEAST) / log10(MOST / LEAST)


def text(x, y, what, kind="", anchor="middle"):
    kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{kind} text-anchor="{anchor}">{what}</text>'


def dot(kind, x, y):
    """Returns the mark of a point, which is round for uzram and square for the kernel. Readers need no colours."""
    if kind == "ours":
        return f'<circle class="dot ours" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    return f'<rect class="dot kernel" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'


def drawn(results):
    """Returns the chart as SVG."""
    figures = [f"{step}/overhead over C" for step in STEPS]
    series = {"ours": [results.value("removal", figure) for figure in figures],
              "kernel": [results.rival("removal", figure) for figure in figures]}
    compacted = results.value("removal", "directories/kernel's overhead over C after its compact")
    for value in [*series["ours"], *series["kernel"], compacted]:
        if not LEAST < value < MOST:
            raise ValueError(f"an overhead of {value}% is off the axis: change LEAST or MOST in tools/figures/chart.py")
    last = len(STEPS) - 1
    out = [*frame(series), *grid()]
    for kind, values in series.items():
        points = " ".join(f"{x_of(step):.1f},{y_of(value):.1f}" for step, value in enumerate(values))
        out.append(f'<polyline class="line {kind}" points="{points}"/>')
        out += [dot(kind, x_of(step), y_of(value)) for step, value in enumerate(values)]
        out += [text(x_of(step), y_of(values[step]) - 12, percent(values[step]), f"{kind} named") for step in (0, last)]
    # Each name is at a place where the name overlaps no line.
    names = [("kernel", "the kernel's zram (Linux 6.18)", 35), ("ours", "uzram, a second after each removal", 15)]
    out += [text(x_of(5), y_of(series[kind][5]) - above, name, f"{kind} named", "end") for kind, name, above in names]
    out.append(dot("kernel", x_of(last), y_of(compacted)))
    after = f"{percent(compacted)} after its compact"
    out.append(text(x_of(last) - 12, y_of(compacted) + 4.5, after, "kernel", "end"))
    out += steps([results.value("removal", f"{step}/C by raw lz4") for step in STEPS])
    return "\n".join(out) + "\n</svg>\n"


def frame(series):
    """Returns the head of the SVG, the background and the titles."""
    told = {kind: f"from {percent(values[0])} to {percent(values[-1])}" for kind, values in series.items()}
    what = "Memory beyond the compressed data, as a Linux source tree is deleted"
    return [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
            f"<title>{what}</title>",
            f"<desc>uzram goes {told['ours']}, the kernel's zram {told['kernel']}.</desc>",
            f"<style>\n{style()}\n</style>",
            f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}" rx="6"/>',
            text(MARGIN, 28, what, "title", "start"),
            text(MARGIN, 47, "% of the compressed bytes (lz4), logarithmic; lower is better", "soft", "start")]


def grid():
    """Returns the grid lines of the vertical axis, with their values."""
    out = []
    for value in GRID:
        y = y_of(value)
        out.append(f'<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(text(LEFT - 8, y + 4.5, f"{value:g}%", "soft", "end"))
    return out


def steps(left):
    """Returns the names of the steps below the horizontal axis, and the size of the data after each step."""
    out = [text(MARGIN, BOTTOM + 58, "MiB left", "soft", "start")]
    for step, (name, mebibytes) in enumerate(zip(STEPS, left)):
        low = 38 if step % 2 else 20
        out.append(text(x_of(step), BOTTOM + low, "all stored" if name == "untar" else name))
        out.append(text(x_of(step), BOTTOM + 58, f"{mebibytes:.0f}", "soft"))
    what = "directories deleted one after another, and the compressed data that is left"
    return [*out, text((LEFT + RIGHT) / 2, BOTTOM + 78, what, "soft")]
