"""docs/performance.md and its pictures, made from the JSON in bench/results/ and from nothing else.

    python bench/report.py                     # writes them; wants matplotlib (the extra `docs`)
    python bench/report.py --check             # only says whether they are of today's results; no matplotlib needed
    python bench/report.py --png FOLDER        # PNGs to look at, light and dark, and nothing else
    python bench/report.py --results FOLDER --docs FOLDER

One column for each Python whose results are there; the pictures are of the first. A file scaling.json or
scaling-3.14t.json is shown too: {"rows": [{"work": "one key", "one_thread_ns": 50.1, "ratio": 1.2, "low": 1.1,
"high": 1.3}]}.
"""

import argparse
import json
import statistics
import textwrap
from pathlib import Path

import losses
import plots
from plots import ROOT, duration

RUNNERS = ["ratios", "rivals", "memory", "latency"]


def read(folder):
    """{"3.11": {"ratios": ..., "rivals": ...}}, oldest Python first."""
    found = {}
    for path in Path(folder).glob("*-*.json"):
        runner, _, tag = path.stem.partition("-")
        if runner in (*RUNNERS, "scaling"):
            found.setdefault(tag, {})[runner] = json.loads(path.read_text(encoding="utf-8"))
    if (Path(folder) / "scaling.json").exists():  # of one Python, which it names itself
        found.setdefault("scaling", {})["scaling"] = json.loads(
            (Path(folder) / "scaling.json").read_text(encoding="utf-8")
        )
    return {tag: found[tag] for tag in sorted(found, key=version_of)}


def version_of(tag):
    """For sorting: 3.9 before 3.14, and 3.14 before 3.14t."""
    return [int(part) for part in tag.rstrip("t").split(".") if part.isdigit()], tag


