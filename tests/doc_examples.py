"""The examples of the documentation, as something that can be run. `test_docs.py` runs them.

In Markdown pages (those beside README.md, and docs/ with its folders), by the language of the fence:

    python    a session if it starts with >>>, compared as doctest does; else code that must not raise.
              A page is read from top to bottom in one namespace.
    console   lines that start with `> ` go, in order, to one `python -m goblin --manual-clock`, and what it prints must
              be what stands there. `$ ` lines go to a Unix shell. Each block starts with an empty store.
              Beside replies there may be remarks: blanks and a #.

`<!-- skip: next "the reason" -->` on a line of its own before a block leaves that block out.
In docstrings of public names: >>> sessions. Each has at hand `goblin`, the public names, and an empty store `counters`
on a `clock` that stands still.
"""

import difflib
import doctest
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser, SkipParser

import goblin

ROOT = Path(__file__).resolve().parent.parent
_BUILT = ROOT / "docs" / "_build"
PAGES = [*sorted(ROOT.glob("*.md")), *(page for page in sorted((ROOT / "docs").rglob("*.md")) if _BUILT not in page.parents)]
SHELL_TIMEOUT_SECONDS = 60  # only a guard against hanging
REMARK = re.compile(r"[ \t]+#.*$")


# --- pages -----------------------------------------------------------------------------------------------------------


def examples_of(page):
    """The examples of a page in their order; `evaluate()` raises where one fails, naming file and line."""
    return _SYBIL.parse(page).examples()


def fences_of(page):
    """(line number, language) of every fenced block, ours or not."""
    inside = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = re.match(r"\s*(?:```|~~~)+\s*(\S*)", line)
        if fence:
            inside = not inside
            if inside:
                yield number, fence.group(1)


def _run_console(example):
    """Evaluator of a console block: a message where the output differs, None where it is right."""
    expected = [REMARK.sub("", line) if line[:1] not in "># $" else line for line in example.parsed.splitlines()]
    if expected and expected[0].startswith("$ "):
        actual = _run_in_unix_shell(expected)
    else:
        actual = _run_in_goblin(expected)
    if actual == expected:
        return None
    return "\n".join(difflib.unified_diff(expected, actual, "on the page", "printed", lineterm=""))


def _run_in_goblin(lines):
    # --echo repeats commands, comments and empty lines, so what it prints can be laid beside the page.
    typed = [line for line in lines if line.startswith((">", "#")) or not line]
    return _output([sys.executable, "-m", "goblin", "--manual-clock", "--echo"], "".join(f"{line}\n" for line in typed))


def _run_in_unix_shell(lines):
    output = []
    for line in lines:
        if line.startswith("$ "):
            # `python` has to be this interpreter, whatever else is on the PATH.
            script = f'python() {{ "{sys.executable}" "$@"; }}\n{line[2:]}'
            output += [line, *_output(["sh", "-c", script], "")]
    return output


def _output(command, typed):
    # Away from the checkout: the goblin that runs is the installed one.
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            command,
            input=typed,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            cwd=folder,
            env={**os.environ, "PYTHONUTF8": "1"},
            timeout=SHELL_TIMEOUT_SECONDS,
        )
    lines = process.stdout.splitlines()
    return lines if process.returncode == 0 else [*lines, f"(exit status {process.returncode})"]


_SYBIL = Sybil(parsers=[PythonCodeBlockParser(), CodeBlockParser("console", _run_console), SkipParser()])


# --- docstrings ------------------------------------------------------------------------------------------------------


def docstring_examples():
    """A DocTest for every docstring of a public name, or of a member of a public class, that has examples."""
    public_names = {name: getattr(goblin, name) for name in goblin.__all__}
    parser = doctest.DocTestParser()
    for name, documented in _documented():
        # A namespace of its own for each, so that they can be read one at a time.
        clock = goblin.ManualClock()
        at_hand = {"goblin": goblin, **public_names, "clock": clock, "counters": goblin.Counters(clock=clock)}
        test = parser.get_doctest(documented.__doc__ or "", at_hand, name, f"the docstring of {name}", 0)
        if test.examples:
            yield test


def _documented():
    yield "goblin", goblin
    for name in goblin.__all__:
        public = getattr(goblin, name)
        yield f"goblin.{name}", public
        if isinstance(public, type):
            for member, value in vars(public).items():
                if isinstance(getattr(value, "__doc__", None), str) and not isinstance(value, (str, int)):
                    yield f"goblin.{name}.{member}", value


def run_docstring(test):
    """The report of what failed, empty where all went well."""
    report = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    return "".join(report)
