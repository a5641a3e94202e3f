"""What type checkers make of goblin: mypy --strict, pyright in strict mode, and stubtest. `.ci/run` runs it.

    python tests/typing_check.py              # needs goblin, pytest, mypy and pyright[nodejs]; about half a minute
    python tests/typing_check.py mypy         # one of them

tests/typing/ok_*.py must pass as they stand, for the oldest and the newest Python that goblin runs on. In bad_*.py each
line with `# expect: CODE, RULE` must be refused by mypy with that code and by pyright with that rule, and no other line
may be. Every public name has to occur in an ok_*.py.
"""

import argparse
import ast
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import goblin

FOLDER = Path(__file__).resolve().parent / "typing"
OK, BAD = sorted(FOLDER.glob("ok_*.py")), sorted(FOLDER.glob("bad_*.py"))
VERSIONS = ("3.10", "3.14")
PACKAGE = Path(goblin.__file__).resolve().parent
INSTALLED = "site-packages" in PACKAGE.parts  # otherwise in a checkout, where a checker has to be told
TIMEOUT_SECONDS = 600  # only a guard against hanging


class Found(NamedTuple):
    """What a checker complains of."""

    path: str
    line: int
    code: str
    text: str

    def __str__(self):
        return f"{os.path.relpath(self.path)}:{self.line}: {self.text}  [{self.code}]"


# ---- The tools ------------------------------------------------------------------------------------------------------


def run(*command):
    environment = dict(os.environ)
    if not INSTALLED:
        environment["MYPYPATH"] = str(PACKAGE.parent)
    # In an empty folder, so that no checker finds a configuration or a package by chance.
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run(
            [sys.executable, "-m", *map(str, command)],
            cwd=folder, env=environment, capture_output=True, encoding="utf-8", timeout=TIMEOUT_SECONDS,
        )  # fmt: skip


def by_mypy(version, *what):
    flags = ["--strict", "--no-error-summary", "--no-pretty", "--hide-error-context", "--show-absolute-path"]
    # No cache: it keeps complaints by the name of a module, also those about another folder's.
    cache = ["--cache-dir", os.devnull]
    process = run("mypy", *flags, *cache, "--python-version", version, *what)
    found = [
        Found(path, int(line), code, text)
        for path, line, text, code in re.findall(
            r"^(.+?):(\d+): error: (.*?)  \[([\w-]+)\]$", process.stdout, re.MULTILINE
        )
    ]
    if process.returncode not in (0, 1) or (process.returncode == 1) != bool(found):
        raise SystemExit(f"mypy itself failed:\n{process.stdout}{process.stderr}")
    return found


def by_pyright(version, paths):
    with tempfile.TemporaryDirectory() as folder:
        configuration = {
            "include": [os.path.relpath(path, os.path.realpath(folder)) for path in paths],  # absolute ones are ignored
            "typeCheckingMode": "strict",
            "pythonVersion": version,
            "extraPaths": [] if INSTALLED else [str(PACKAGE.parent)],
        }
        project = Path(folder) / "pyrightconfig.json"
        project.write_text(json.dumps(configuration), encoding="utf-8")
        process = run("pyright", "--project", project, "--pythonpath", sys.executable, "--outputjson")
    try:
        report = json.loads(process.stdout)
    except ValueError:
        raise SystemExit(f"pyright itself failed:\n{process.stdout}{process.stderr}") from None
    if report["summary"]["filesAnalyzed"] != len(paths):
        raise SystemExit(f"pyright looked at {report['summary']['filesAnalyzed']} files of {len(paths)}")
    return [
        Found(
            row["file"], row["range"]["start"]["line"] + 1, row.get("rule", "syntax"), row["message"].replace("\n", " ")
        )
        for row in report["generalDiagnostics"]
        if row["severity"] == "error"
    ]


# ---- What must and what must not be complained of -------------------------------------------------------------------


def expectations(path, text):
    """{(path, line): the codes that `# expect:` names}"""
    expected = {}
    for number, line in enumerate(text.splitlines(), start=1):
        comment = re.search(r"# expect: (.+)$", line)
        if comment:
            expected[str(path), number] = set(re.split(r",\s*", comment[1].strip()))
    return expected


