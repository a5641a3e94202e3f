"""Coverage of everything: lines of goblin/*.py and *.pyx by coverage.py, branches of _table.h and _port.h by gcov.

    tests/coverage_report.py                    in a copy, .cache/coverage, with modules of its own; two to four minutes
    tests/coverage_report.py --report-only      judges the data of the last run

It fails below the thresholds, and for each line that is not reached and does not stand in tests/coverage_exceptions.md
with its reason. Files are found, not listed here: a new one counts from its first day.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / ".cache" / "coverage"
BIN = COPY / ".venv" / "bin"
COVERAGE = "coverage>=7.10"  # the first with patch = subprocess
SETTINGS = "--rcfile=tests/coverage.ini"
EXCEPTIONS = ROOT / "tests" / "coverage_exceptions.md"
# Percent of all files of a kind together; None: what is not listed as an exception has to be reached.
LEAST = {".py": None, ".pyx": 95.0, ".h": None}

# What measures memory or time, compares with others at length, or does not run the package: slow or wrong under a
# tracer. What only they reach is listed as an exception.
LEFT_OUT = re.compile(
    r"test_(memory|flood|leaks|typing|house_rules|threads|forks|docs_plots|random_programs|hostile_arguments"
    r"|redis_(differences|glob|programs)|limit_(bounds|promise|histories|references))\.py"
)
# The same of single tests: words of their names, or of what is in their brackets.
LEFT_OUT_NAMES = [
    "threads",  # under the tracer Python runs inside a step, and other threads get their turn there: it is not atomic
    # Of the contract tests, those of the engines that are goblin's own.
    *("[model]", "[model-", "[redis]", "([redis- and not [redis-store)", "[valkey"),
    *("memory_stays_flat", "while_the_store_changes", "random_programs", "thousand_tasks"),
    *("test_d11_", "test_d14_", "test_d16_", "colliding_keys_take_the_time", "before_a_split", "before_a_chunk"),
]


class Row(NamedTuple):
    """One file: lines or branches, how many of them were reached, and the numbers of the lines that were not."""

    total: int
    reached: int
    missed: list


def start(*command, **more):
    print("coverage:", *command[:6], flush=True)
    return subprocess.Popen([str(part) for part in command], cwd=COPY, **more)


def run(*command, **more):
    status = start(*command, **more).wait()
    if status:
        sys.exit(f"coverage: {command[0]} failed with status {status}")


def measure():
    subprocess.run(["make", "--no-print-directory", "-C", ROOT, "copy", f"COPY={COPY}"], check=True)
    # Debug: its hooks have allocations fail and keys collide. -O1 compiles in half the time; -fwrapv is Python's own.
    switches = {"GOBLIN_COVERAGE": "1", "GOBLIN_DEBUG": "1"}
    given = [f"{name}={value}" for name, value in switches.items()]
    run("make", "--no-print-directory", "build", "VENV=.venv", *given, env=os.environ | {"CFLAGS": "-O1 -fwrapv"})
    run(BIN / "python", "-m", "pip", "--quiet", "install", COVERAGE)
    for old in COPY.glob(".coverage*"):
        old.unlink()
    table = start("make", "--no-print-directory", "-C", "tests/c", "coverage")  # beside pytest
    try:
        found = [path.relative_to(COPY) for path in sorted(COPY.glob("tests/test_*.py"))]
        tests = [path for path in found if not LEFT_OUT.match(path.name)]
        names = " and ".join(f"not {name}" for name in LEFT_OUT_NAMES)
        small = os.environ | switches | {"GOBLIN_TEST_SCALE": "0.05"}
        run(BIN / "coverage", "run", SETTINGS, "-m", "pytest", "-q", "-k", names, "--durations=5", *tests, env=small)
        run(BIN / "coverage", "combine", SETTINGS, "--quiet")
        wanted = ["--quiet", "--ignore-errors", "--show-contexts", "-o", "coverage.json", *sources()]
        run(BIN / "coverage", "json", SETTINGS, *wanted)
    finally:
        status = table.wait()
    if status:
        sys.exit(f"coverage: the tests of the table in C failed with status {status}")


def sources():
    found = [path for ending in ("py", "pyx") for path in sorted((COPY / "goblin").rglob(f"*.{ending}"))]
    return [path.relative_to(COPY).as_posix() for path in found]


def reached_by_import_alone(path, entry):
    """Lines of a .pyx that were noted while it was imported, and are not its own.

    Where a module is initialised, Cython's tracer notes the first lines of all that it cimports, as if they were lines
    of the .pyx: without this, what has such a number would pass as reached. What a test function reaches has its name.
    """
    text = (COPY / path).with_suffix(".c").read_text(encoding="utf-8")
    *_, rest = re.split(r"__pyx_pymod_exec_\w+\(PyObject \*__pyx_pyinit_module\)", text)
    initialisation, _, _ = rest.partition("\n}\n")
    noted = re.findall(r"__Pyx_TraceLine\((\d+),.*__PYX_ERR\((\d+),", initialisation)
    assert noted, f"no lines are traced where {path} is initialised: does Cython write it otherwise now?"
    own = {int(number) for number, file in noted if file == "0"}
    foreign = {int(number) for number, file in noted if file != "0"} - own
    by_import = {number for number in entry["executed_lines"] if entry["contexts"][str(number)] == [""]}
    return by_import & foreign


def lines_by_file():
    """{path: Row} of the Python and Cython files: lines."""
    found = {}
    for path, entry in json.loads((COPY / "coverage.json").read_text(encoding="utf-8"))["files"].items():
        missed, total = set(entry["missing_lines"]), entry["summary"]["num_statements"]
        if path.endswith(".pyx"):
            missed |= reached_by_import_alone(path, entry)
        found[path] = Row(total, total - len(missed), sorted(missed))
    return found


def branches_by_file():
    """{path: Row} of the headers that are tested in C: branches; missed are lines with one that was never taken."""
    table = json.loads((COPY / "tests/c/build/coverage/table.json").read_text(encoding="utf-8"))
    found = {}
    for file in table["files"]:
        name = Path(file["file"]).name
        if name in ("_table.h", "_port.h"):
            branches = [(line["line_number"], branch["count"]) for line in file["lines"] for branch in line["branches"]]
            missed = sorted({number for number, count in branches if not count})
            found[f"goblin/{name}"] = Row(len(branches), sum(count > 0 for _, count in branches), missed)
    return found


def exceptions(text):
    """{path: {line of source}} of coverage_exceptions.md: headings name files and a reason, fences hold the lines."""
    found = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        names, _, _ = section.partition(":")
        fences = re.findall(r"^```\n(.*?)^```", section, re.M | re.S)
        lines = {line.strip() for fence in fences for line in fence.splitlines()}
        for name in names.split(", "):
            found.setdefault(f"goblin/{name}", set()).update(lines)
    return found


def judge(rows, excused):
    """What is wrong, as lines to print."""
    wrong = [f"{path}: nothing of it was measured" for path in sources() if path not in rows]
    for path, row in sorted(rows.items()):
        source = (COPY / path).read_text(encoding="utf-8").splitlines()
        # By text, not by number: numbers move with every change above them.
        lines = {number: source[number - 1].strip() for number in row.missed}
        wrong += [f"{path}:{number}: {line}" for number, line in lines.items() if line not in excused.get(path, ())]
    for path, lines in excused.items():
        source = (COPY / path).read_text(encoding="utf-8") if path in rows else ""
        wrong += [f"{path}: excused, but not in it: {line}" for line in sorted(lines) if line not in source]
    return wrong


def no_longer_needed(rows, excused):
    """Excused lines that were reached: to be taken out, unless chance, another Python or build has a part in it."""
    for path in sorted(rows.keys() & excused.keys()):
        source = (COPY / path).read_text(encoding="utf-8").splitlines()
        missed = {source[number - 1].strip() for number in rows[path].missed}
        yield from (f"{path}: excused, yet reached: {line}" for line in sorted(excused[path] - missed))


def share(rows):
    total = sum(row.total for row in rows)
    return 100 * sum(row.reached for row in rows) / total if total else 100.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report-only", action="store_true")
    if not parser.parse_args().report_only:
        measure()
    rows = lines_by_file() | branches_by_file()
    excused = exceptions(EXCEPTIONS.read_text(encoding="utf-8"))
    wrong = judge(rows, excused)
    for ending, least in LEAST.items():
        unit = "branches" if ending == ".h" else "lines"
        of_kind = {path: row for path, row in rows.items() if path.endswith(ending)}
        everything = Row(sum(row.total for row in of_kind.values()), sum(row.reached for row in of_kind.values()), [])
        for path, row in [*sorted(of_kind.items()), (f"all *{ending}", everything)]:
            print(f"{path:34} {row.reached:5} of {row.total:5} {unit:8}  {share([row]):5.1f} %")
        if least and share([everything]) < least:
            wrong.append(f"*{ending}: below {least} %")
    for line in no_longer_needed(rows, excused):
        print(line)
    if wrong:
        advice = f"coverage: test these lines, or write them with their reason into {EXCEPTIONS.relative_to(ROOT)}"
        sys.exit("\n  ".join([advice, *wrong]))


if __name__ == "__main__":
    main()
