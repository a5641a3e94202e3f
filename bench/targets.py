"""The ratios that are aimed at: goblin beside the physical floor, and beside what one would otherwise write.

Each is computed within a round, from times taken one after the other, and judged by its median over the rounds.
"""

import statistics
from typing import Callable, NamedTuple

ROTATION = "64 live keys in rotation"


class Target(NamedTuple):
    mark: str
    text: str
    work: str
    ratio: Callable  # {contender: ns a call} of one round -> what is compared
    at_most: float | None = None  # None: told, not aimed at


def of(ours, theirs):
    return lambda ns: ns[ours] / ns[theirs]


def added(ours, theirs, base):
    """What one adds to the bare call, divided by what the other adds."""
    return lambda ns: (ns[ours] - ns[base]) / (ns[theirs] - ns[base])


def formatted(ns):
    # Both without their loop: the f-string alone pays for one as well.
    return (ns["goblin, f-string"] - ns["f-string alone"]) / (ns["goblin"] - ns["loop alone"])


LIMITS = f"limits, {ROTATION}"
TARGETS = [
    Target("P1", "increx / an empty method", f"increx, {ROTATION}", of("goblin", "empty"), 1.65),
    Target("P1", "increx / the dict idiom", f"increx, {ROTATION}", of("goblin", "dict"), 0.85),
    Target("P2", "incrbound admitted / an empty method", f"incrbound, {ROTATION}", of("goblin", "empty"), 1.7),
    Target("P2", "incrbound refused / an empty method", f"incrbound refused, {ROTATION}", of("goblin", "empty"), 1.7),
    Target("P3", "what increx adds to an f-string / increx", f"increx, {ROTATION}", formatted, 1.3),
    Target(
        "P4", "increx / the dict idiom, 1M live keys", "increx, random order over 1,000,000 live keys",
        of("goblin", "dict"), 0.6,
    ),
    Target(
        "P4", "increx / the dict idiom, 5M live keys", "increx, random order over 5,000,000 live keys",
        of("goblin", "dict"), 0.55,
    ),
    Target(
        "P5", "creating 1M counters with a TTL / a dict of (count, deadline)", "increx, creating 1,000,000",
        of("goblin", "dict of tuples"), 1.0,
    ),
    Target("P9", "fixed_window / increx", LIMITS, of("fixed_window", "increx"), 1.3),
    Target(
        "P9", "sliding_window / increx on the exact clock", LIMITS, of("sliding_window", "increx, exact clock"), 1.2,
    ),
    Target("P9", "gcra / increx on the exact clock", LIMITS, of("gcra", "increx, exact clock"), 1.2),
    Target("P10", "RateLimiter.allow / increx", LIMITS, of("RateLimiter.allow", "increx"), 4.0),
    Target("P10", "RateLimiter.hit / increx", LIMITS, of("RateLimiter.hit", "increx")),
    Target(
        "P10", "what the decorator adds / what ratelimit's adds", LIMITS,
        added("decorated function", "decorated by ratelimit", "bare function"), 0.333,
    ),
    Target(
        "P10", "what the decorator with a key adds / what ratelimit's adds", LIMITS,
        added("decorated, key={user}", "decorated by ratelimit", "bare function"),
    ),
]  # fmt: skip


def judge(results):
    """A row for each target: mark, text, median, quartiles, at_most, "ok", "missed", "" (not aimed at) or why not.

    results: {work: {contender: [ns of each round]}}
    """
    rows = []
    for target in TARGETS:
        row = {"mark": target.mark, "text": target.text, "at_most": target.at_most}
        times = results.get(target.work)
        try:
            found = [target.ratio(dict(zip(times, round_))) for round_ in zip(*times.values(), strict=True)]
        except (AttributeError, KeyError):
            rows.append({**row, "verdict": "not measured"})
            continue
        low, middle, high = statistics.quantiles(found, n=4)
        verdict = "" if target.at_most is None else "ok" if middle <= target.at_most else "missed"
        rows.append({**row, "median": middle, "low": low, "high": high, "verdict": verdict})
    return rows


def lines(rows):
    """The table, for a terminal."""
    yield f"{'':5}{'ratio':66}{'median':>8}{'(quartiles)':>16}{'at most':>9}"
    for row in rows:
        cells = f"{row['median']:8.2f}{'({low:.2f}-{high:.2f})'.format(**row):>16}" if "median" in row else " " * 24
        aim = f"{row['at_most']:9.2f}" if row["at_most"] else f"{'-':>9}"
        yield f"{row['mark']:5}{row['text']:66}{cells}{aim}  {row['verdict']}"
