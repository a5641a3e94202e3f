"""Everything that is published, under ten minutes: `make bench`.

    python bench/run.py [--results FOLDER, else bench/results/] [--small]

Runs the runners of this folder one after the other, each as a program of its own; each writes its JSON into
bench/results/. Nothing else should run on the machine meanwhile: the load before and after stands in the JSON.
Free-threaded Pythons have `bench/scaling.py` beside. `make bench-report` makes the page and the pictures of it.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import about

HERE = Path(__file__).resolve().parent
RUNNERS = ["ratios.py", "contest.py", "memory.py", "latency.py"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    about.add_options(parser)
    options = parser.parse_args()
    # What is committed is never overwritten by tiny sizes.
    results = options.results or (None if options.small else about.RESULTS)
    arguments = (["--results", results] if results else []) + (["--small"] if options.small else [])
    os.environ["GOBLIN_BENCH_BEGAN"] = str(time.time())
    failed = []
    for number, runner in enumerate(RUNNERS, 1):
        print(f"\n=== {number} of {len(RUNNERS)}: {runner}", flush=True)
        if subprocess.run([sys.executable, HERE / runner, *arguments]).returncode:
            failed.append(runner)
    took = time.time() - float(os.environ["GOBLIN_BENCH_BEGAN"])
    print(f"\n{took:.0f} s{''.join(f'; FAILED: {runner}' for runner in failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