def table(head, rows):
    return [
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def prose(*parts):
    return [*textwrap.wrap(" ".join(parts), 120, break_on_hyphens=False), ""]


def spread(times, show=duration):
    return f"{show(statistics.median(times))} ({show(min(times))} to {show(max(times))})"


def chosen(results, runner):
    return {tag: of[runner] for tag, of in results.items() if runner in of}


def columns(results, runner, rows_of):
    """A table with a column for each Python: rows_of(data) is {label: cell}."""
    cells = {tag: rows_of(data) for tag, data in chosen(results, runner).items()}
    labels = dict.fromkeys(label for of in cells.values() for label in of)
    return list(cells), [[label, *(of.get(label, "-") for of in cells.values())] for label in labels]


def pythons(tags):
    return [f"CPython {tag}" for tag in tags]


# ---- chapters -------------------------------------------------------------------------------------------------------


def how(results):
    yield "## How it was measured"
    yield ""
    yield from prose("`make bench`, then `make bench-report`; `make bench` installs the rivals. The runners, in order:")
    rows = []
    for tag, of in results.items():
        for runner in RUNNERS:
            if runner in of:
                about = of[runner]["about"]
                load = " / ".join(str(about[when][0]) if about[when] else "-" for when in ("load_before", "load_after"))
                commit = about["commit"] + (", changed" if about["changed"] else "")
                rows.append([f"`{about['command']}`", tag, about["date"], commit, load, f"{about['took_seconds']} s"])
    yield from table(["command", "CPython", "date", "commit", "load before / after", "took"], rows)
    abouts = {tag: next(of[runner]["about"] for runner in RUNNERS if runner in of) for tag, of in results.items()}
    facts = {
        "machine": lambda a: f"{a['cpu']}, {a['cpus']} cores, {a['memory_gib']} GiB, {a['machine']}",
        "kernel, C library": lambda a: f"{a['kernel']}, {a['libc']}",
        "Python": lambda a: f"{a['python']} ({a['python_compiler']})",
        "goblin": lambda a: f"{a['goblin']}, Cython {a['cython']}, {a['compiler']}",
        "pinned to core": lambda a: str(a["core"]),
    }
    yield from table(
        ["", *pythons(abouts)], [[name, *(fact(a) for a in abouts.values())] for name, fact in facts.items()]
    )
    yield from prose(
        "Figures are medians. In brackets stands the spread: the least and the most of the rounds, or, of a ratio,",
        "its quartiles. Contenders are timed in turn, round after round, and ratios are taken within a round.",
    )


def target_cell(row):
    if "figure" in row:
        return f"{row['figure']:.2f} {row['verdict']}"
    if "median" not in row:
        return row["verdict"]
    return "{median:.2f} ({low:.2f} to {high:.2f}) {verdict}".format(**row).strip()


def aims(results):
    yield "## What is aimed at"
    yield ""
    yield from prose(
        "The yardsticks are an empty Cython method of the same signature, which no counter can undercut, and what one",
        "would otherwise write: the dict idiom `d[key] = d.get(key, 0) + 1`, which forgets nothing and has no lock.",
    )
    rows = {}
    for runner in RUNNERS:
        for tag, data in chosen(results, runner).items():
            for row in data.get("targets", ()):
                most = "-" if row["at_most"] is None else f"{row['at_most']:g}"
                rows.setdefault((row["mark"], row["text"], most), {})[tag] = target_cell(row)
    ordered = sorted(rows.items(), key=lambda item: int(item[0][0].removeprefix("P")))
    yield from table(
        ["", "ratio or figure", "at most", *pythons(results)],
        [[*label, *(cells.get(tag, "-") for tag in results)] for label, cells in ordered],
    )


def rivals(results):
    yield "## Beside other libraries"
    yield ""
    yield "![Time per call by library and workload](performance-rivals.svg)"
    yield ""
    yield from prose(
        "Each counts correctly first: a limit of N admits exactly N hits and refuses the next, two keys are apart,",
        "and the period ends. All get the same keys in the same order, each in a process of its own; slower ones get",
        "fewer calls. The algorithms differ, and so does what they offer beside.",
    )
    data = chosen(results, "rivals")
    for work in dict.fromkeys(work for of in data.values() for work in of["works"]):
        text = next(of["works"][work]["text"] for of in data.values() if work in of["works"])
        yield f"**{text[0].upper() + text[1:]}**"
        yield ""

        def rows_of(of, work=work):
            found = of["works"].get(work, {"ns": {}, "out": {}})
            ranked = sorted(found["ns"].items(), key=lambda item: statistics.median(item[1]))
            cells = {name: spread(ns) for name, ns in ranked}
            return cells | {name: f"not timed: {why}" for name, why in found["out"].items()}

        tags, rows = columns(results, "rivals", rows_of)
        yield from table(["time per call", *pythons(tags)], rows)
    for tag, of in data.items():
        versions = ", ".join(sorted({version for version in of["versions"].values() if version}))
        yield from prose(f"Versions under CPython {tag}: {versions}. At most {of['rounds']} rounds.")
        for name, why in of["missing"].items():
            yield from prose(f"**Missing** under CPython {tag}: {name} ({why}).")
        for name, why in of["wrong"].items():
            yield from prose(f"**Not timed, since it counts wrong**, under CPython {tag}: {name}: {why}.")


def keys(results):
    yield "## Cost and the number of keys"
    yield ""
    yield "![Time per call against the number of live keys](performance-keys.svg)"
    yield ""

    def rows_of(data):
        return {
            f"{work} · {name}": spread(ns)
            for work, times in data["ns_per_call"].items()
            if plots.KEYS_OF_WORK.fullmatch(work)
            for name, ns in times.items()
        }

    tags, rows = columns(results, "ratios", rows_of)
    yield from table(["time per call", *pythons(tags)], rows)
    yield from prose("The rest of the works, with 64 keys in rotation and with new keys:")

    def others(data):
        return {
            f"{work} · {name}": spread(ns)
            for work, times in data["ns_per_call"].items()
            if not plots.KEYS_OF_WORK.fullmatch(work)
            for name, ns in times.items()
        }

    tags, rows = columns(results, "ratios", others)
    yield from table(["time per call", *pythons(tags)], rows)


def latency(results):
    yield "## The longest call"
    yield ""
    yield "![Tail of the time per call](performance-latency.svg)"
    yield ""
    yield from prose(
        "Each call is stamped by a compiled loop, and so includes the cost of a stamp (in the last row). Calls during",
        "which the core was given to another process are dropped; what else the machine adds shows in the tail of the",
        "empty method. Medians over fresh processes, with the least and the most of them.",
    )

    def rows_of(data):
        found = {}
        for situation, runs in data["runs"].items():
            for part in ("p50", "p99", "p99.9", "p99.99", "longest"):
                found[f"{situation}, {part}"] = spread([run[part] for run in runs])
            dropped, calls = (sum(run[name] for run in runs) for name in ("dropped", "calls"))
            found[f"{situation}, dropped"] = f"{dropped:,} of {calls:,}"
        return found | {"a stamp": f"{data['stamp_ns']} ns"}

    tags, rows = columns(results, "latency", rows_of)
    yield from table(["", *pythons(tags)], rows)


def memory(results):
    yield "## Memory"
    yield ""
    yield "![Bytes per key against the number of keys](performance-memory.svg)"
    yield ""
    yield from prose(
        "Resident memory (RSS) of a fresh process, at nine sizes over a doubling; the worst, and the least, bytes per",
        "key:",
    )

    def rows_of(data):
        cells = {}
        for name, sizes in data["bytes_per_key"].items():
            figures = [figure for _, figure in sizes]
            cells[name] = f"{max(figures):.1f} ({min(figures):.1f})"
        return cells | {name: f"missing: {why}" for name, why in data["missing"].items()}

    tags, rows = columns(results, "memory", rows_of)
    yield from table(["bytes per key", *pythons(tags)], rows)
    for tag, data in chosen(results, "memory").items():
        flow, after = data["churn"], data["burst"]
        most = max(losses.dead_share(row) for row in flow[1:])
        gone = next((row for row in after if losses.dead_share(row) <= 0.10), None)
        passed = (
            f"CPython {tag}: {flow[-1]['keys']:,} short-lived keys passed through {flow[-1]['live']:,} live ones; after"
            f" a tenth of them the store took {flow[0]['mib']:.1f} MiB, later at most"
            f" {max(row['mib'] for row in flow):.1f} MiB, and of its entries at most {most:.1%} were dead."
        )
        hits = (
            f"After a burst of {after[0]['stored'] - after[0]['live']:,} keys that had expired"
            f" ({after[0]['mib']:.1f} MiB), {after[-1]['hits']:,} hits on 100 other keys left"
            f" {losses.dead_share(after[-1]):.1%} of the entries dead ({after[-1]['mib']:.1f} MiB)"
        )
        soon = f"; after {gone['hits']:,} it was at most a tenth." if gone else "."
        yield from prose(passed, hits + soon)


def threads(results):
    for tag, data in chosen(results, "scaling").items():
        yield "## Threads"
        yield ""
        whose = "`bench/scaling.py`" if tag == "scaling" else f"`bench/scaling.py`, CPython {tag}"
        yield from prose(f"{whose}: calls a second of two threads, divided by those of one; 2.00 would be perfect.")
        rows = data["rows"]
        cells = [
            [row["work"], f"{row['one_thread_ns']:.1f} ns", "{ratio:.2f} ({low:.2f} to {high:.2f})".format(**row)]
            for row in rows
        ]
        yield from table(["", "one thread, a call", "two threads / one (quartiles)"], cells)


def page(results):
    # Of the others only threads are known.
    measured = {tag: of for tag, of in results.items() if of.keys() & set(RUNNERS)}
    lines = ["# Performance", "", "<!-- Made by `make bench-report` from bench/results/: do not edit. -->", ""]
    lines += prose(
        "Every figure here comes from the JSON in [bench/results](../bench/results), and so do the pictures, which are",
        f"of CPython {next(iter(measured), '-')}. They are of one machine, and say little about another; the ratios",
        "say more. Where goblin loses stands [below](#where-goblin-loses).",
    )
    lines += aims(measured)
    chapters = {"rivals": rivals, "ratios": keys, "latency": latency, "memory": memory}
    for runner, chapter in chapters.items():
        if chosen(measured, runner):
            lines += chapter(measured)
    lines += [*threads(results), *losses.chapter(measured), *how(measured)]
    return "\n".join(lines).rstrip() + "\n"


# ---- writing and checking --------------------------------------------------------------------------------------------


def pictures(results):
    """{name: results of the Python whose picture it is}: the first that has them."""
    found = {}
    for name, (runner, _, _) in plots.PICTURES.items():
        found |= {name: of for of in reversed(list(results.values())) if runner in of}
    return found


def stale(results, docs):
    """What is not of today's results."""
    path = docs / "performance.md"
    if not path.exists() or path.read_text(encoding="utf-8") != page(results):
        yield path.name
    for name, of in pictures(results).items():
        path = docs / f"performance-{name}.svg"
        if not path.exists() or f"data {plots.digest(name, of)}<" not in path.read_text(encoding="utf-8"):
            yield path.name


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is out of date")
    parser.add_argument("--png", metavar="FOLDER", help="draw the pictures there as PNG, light and dark")
    parser.add_argument("--results", metavar="FOLDER", default=ROOT / "bench" / "results", type=Path)
    parser.add_argument("--docs", metavar="FOLDER", default=ROOT / "docs", type=Path)
    options = parser.parse_args()
    results = read(options.results)
    if not results:
        print("no results: `make bench` makes them")
        return 0 if options.check else 2
    if options.check:
        old = list(stale(results, options.docs))
        print(f"out of date: {', '.join(old)}; run `make bench-report`" if old else "up to date")
        return 1 if old else 0
    if options.png:
        Path(options.png).mkdir(parents=True, exist_ok=True)
        for name, of in pictures(results).items():
            for dark in (False, True):
                path = Path(options.png) / f"{name}{'-dark' if dark else ''}.png"
                plots.draw(name, of, dark).savefig(path, dpi=100)
        return 0
    options.docs.mkdir(parents=True, exist_ok=True)
    (options.docs / "performance.md").write_text(page(results), encoding="utf-8")
    for name, of in pictures(results).items():
        plots.save(name, of, options.docs / f"performance-{name}.svg")
    print("written: performance.md and its pictures")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
