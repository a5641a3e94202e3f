"""Coverage of everything: goblin/*.py and *.pyx by coverage.py, _table.h and _port.h by gcov. Fails below the thresholds.

    tests/coverage_report.py                    in a copy, .cache/coverage, with modules of its own; some ten minutes
    tests/coverage_report.py --report-only      judges the data of the last run

What is not covered stands in tests/coverage_exceptions.md with its reason, line by line; what is missing there fails too.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".cache" / "coverage"
BIN = COPY / ".venv" / "bin"
SETTINGS = "--rcfile=tests/coverage.ini"
LEAST_PYTHON, LEAST_CYTHON = 100.0, 95.0
EXCEPTIONS = ROOT / "tests" / "coverage_exceptions.md"
# They measure memory, time or other processes: slow under a tracer, and they reach no line that the others do not.
LEFT_OUT = re.compile(r"test_(memory|flood|hash_flood|leaks|typing|house_rules|threads|forks|docs_plots)\.py")


def run(*command, check=True, **more):
    print("coverage:", *command[:6], flush=True)
    return subprocess.run([str(part) for part in command], cwd=COPY, check=check, **more)


def measure():
    subprocess.run(["make", "-C", ROOT, "copy", f"COPY={COPY}"], check=True)
    with_tracing = os.environ | {"GOBLIN_COVERAGE": "1"}
    run("make", "build", "VENV=.venv", "GOBLIN_COVERAGE=1", env=with_tracing)
    run(BIN / "python", "-m", "pip", "--quiet", "install", "coverage>=7.10")
    for old in COPY.glob(".coverage*"):
        old.unlink()
    tests = [path.relative_to(COPY) for path in sorted((COPY / "tests").glob("test_*.py")) if not LEFT_OUT.match(path.name)]
    small = with_tracing | {"GOBLIN_TEST_SCALE": "0.05"}
    # Under the tracer Python runs inside a step, and other threads get their turn there: no step is atomic any more.
    run(BIN / "coverage", "run", SETTINGS, "-m", "pytest", "-q", "-k", "not threads", *tests, env=small)
    run(BIN / "coverage", "combine", SETTINGS)
    run("make", "-C", "tests/c", "coverage")


def uncovered_lines():
    """{path: (percent, [lines])} of the Python and Cython files."""
    run(BIN / "coverage", "json", SETTINGS, "-q", "-o", "coverage.json")
    files = json.loads((COPY / "coverage.json").read_text(encoding="utf-8"))["files"]
    return {
        path: (entry["summary"]["percent_covered"], entry["missing_lines"])
        for path, entry in files.items()
        if path.endswith((".py", ".pyx"))
    }


def uncovered_branches():
    """{path: (percent, [lines with a branch that was never taken])} of the headers."""
    table = json.loads((COPY / "tests/c/build/coverage/table.json").read_text(encoding="utf-8"))
    found = {}
    for file in table["files"]:
        name = Path(file["file"]).name
        if name in ("_table.h", "_port.h"):
            branches = [(line["line_number"], branch["count"]) for line in file["lines"] for branch in line["branches"]]
            missed = sorted({number for number, count in branches if not count})
            found[f"goblin/{name}"] = (100 * sum(count > 0 for _, count in branches) / len(branches), missed)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report-only", action="store_true")
    if not parser.parse_args().report_only:
        measure()
    written = EXCEPTIONS.read_text(encoding="utf-8")
    failed = False
    for path, (percent, missed) in sorted((uncovered_lines() | uncovered_branches()).items()):
        source = (COPY / path).read_text(encoding="utf-8").splitlines()
        # By text, not by number: numbers move with every change above them.
        unexplained = [number for number in missed if source[number - 1].strip() not in written]
        least = LEAST_PYTHON if path.endswith(".py") else LEAST_CYTHON if path.endswith(".pyx") else 0.0
        low = percent < least and (unexplained or not path.endswith(".py"))
        failed = failed or low or bool(unexplained)
        print(f"{path:28} {percent:6.1f} %  {len(missed):3} not reached{'  BELOW ' + str(least) if low else ''}")
        for number in unexplained:
            print(f"    {path}:{number}: {source[number - 1].strip()}")
    if failed:
        sys.exit(f"coverage: test these lines, or write them with their reason into {EXCEPTIONS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
