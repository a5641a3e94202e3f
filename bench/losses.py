"""The chapter of docs/performance.md that says where goblin loses.

Every case in the results in which a rival, the dict idiom or a dict of tuples is faster, smaller or smoother, and every
target that is missed.
"""

import statistics

from plots import duration, is_goblin

LATENCY_PARTS = ("p50", "p99", "p99.9", "p99.99", "longest")


def dead_share(row):
    """Of an entry in memory.py's JSON."""
    return (row["stored"] - row["live"]) / max(1, row["stored"])


def to_rivals(data):
    """Each rival that is faster than one of goblin's calls on the same workload, and than which."""
    for work in data["works"].values():
        medians = {name: statistics.median(ns) for name, ns in work["ns"].items()}
        for name, ns in sorted(medians.items(), key=lambda item: item[1]):
            slower = {ours: time for ours, time in sorted(medians.items()) if is_goblin(ours) and time > ns}
            if not is_goblin(name) and slower:
                than = ", ".join(f"{ours.removeprefix('goblin ')} {duration(time)}" for ours, time in slower.items())
                yield f"{work['text']}: {name} takes {duration(ns)}, less than {than}"


THEIRS = {"dict": "the dict idiom", "dict of tuples": "a dict of (count, deadline)"}


def to_dicts(data):
    for work, times in data["ns_per_call"].items():
        for name, text in THEIRS.items():
            if "goblin" in times and name in times:
                ours, theirs = statistics.median(times["goblin"]), statistics.median(times[name])
                if theirs < ours:
                    times_as_long = f"{ours / theirs:.2f} times"
                    yield f"{work}: {text} takes {duration(theirs)}, goblin {duration(ours)} ({times_as_long})"
        ratelimit = statistics.median(times.get("decorated by ratelimit", [float("inf")]))
        for name in ("decorated function", "decorated, key={user}"):
            if name in times and ratelimit < statistics.median(times[name]):
                ours = duration(statistics.median(times[name]))
                yield f"{work}: ratelimit's decorator takes {duration(ratelimit)}, goblin's ({name}) {ours}"


def to_growing_dict(data):
    for part in LATENCY_PARTS:
        ours, theirs = (
            statistics.median(run[part] for run in data["runs"][name]) for name in ("growing", "dict growing")
        )
        if theirs < ours:
            yield f"growing, {part}: a dict {duration(theirs)}, goblin {duration(ours)}"


def to_smaller(data):
    worst = {name: max(figure for _, figure in sizes) for name, sizes in data["bytes_per_key"].items()}
    for name, figure in worst.items():
        if figure < worst["goblin"]:
            yield f"bytes per key: {name} {figure:.1f}, goblin {worst['goblin']:.1f}"


def missed(data):
    for row in data.get("targets", ()):
        if row["verdict"] == "missed":
            figure = row.get("median", row.get("figure"))
            yield f"{row['mark']}, {row['text']}: {figure:.2f}, aimed at {row['at_most']:g}"


def of(results):
    """Sentences, for one Python."""
    kinds = [("rivals", to_rivals), ("ratios", to_dicts), ("latency", to_growing_dict), ("memory", to_smaller)]
    found = [sentence for runner, find in kinds if runner in results for sentence in find(results[runner])]
    targets = [f"target missed: {row}" for runner, _ in kinds if runner in results for row in missed(results[runner])]
    return found + targets


def chapter(results):
    yield "## Where goblin loses"
    yield ""
    yield "All cases in the results, found by comparing medians. What no figure shows: a server counts for several"
    yield "processes, which goblin does not; a log of hits, as PyrateLimiter keeps it, knows the time of each; and a"
    yield "dict is one line."
    yield ""
    for tag, of_python in results.items():
        sentences = of(of_python)
        yield f"CPython {tag}:"
        yield ""
        yield from (f"- {sentence}" for sentence in sentences or ["nothing that is measured here"])
        yield ""
