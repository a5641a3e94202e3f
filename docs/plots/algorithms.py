"""What the algorithms admit of the same calls: the tables and the picture of docs/algorithms.md.

    python docs/plots/algorithms.py [--png PATH [--dark]]

prints the tables and writes algorithms.svg beside this file, which wants matplotlib (the extra `docs`); --png draws it
to be looked at. The same on every machine: the calls come by a ManualClock, the random ones from a seed.
tests/test_docs_plots.py compares the tables with the page, and the picture's digest with the data, without matplotlib.
"""

import argparse
import functools
import hashlib
import random
import re
from collections import Counter
from pathlib import Path

import goblin

SECOND = 10**9
PERIOD_SECONDS = 60
PERIOD_NS = PERIOD_SECONDS * SECOND
LIMIT = 10  # a minute, in the scenarios
SVG = Path(__file__).with_suffix(".svg")

# ---- the calls ------------------------------------------------------------------------------------------------------

CALL = {
    "fixed window": lambda counters, limit: counters.fixed_window("key", limit, PERIOD_SECONDS),
    "sliding window": lambda counters, limit: counters.sliding_window("key", limit, PERIOD_SECONDS),
    "gcra": lambda counters, limit: counters.gcra("key", limit, PERIOD_SECONDS),
    "gcra, burst 3": lambda counters, limit: counters.gcra("key", limit, PERIOD_SECONDS, burst=3),
    "gcra, burst 1": lambda counters, limit: counters.gcra("key", limit, PERIOD_SECONDS, burst=1),
}
ALGORITHMS = [algorithm for algorithm in CALL if algorithm != "gcra, burst 3"]  # of the scenarios: it would add nothing
SCENARIO_SECONDS = 180


def every(gap_ms, start_second, end_second):
    """Instants in nanoseconds, evenly spaced; the end is not among them."""
    return list(range(start_second * SECOND, end_second * SECOND, gap_ms * 10**6))


# Each begins at 0, so that the window of the first hit ends at 60 s.
SCENARIOS = {
    "steady overload": every(2_000, 0, SCENARIO_SECONDS),
    "burst at a window's edge": [0, *every(200, 55, 65)],
    "client that saves up": [0, *every(100, 59, SCENARIO_SECONDS)],
}


def admitted(algorithm, calls, limit=LIMIT):
    """Those of the calls, instants in nanoseconds, that pass."""
    clock = goblin.ManualClock()
    counters = goblin.Counters(clock=clock)
    passed = []
    for instant in calls:
        clock.advance_ns(instant - clock.now_ns)
        if CALL[algorithm](counters, limit) >= 0:
            passed.append(instant)
    return passed


def fullest(instants, span_seconds):
    """The most calls that any stretch of so many seconds holds, its end not among it."""
    most = first = 0
    for last, instant in enumerate(instants):
        while instant - instants[first] >= span_seconds * SECOND:
            first += 1
        most = max(most, last - first + 1)
    return most


def scenarios():
    """{scenario: {algorithm: instants admitted}}: what the picture shows."""
    return {
        scenario: {algorithm: admitted(algorithm, calls) for algorithm in ALGORITHMS}
        for scenario, calls in SCENARIOS.items()
    }


# ---- the tables -----------------------------------------------------------------------------------------------------

RANDOM_MINUTES = 1_000
RANDOM_LIMITS = (10, 100)
SEED = 1


def random_calls(limit, seed=SEED):
    """Calls that know nothing of one another (a Poisson process), on average as many as the limit allows."""
    rng = random.Random(seed)
    instants, second = [], 0.0
    while True:
        second += rng.expovariate(limit / PERIOD_SECONDS)
        if second >= RANDOM_MINUTES * PERIOD_SECONDS:
            return instants
        instants.append(int(second * SECOND))


def scenario_table():
    """The fullest minute and the fullest ten seconds in each scenario, as lines of Markdown."""
    lines = ["| fullest minute (ten seconds) | " + " | ".join(SCENARIOS) + " |", "|---|" + "---|" * len(SCENARIOS)]
    passed = scenarios()
    for algorithm in ALGORITHMS:
        cells = [
            f"{fullest(passed[scenario][algorithm], 60)} ({fullest(passed[scenario][algorithm], 10)})"
            for scenario in SCENARIOS
        ]
        lines.append(f"| {algorithm} | " + " | ".join(cells) + " |")
    return lines