def disagreements(expected, found):
    """Sentences on where the complaints are not those that were expected."""
    at = collections.defaultdict(list)
    for complaint in found:
        at[complaint.path, complaint.line].append(complaint)
    for path, line in sorted(expected.keys() - at.keys()):
        yield f"{os.path.relpath(path)}:{line}: passes, and must be refused"
    for place, complaints in sorted(at.items()):
        if place not in expected:
            yield from map(str, complaints)
        elif not any(complaint.code in expected[place] for complaint in complaints):
            yield f"{complaints[0]} is not what was expected: {', '.join(sorted(expected[place]))}"


def all_expectations(paths):
    expected = {}
    for path in paths:
        expected |= expectations(path, path.read_text(encoding="utf-8"))
    return expected


def public_names(module):
    """Dotted, with the members of public classes; special methods are written as operators, and not looked for."""
    for name in module.__all__:
        yield name
        public = getattr(module, name)
        if isinstance(public, type):
            for base in public.__mro__:
                if base.__module__.partition(".")[0] == module.__name__:
                    yield from (f"{name}.{member}" for member in vars(base) if not member.startswith("_"))


def names_not_used(names, texts):
    used = set()
    for text in texts:
        for node in ast.walk(ast.parse(text)):
            used |= {getattr(node, field, None) for field in ("attr", "id", "arg")}
    return [name for name in names if name.rpartition(".")[2] not in used]


# ---- The checks -----------------------------------------------------------------------------------------------------


def check_names():
    texts = [path.read_text(encoding="utf-8") for path in OK]
    return [f"goblin.{name} occurs in no ok_*.py" for name in names_not_used(public_names(goblin), texts)]


def check_mypy():
    failures = [str(complaint) for version in VERSIONS for complaint in by_mypy(version, *OK)]
    failures += disagreements(all_expectations(BAD), by_mypy(VERSIONS[0], *BAD))
    failures += map(str, by_mypy(VERSIONS[0], "--package", "goblin"))
    return failures


def check_pyright():
    failures = [str(complaint) for version in VERSIONS for complaint in by_pyright(version, OK)]
    failures += disagreements(all_expectations(BAD), by_pyright(VERSIONS[0], BAD))
    return failures


def check_stubtest():
    process = run("mypy.stubtest", "goblin")
    if process.returncode == 0:
        return []
    complaints = [
        part.strip() for part in re.split(r"^(?=error: )", process.stdout, flags=re.MULTILINE) if part.strip()
    ]
    # The last one has stubtest's own count behind it.
    complaints = [re.sub(r"\s*^Found \d+ errors?.*", "", part, flags=re.MULTILINE) for part in complaints]
    return [part for part in complaints if not is_artefact(part)] if complaints else [process.stderr]


def is_artefact(complaint):
    """mypy names what isinstance() and callable() narrow to, and stubtest takes these types for names of the module."""
    rest = re.sub(r"<(callable subtype|subclass) of [^<>]*>\d*", "", complaint)
    nothing_else = (
        re.search(r"not at runtime: \['', ''\]|not at runtime: \[''\]", rest) and "not in the stub: []" in rest
    )
    return rest != complaint and (
        bool(nothing_else) or re.match(r"error: [\w.]+\. is not present at runtime", rest) is not None
    )


CHECKS = {"names": check_names, "mypy": check_mypy, "pyright": check_pyright, "stubtest": check_stubtest}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"of {', '.join(CHECKS)}; all if none is named")
    chosen = parser.parse_args(argv).checks or list(CHECKS)
    if not set(chosen) <= set(CHECKS):
        parser.error(f"choose from {', '.join(CHECKS)}")
    print(
        f"{len(OK)} files that must pass, {len(all_expectations(BAD))} lines that must not; goblin in {PACKAGE}",
        flush=True,
    )
    failed = []
    for name in chosen:
        failures = CHECKS[name]()
        print("\n".join([f"{name:10} {'ok' if not failures else f'FAILED: {len(failures)}'}", *failures]), flush=True)
        failed += [name] if failures else []
    print("typing: " + (f"failed: {', '.join(failed)}" if failed else "all is well"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
