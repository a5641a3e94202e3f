"""The pictures of docs/performance.md, drawn from the results alone. `report.py` calls it; it wants matplotlib.

Each picture is a pair of functions: what it shows, as data (its digest goes into the SVG, so that `--check` and a test
can tell without matplotlib whether it is of today's results), and how that is drawn.
"""

import hashlib
import json
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "docs" / "plots"))

GOBLIN, DICT, OTHERS = "#1f83c4", "#e07020", "#8c959f"
SHADES = [DICT, "#2f9e6e", "#a36ad1"]


def is_goblin(name):
    return name.startswith("goblin")


def is_yardstick(name):
    return name.startswith("dict idiom")


def duration(ns):
    """Three digits and a unit."""
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if ns < 999.5 * size or unit == "ms":
            return f"{float(f'{ns / size:.3g}'):,g} {unit}"


# ---- what they show -------------------------------------------------------------------------------------------------


def rivals_data(results):
    """{workload: [(rival, median ns), fastest first]}"""
    works = results["rivals"]["works"].values()
    medians = [{name: statistics.median(ns) for name, ns in work["ns"].items()} for work in works]
    return {work["text"]: sorted(of.items(), key=lambda item: item[1]) for work, of in zip(works, medians)}


def hot_key_data(results):
    """Of the first workload alone, for the README."""
    text, rows = next(iter(rivals_data(results).items()))
    return {f"the verdict on {text}": rows}


KEYS_OF_WORK = re.compile(r"increx, random order over ([\d,]+) live keys")
CURVES = {"goblin": "goblin increx", "dict": "dict idiom", "empty": "an empty method: fetching the keys alone"}


def keys_data(results):
    """{curve: [(keys, lower quartile, median, upper quartile)]}"""
    found = {curve: [] for curve in CURVES.values()}
    for work, times in results["ratios"]["ns_per_call"].items():
        keys = KEYS_OF_WORK.fullmatch(work)
        for name, curve in CURVES.items() if keys else ():
            found[curve].append((int(keys[1].replace(",", "")), *statistics.quantiles(times[name], n=4)))
    return {curve: sorted(points) for curve, points in found.items()}


TAILS = {
    "growing": "goblin, growing to {keys} keys",
    "dict growing": "dict, growing to {keys} keys",
    "live": "goblin, live keys",
    "expiring": "goblin, while a million others expire",
    "empty": "an empty method: the machine's own pauses",
}


def latency_data(results):
    """{curve: [(one call in so many, median over the processes, ns)]}"""
    found = {}
    for situation, text in TAILS.items():
        runs = results["latency"]["runs"][situation]
        tails = [run["tail"][:-1] for run in runs]
        points = [(same[0][0], statistics.median(ns for _, ns in same)) for same in zip(*tails)]
        # The last is the longest of all, one in as many as there were.
        points.append((min(run["tail"][-1][0] for run in runs), statistics.median(run["longest"] for run in runs)))
        found[text.format(keys=f"{runs[0]['calls']:,}")] = points
    return found


def memory_data(results):
    return results["memory"]["bytes_per_key"]


# ---- how they are drawn ---------------------------------------------------------------------------------------------


def bar_color(name):
    return GOBLIN if is_goblin(name) else DICT if is_yardstick(name) else OTHERS