@functools.cache
def random_results():
    """{(algorithm, limit): (calls in the fullest minute, share of all calls admitted)}"""
    results = {}
    for limit in RANDOM_LIMITS:
        calls = random_calls(limit)
        for algorithm in CALL:
            passed = admitted(algorithm, calls, limit)
            results[algorithm, limit] = fullest(passed, 60), len(passed) / len(calls)
    return results


def random_table():
    """The fullest minute and the share admitted of random calls, as lines of Markdown."""
    heads = [f"{limit} a minute: {what}" for limit in RANDOM_LIMITS for what in ("fullest minute", "admitted")]
    lines = ["| random calls | " + " | ".join(heads) + " |", "|---|" + "---|" * len(heads)]
    for algorithm in CALL:
        results = [random_results()[algorithm, limit] for limit in RANDOM_LIMITS]
        lines.append(f"| {algorithm} | " + " | ".join(f"{most} | {share:.1%}" for most, share in results) + " |")
    return lines


def quotes():
    """What the page says in words, with today's figures in it."""
    times = {limit: random_results()["sliding window", limit][0] / limit for limit in RANDOM_LIMITS}
    burst = admitted("fixed window", SCENARIOS["burst at a window's edge"])
    refused = 1 - random_results()["gcra, burst 1", RANDOM_LIMITS[0]][1]
    return [
        f"{fullest(burst, 7)} within seven seconds",
        f"{times[10]:.1f} times the limit at 10 a minute, {times[100]:.1f} times at 100",
        f"refuses {'half' if round(refused, 2) == 0.5 else 'SAY HOW MANY'} of the random calls",
    ]


# ---- the picture ----------------------------------------------------------------------------------------------------

INK, PAPER, WITHIN, ABOVE, FAINT = "#24292f", "#ffffff", "#5b9bd5", "#e07020", "#8c959f"
# Both readable on either background: WITHIN, ABOVE and FAINT stay, INK and PAPER change places in the dark.
DARK = {INK: "#e6edf3", PAPER: "#0d1117"}


def digest():
    """Of what the picture shows; the SVG carries it, so that a test can tell whether it is of today's data."""
    return hashlib.sha256(repr((LIMIT, SCENARIOS, scenarios())).encode()).hexdigest()[:16]


def in_last_period(instants):
    """The steps of "admitted in the last 60 s": (seconds, counts), a count holding from its second on."""
    changes = Counter(instants)
    changes.subtract(instant + PERIOD_NS for instant in instants)
    seconds, counts = [0.0], [0]
    for instant, change in sorted(changes.items()):
        if change and instant < SCENARIO_SECONDS * SECOND:
            seconds.append(instant / SECOND)
            counts.append(counts[-1] + change)
    return [*seconds, SCENARIO_SECONDS], [*counts, counts[-1]]


def strokes(axes, instants, bottom, top):
    """A stroke for each instant; where strokes would touch, one block and how many they are."""
    ink = axes.xaxis.label.get_color()
    blocks = []  # of instants
    for instant in instants:
        if blocks and instant - blocks[-1][-1] <= SECOND // 4:
            blocks[-1].append(instant)
        else:
            blocks.append([instant])
    for number, block in enumerate(blocks):
        first, last = block[0] / SECOND, block[-1] / SECOND
        if first == last:
            axes.vlines(first, bottom, top, colors=ink, linewidths=0.8)
            continue
        axes.broken_barh([(first, max(last - first, 0.8))], (bottom, top - bottom), facecolor=ink, linewidth=0)
        if last - first < SCENARIO_SECONDS / 3:
            free_before = first - (blocks[number - 1][-1] / SECOND if number else 0) > SCENARIO_SECONDS / 10
            x, side = (first - 3, "right") if free_before else (last + 4, "left")
            axes.text(x, (bottom + top) / 2, f"×{len(block)}", ha=side, va="center_baseline", fontsize=8)


