"""Whether the rivals count right: a wrong one is named and not timed.

    python bench/referee.py

A limit of N admits exactly N hits and then refuses, for each of two keys apart; and when the period is over it admits
again. (The dict idiom has no period, and says so.)
"""

import time

import rivals

LONG = 86_400  # seconds: no period ends during the check, but for those of rivals whose windows begin at midnight
REFUSED = 3


def compiled(module, names, line=None, variable="key", before=""):
    """A function of a sequence: the line for each key, in a loop, with the names that setup() gave as its locals."""
    source = (
        f"def loop(items, {', '.join(names)}):\n    for {variable} in items:\n        {before}{line or module.hit}\n"
    )
    space = {}
    exec(compile(source + "    return ok\n", f"<{module.__name__}>", "exec"), space)
    return lambda items: space["loop"](items, **names)


def hits(module, loop, key, times):
    """Whether each was admitted."""
    answers = []
    for _ in range(times):
        try:
            answers.append(bool(loop([key])))
        except getattr(module, "refusal", ()):
            answers.append(False)
    return answers


def close(module, names):
    getattr(module, "close", lambda names: None)(names)


def miscount(module, limit):
    """What is wrong with it, or None."""
    names = module.setup(limit, LONG)
    try:
        hit = compiled(module, names)
        probe = compiled(module, names, getattr(module, "probe", None))
        for key in ("rate:ann", "rate:bob")[: 2 if getattr(module, "keyed", True) else 1]:
            answers = hits(module, hit, key, limit) + hits(module, probe, key, REFUSED)
            if answers != [True] * limit + [False] * REFUSED:
                return f"a limit of {limit} admitted {sum(answers)} of {limit + REFUSED} hits on {key}: {answers}"
    finally:
        close(module, names)
    return None


def check(modules):
    """{name: what is wrong} of those that do not count right."""
    wrong = {}
    for module in modules:
        for limit in (1, 5):
            # A second look: the end of a period may have come between two hits.
            fault = miscount(module, limit) and miscount(module, limit)
            if fault:
                wrong.setdefault(module.name, fault)

    # One pause for all of them: two periods, since some look back at the last one.
    waiting = []
    for module in modules:
        if getattr(module, "expires", True) and module.name not in wrong:
            names = module.setup(2, 1)
            loop = compiled(module, names)
            hits(module, loop, "rate:ann", 2)
            waiting.append((module, names, loop))
    time.sleep(2.1)
    for module, names, loop in waiting:
        if hits(module, loop, "rate:ann", 1) != [True]:
            wrong[module.name] = "it refuses when the period is over"
        close(module, names)
    return wrong


def main():
    everyone = rivals.load_all()
    wrong = check([rival.module for rival in everyone if rival.module])
    for rival in everyone:
        verdict = "missing" if rival.module is None else wrong.get(rival.name, "counts right")
        print(f"{rival.name:36} {verdict:16} {rival.version}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