def draw_rivals(pyplot, data):
    columns = min(2, len(data))
    starts = range(0, len(data), columns)
    bars = [max(len(rows) for rows in list(data.values())[start : start + columns]) for start in starts]
    size = (5.5 * columns if columns > 1 else 7.5, sum(bars) * 0.21 + len(bars) * 0.9)
    figure, grid = pyplot.subplots(
        len(bars), columns, figsize=size, layout="constrained", squeeze=False, height_ratios=bars
    )
    for axes in grid.flat[len(data) :]:
        axes.set_visible(False)
    most = max(ns for rows in data.values() for _, ns in rows)
    for number, (axes, (text, rows)) in enumerate(zip(grid.flat, data.items())):
        names, medians = zip(*rows)
        axes.barh(names, medians, color=[bar_color(name) for name in names], height=0.72)
        for index, ns in enumerate(medians):
            axes.text(ns * 1.12, index, duration(ns), va="center", fontsize=8)
        axes.set(xscale="log", xlim=(20, most * 6), xlabel="time per call (log scale)")
        axes.set_ylim(bars[number // columns] - 0.4, -0.6)  # bars of one height, also where they are few
        axes.set_title("\n".join(wrapped(text)), loc="left", fontsize=10, fontweight="bold")
        axes.tick_params(axis="y", length=0, labelsize=8)
        axes.xaxis.set_major_formatter(lambda ns, _: duration(ns))
        for label in axes.get_yticklabels():
            label.set_fontweight("bold" if is_goblin(label.get_text()) else "normal")
    return figure


def wrapped(text, width=52):
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f"{word} "
    return [line.strip() for line in lines]


def draw_keys(pyplot, data):
    figure, axes = pyplot.subplots(figsize=(8, 4.4), layout="constrained")
    for (curve, points), color in zip(data.items(), (GOBLIN, DICT, OTHERS)):
        keys, low, middle, high = zip(*points)
        axes.fill_between(keys, low, high, color=color, alpha=0.25, linewidth=0)
        axes.plot(keys, middle, color=color, marker="o", markersize=4, label=curve)
    axes.set(xscale="log", xlabel="live keys (log scale), called in random order", ylabel="time per call (ns)")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(lambda keys, _: f"{keys:,.0f}")
    axes.legend(frameon=False, loc="upper left")
    return figure


def draw_latency(pyplot, data):
    figure, axes = pyplot.subplots(figsize=(8, 4.8), layout="constrained")
    looks = [(GOBLIN, "-"), (DICT, "-"), (GOBLIN, (0, (1, 1.5))), ("#2f9e6e", (0, (5, 2))), (OTHERS, "-")]
    for (curve, points), (color, dashes) in zip(data.items(), looks):
        axes.plot(*zip(*points), color=color, linestyle=dashes, linewidth=1.8, label=curve)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="one call in so many (log scale) ...",
        ylabel="... takes at least (log scale)",
    )
    axes.xaxis.set_major_formatter(lambda one_in, _: f"{one_in:,.0f}")
    axes.yaxis.set_major_formatter(lambda ns, _: duration(ns))
    axes.grid(axis="y", color=OTHERS, alpha=0.3, linewidth=0.6)
    axes.legend(frameon=False, loc="upper left")
    return figure


def draw_memory(pyplot, data):
    figure, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
    for (name, points), color in zip(data.items(), (GOBLIN, *SHADES)):
        keys, figures = zip(*points)
        keys = [size / 1e6 for size in keys]
        axes.plot(keys, figures, color=color, marker="o", markersize=4)
        label = f"{name}:\nat most {max(figures):.0f}"
        axes.annotate(
            label, (keys[-1], figures[-1]), xytext=(8, 0), va="center", textcoords="offset points", fontsize=9
        )
    axes.set(xlabel="keys of 16 bytes, each with a TTL (millions)", ylabel="resident memory per key (bytes)")
    least, most = (end(points[where][0] for points in data.values()) / 1e6 for end, where in ((min, 0), (max, -1)))
    axes.set_xlim(least - 0.05 * (most - least), most + 0.35 * (most - least))  # room for the words
    axes.set_ylim(0, 1.12 * max(figure for points in data.values() for _, figure in points))
    return figure


PICTURES = {  # name: (runner whose results it shows, data, drawing)
    "hot-key": ("rivals", hot_key_data, draw_rivals),
    "rivals": ("rivals", rivals_data, draw_rivals),
    "keys": ("ratios", keys_data, draw_keys),
    "latency": ("latency", latency_data, draw_latency),
    "memory": ("memory", memory_data, draw_memory),
}


def digest(name, results):
    _, data, _ = PICTURES[name]
    return hashlib.sha256(json.dumps(data(results)).encode()).hexdigest()[:16]


def draw(name, results, dark=False):
    """A matplotlib figure."""
    import matplotlib

    matplotlib.use("Agg")
    from algorithms import DARK, FAINT, INK, PAPER
    from matplotlib import pyplot

    ink, paper = (DARK[INK], DARK[PAPER]) if dark else (INK, PAPER)
    pyplot.close("all")
    pyplot.rcParams.update(
        {
            "font.size": 9, "text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink,
            "axes.edgecolor": FAINT, "axes.facecolor": paper, "figure.facecolor": paper, "savefig.facecolor": paper,
            "axes.spines.top": False, "axes.spines.right": False, "xtick.minor.visible": False,
            "svg.hashsalt": "goblin", "svg.fonttype": "path",
        }
    )  # fmt: skip
    _, data, drawing = PICTURES[name]
    return drawing(pyplot, data(results))


def save(name, results, path):
    """The SVG, with a rule for readers whose system is dark."""
    from algorithms import in_the_dark, shortened

    draw(name, results).savefig(
        path, metadata={"Date": None, "Creator": None, "Description": f"data {digest(name, results)}"}
    )
    svg = in_the_dark(shortened(path.read_text(encoding="utf-8")))
    path.write_text("".join(f"{line.rstrip()}\n" for line in svg.splitlines()), encoding="utf-8")