def draw(colors=None):
    """A column for each scenario: its calls on top, below them what each algorithm admits."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ink, paper = (colors or {}).get(INK, INK), (colors or {}).get(PAPER, PAPER)
    pyplot.rcParams.update(
        {
            "font.size": 9, "text.color": ink, "axes.labelcolor": ink, "xtick.color": ink, "ytick.color": ink,
            "axes.edgecolor": FAINT, "axes.facecolor": paper, "figure.facecolor": paper, "savefig.facecolor": paper,
            "axes.spines.top": False, "axes.spines.right": False,
            "svg.hashsalt": "goblin", "svg.fonttype": "path",
        }
    )  # fmt: skip
    figure, rows = pyplot.subplots(
        1 + len(ALGORITHMS), len(SCENARIOS), figsize=(9.6, 8.6), sharex=True, sharey="row", squeeze=False,
        height_ratios=[0.35] + [1] * len(ALGORITHMS), layout="constrained",
    )  # fmt: skip
    for (scenario, calls), axes in zip(SCENARIOS.items(), rows[0], strict=True):
        axes.set_title(scenario[0].upper() + scenario[1:], loc="left", fontsize=11, fontweight="bold", pad=20)
        axes.text(0, 1.14, f"{len(calls):,} calls are made", transform=axes.transAxes)
        strokes(axes, calls, 0, 1)
        axes.set(ylim=(-0.2, 1.1), yticks=[])
        axes.spines["left"].set_visible(False)
    for scenario, column in zip(SCENARIOS, rows.T, strict=True):
        for algorithm, axes in zip(ALGORITHMS, column[1:], strict=True):
            passed = admitted(algorithm, SCENARIOS[scenario])
            seconds, counts = in_last_period(passed)
            within = [min(count, LIMIT) for count in counts]
            axes.fill_between(seconds, within, step="post", color=WITHIN, linewidth=0)
            axes.fill_between(seconds, within, counts, step="post", color=ABOVE, linewidth=0)
            axes.axhline(LIMIT, color=ink, linewidth=0.9, linestyle=(0, (4, 3)))
            strokes(axes, passed, -5, -1.4)
            axes.text(SCENARIO_SECONDS, 24.5, f"fullest minute: {fullest(passed, 60)}", ha="right", va="top")
            axes.set(
                xlim=(-2, SCENARIO_SECONDS), ylim=(-5.6, 24.5), xticks=range(0, SCENARIO_SECONDS + 1, 60),
                yticks=[0, LIMIT, 2 * LIMIT],
            )  # fmt: skip
    rows[0][0].set_ylabel("calls", fontsize=10, fontweight="bold", rotation=0, ha="right", va="center")
    for algorithm, axes in zip(ALGORITHMS, rows[1:, 0], strict=True):
        axes.set_ylabel(algorithm, fontsize=10, fontweight="bold")
    for axes in rows[-1]:
        axes.set_xlabel("time (s)")
    figure.supylabel(f"calls admitted in the last {PERIOD_SECONDS} s", fontsize=10)
    figure.legend(
        handles=[
            Line2D([], [], color=ink, marker="|", markersize=9, linestyle="none", label="a call that passes"),
            Patch(color=WITHIN, label=f"calls admitted in the last {PERIOD_SECONDS} s"),
            Patch(color=ABOVE, label="those above the limit"),
            Line2D([], [], color=ink, linewidth=0.9, linestyle=(0, (4, 3)), label=f"the limit: {LIMIT} a minute"),
        ],
        loc="outside lower center", ncols=4, frameon=False,
    )  # fmt: skip
    return figure


def in_the_dark(svg):
    """The SVG with a rule for readers whose system is dark. Where such rules are not understood it stays light."""
    swaps = "".join(
        f'[style*="{verb}: {light}"]{{{verb}:{dark}!important}}'
        for light, dark in DARK.items()
        for verb in ("fill", "stroke")
    )
    return re.sub(r"(<svg[^>]*>)", rf"\1\n <style>@media(prefers-color-scheme:dark){{{swaps}}}</style>", svg, count=1)


def shortened(svg):
    """Hundredths of a point are fine enough: it halves the file."""
    return re.sub(r' d="[^"]*"', lambda path: re.sub(r"\d+\.\d{3,}", lambda n: f"{float(n[0]):.2f}", path[0]), svg)


def main():
    parser = argparse.ArgumentParser(description="The tables and the picture of docs/algorithms.md.")
    parser.add_argument("--png", metavar="PATH", help="draw a PNG to look at, instead of the SVG")
    parser.add_argument("--dark", action="store_true", help="the PNG as dark systems show the SVG")
    options = parser.parse_args()
    print("\n".join([*scenario_table(), "", *random_table(), "", *quotes()]))
    if options.png:
        draw(DARK if options.dark else None).savefig(options.png, dpi=110)
    else:
        draw().savefig(SVG, metadata={"Date": None, "Creator": None, "Description": f"data {digest()}"})
        svg = in_the_dark(shortened(SVG.read_text(encoding="utf-8")))
        SVG.write_text("".join(f"{line.rstrip()}\n" for line in svg.splitlines()), encoding="utf-8")


if __name__ == "__main__":
    main()
