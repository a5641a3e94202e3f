"""Instructions per call, counted by valgrind: unlike times they do not depend on the machine's mood.

    python bench/instructions.py             # compare with bench/instructions.json
    python bench/instructions.py --update    # write today's counts there

One run under `valgrind --tool=callgrind`. Each call is made N times, then 2N times; the difference, divided by N, is
free of what starting costs. The loop around the call is in it, so the empty method is the floor. Where the table has a
row for this compiler, CPython, libc and Cython, a count that is off by more than 3 % fails; elsewhere the counts are
only printed. valgrind hides the vDSO: a clock read is a system call there, of which only the way into the kernel
counts, and that is the same every time.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import about

TABLE = Path(__file__).with_suffix(".json")
TOLERANCE = 0.03
ROUND = 64 * 20  # calls: whole turns of the keys, and of the sweep, which every 64th call pays for


def same_build():
    """What has to be equal for two counts to be comparable."""
    options = repr([sysconfig.get_config_var(name) for name in ("CONFIG_ARGS", "OPT", "CFLAGS")])
    return {
        "compiler": about.compiler(),
        # Two builds of one version differ in their loop: how this one was built is part of its name.
        "python": f"{platform.python_implementation()} {platform.python_version()}, {platform.python_compiler()}, "
        f"built {hashlib.sha256(options.encode()).hexdigest()[:8]}",
        "libc": about.libc(),
        "cython": about.version_of("cython"),
        "machine": platform.machine(),
    }


# ---- the program that is counted -------------------------------------------------------------------------------------


def calls():
    """{name: (loop, store)}"""
    import works
    from floor import load_empty

    import goblin

    def incr_loop(store, keys):
        for key in keys:
            store.incr(key)

    def get_loop(store, keys):
        for key in keys:
            store.get(key)

    counters, limiter = goblin.Counters, works.new_limiter
    return {
        "empty method": (works.increx_loop, load_empty()),
        "increx": (works.increx_loop, counters),
        "incrbound": (works.incrbound_loop, counters),
        "incrbound refused": (works.refused_loop, counters),
        "incr": (incr_loop, counters),
        "get": (get_loop, counters),
        "fixed_window": (works.fixed_window_loop, counters),
        "sliding_window": (works.sliding_window_loop, counters),
        "gcra": (works.gcra_loop, counters),
        "RateLimiter.allow": (works.allow_loop, limiter),
        "RateLimiter.hit": (works.hit_loop, limiter),
        "bare function": (works.call_loop, lambda: works.function),
        "decorated function": (works.call_loop, works.decorated),
        "decorated, key={user}": (works.call_loop, works.decorated_by_key),
    }


def program():
    """Prints the names; before each, between and after its two rounds it calls getsid(), which makes callgrind dump."""
    import gc

    import works

    gc.disable()
    for name, (loop, new_store) in calls().items():
        store = new_store()
        _, keys = next(works.rotation(lambda: store, works.FILLED_BY.get(loop, loop), calls=ROUND))
        loop(store, keys)
        twice = keys * 2
        os.getsid(0)
        loop(store, keys)
        os.getsid(0)
        loop(store, twice)
        os.getsid(0)
        print(name)


# ---- counting -------------------------------------------------------------------------------------------------------


def counted():
    """{name: instructions per call}"""
    calls()  # builds what is not built yet
    kept = {name: value for name, value in os.environ.items() if name.startswith("GOBLIN_")}
    environment = {"PATH": os.environ["PATH"], "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", **kept}
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind", "--tool=callgrind", "--dump-before=getsid", f"--callgrind-out-file={folder}/out",
            sys.executable, __file__, "--program",
        ]  # fmt: skip
        answer = subprocess.run(command, env=environment, capture_output=True, text=True)
        if answer.returncode:
            raise SystemExit(f"under valgrind it ended with {answer.returncode}:\n{answer.stderr[-3000:]}")
        names = answer.stdout.splitlines()
        sums = []  # since the dump before
        for number in range(1, 3 * len(names) + 1):
            dump = Path(f"{folder}/out.{number}").read_text(encoding="utf-8", errors="replace")
            sums.append(int(re.search(r"^summary: (\d+)", dump, re.MULTILINE)[1]))
    return {name: round((sums[3 * number + 2] - sums[3 * number + 1]) / ROUND, 1) for number, name in enumerate(names)}


def off(before, now):
    """{name: both figures} of those that are further apart than allowed, or are in one of the two only."""
    found = {}
    for name in {**before, **now}:
        was, is_ = before.get(name), now.get(name)
        if was is None or is_ is None or abs(is_ - was) > TOLERANCE * was:
            found[name] = was, is_
    return found


def read():
    return json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else []


def update(rows, build, now):
    row = {**build, "instructions": now}
    rows = [other for other in rows if {name: other[name] for name in build} != build] + [row]
    rows.sort(key=lambda row: [row[name] for name in build])
    TABLE.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write this build's row")
    parser.add_argument("--program", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.program:
        return program()
    if not shutil.which("valgrind"):
        print(
            "instructions are counted by valgrind, which is not here; on Debian: apt-get install valgrind",
            file=sys.stderr,
        )
        return 2
    build, rows, now = same_build(), read(), counted()
    print("; ".join(build.values()))
    row = next((row for row in rows if {name: row[name] for name in build} == build), None)
    before = row["instructions"] if row else {}
    for name, count in now.items():
        print(f"  {name:30}{count:10.1f}" + (f"{before[name]:10.1f} in the table" if name in before else ""))
    if options.update:
        update(rows, build, now)
        print(f"written: {TABLE.name}")
        return 0
    if row is None:
        print("the table has no row for this build: nothing to compare with; --update makes one")
        return 0
    wrong = off(before, now)
    for name, (was, is_) in wrong.items():
        print(f"OFF by more than {TOLERANCE:.0%}: {name}: {was} instructions in the table, {is_} now")
    if wrong:
        print("on purpose? then: make instructions ARGS=--update")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
