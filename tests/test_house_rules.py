"""The rules of CONTRIBUTING.md that a machine can keep: arrows between files, docstrings, sizes, what git holds.

Each rule is a small function that lists what breaks it. Its first test asks it about this repository, its second shows
it something that breaks the rule, since a check that cannot fail is none. An exception to a rule stands here with its
reason, and has to go when it is no longer needed.
"""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import goblin

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "goblin"

if not (PACKAGE / "_core.pyx").exists():
    pytest.skip("the sources of goblin are not beside its tests", allow_module_level=True)

BUILT = re.compile(
    r"(^|/)(build|dist|_build|__pycache__|\.venv[^/]*|\.cache|\.\w+_cache|\.hypothesis|\.benchmarks|[^/]+\.egg-info)/"
    r"|\.(so|pyd|dll|dylib|o|obj|a|lib|whl|py[co]|gcda|gcno|gcov|profraw|dSYM)$"
    r"|^goblin/.*\.(c|cpp|html)$|(^|/)(\.coverage[^/]*|core|crash-[0-9a-f]+)$"
)


def files(*folders, endings):
    """{path within the repository: text}, without what was built."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in endings and not BUILT.search(path.relative_to(ROOT).as_posix())
    }


def nothing(found, advice):
    """Assert that nothing was found; else say what to do, and list it."""
    rows = [f"{what}: {why}" for what, why in found.items()] if isinstance(found, dict) else map(str, found)
    assert not found, "\n  ".join([advice, *sorted(rows)])


def tracked():
    """Paths that git holds."""
    try:
        listing = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, encoding="utf-8", check=True, timeout=60
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no git here to ask what it holds: {error}")
    paths = [path for path in listing.stdout.split("\0") if path]
    if "pyproject.toml" not in paths:
        pytest.skip("the tests lie in somebody else's git repository")
    return paths


# ---- Arrows: who may use whom ---------------------------------------------------------------------------------------

# From the ground up. A file may use what is named in a line above its own. A .pyx and its .pxd are one name, and so is
# a folder; "goblin" is __init__.py, the public names.
LAYERS = [
    "errors _port _alloc",
    "_table _pyport _lock",
    "_rules _glob",
    "_args",
    "_keys",
    "_step",
    "_store",
    "_clock _scan _reservations",
    "_decide",
    "_core _convert",
    "store",
    "_limiter",
    "_waiting",
    "limiter",
    "async_limiter",
    "_decorated _template _functions _wrappers",
    "decorators",
    "goblin",
    "shell_text testing redis",
    "shell",
    "__main__ integrations",
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names.split()}
UPWARD: dict[tuple[str, str], str] = {  # (who, whom): why this one arrow points upward
    ("_limiter", "limiter"): "Decision.headers() is seldom called and long: it fetches its text from the cold half",
}

# Beside the standard library and what Cython itself brings.
NOT_FOREIGN = sys.stdlib_module_names | {"goblin", "cython", "cpython", "libc"}
NOT_FOREIGN |= {"annotationlib"}  # Python's since 3.14
ONLY_FOR_CHECKERS = {"typing_extensions", "_typeshed"}  # in stubs: never imported, and every type checker has them
# Whoever imports one of these has what it needs: its framework, redis-py, pytest.
MAY_USE_OTHERS = ("goblin/integrations/", "goblin/redis/", "goblin/testing.py")


def imports_of(path, text):
    """Dotted names of all that a file imports, cimports or includes; for type checkers only does not count."""
    if path.endswith((".py", ".pyi")):
        return imports_of_python(ast.parse(text))
    if path.endswith(".h"):
        return {f"goblin.{name}" for name in re.findall(r'^#include "(\w+)\.h"', text, re.MULTILINE)}
    found = {f"goblin.{name}" for name in re.findall(r'^cdef extern from "(_\w+)\.h"', text, re.MULTILINE)}
    found |= set(re.findall(r"^\s*c?import ([\w.]+)", text, re.MULTILINE))
    for module, names in re.findall(r"^\s*from ([\w.]+) c?import ([^\n#]*)", text, re.MULTILINE):
        found |= origins(module, re.findall(r"(\w+)(?: as \w+)?", names))
    return found


def imports_of_python(tree):
    found, waiting = set(), [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute: from goblin.x import y"
            found |= origins(node.module, [alias.name for alias in node.names])
    return found


def origins(module, names):
    """`from goblin import errors` uses goblin.errors; `from goblin import Counters` uses goblin's own __init__.py."""
    if module != "goblin":
        return {module}
    return {f"goblin.{name}" if name in LEVEL else "goblin" for name in names}


def noun_of_file(path):
    inside = path.removeprefix("goblin/")
    return inside.partition("/")[0].partition(".")[0].replace("__init__", "goblin")


def noun_of_module(dotted):
    return dotted.split(".")[1] if "." in dotted else dotted


def arrows(path, text):
    """{(who, whom)} of a file, between names of LAYERS."""
    ours = [dotted for dotted in imports_of(path, text) if dotted.split(".")[0] == "goblin"]
    return {(noun_of_file(path), noun_of_module(dotted)) for dotted in ours} - {(noun_of_file(path),) * 2}


def wrong_arrows(found):
    return {(who, whom) for who, whom in found if not LEVEL.get(whom, 99) < LEVEL.get(who, -1)}


def foreign_imports(path, text):
    allowed = NOT_FOREIGN | (ONLY_FOR_CHECKERS if path.endswith(".pyi") else set())
    return {dotted for dotted in imports_of(path, text) if dotted.split(".")[0] not in allowed}


def package_files(*endings):
    return files("goblin", endings=endings)


def test_arrows_every_file_belongs_to_a_layer():
    strangers = {path for path in package_files(".py", ".pyx", ".pxd", ".h") if noun_of_file(path) not in LEVEL}
    nothing(strangers, "say in LAYERS whom these may use")


def test_arrows_between_files_point_one_way():
    sources = package_files(".py", ".pyx", ".pxd", ".h")
    wrong = wrong_arrows(set().union(*(arrows(path, text) for path, text in sources.items())))
    nothing(wrong - set(UPWARD), "these (who, whom) point upward: see LAYERS")
    nothing(set(UPWARD) - wrong, "these exceptions in UPWARD are no longer needed")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("goblin/_rules.pxd", "from goblin._step cimport begin\n"),
        ("goblin/_rules.pxd", "from goblin cimport _step as step\n"),
        ("goblin/_core.pyx", "def f():\n    from goblin import limiter\n"),
        ("goblin/_core.pyx", "cimport goblin._limiter\n"),
        ("goblin/_table.h", '#include "_pyport.h"\n'),
        ("goblin/_table.pxd", 'cdef extern from "_pyport.h":\n    pass\n'),
        ("goblin/_glob.pxd", "from goblin._rules cimport (\n    State,\n)\n"),  # not from beside either
        ("goblin/errors.py", "import goblin\n"),
        ("goblin/errors.py", "def f():\n    import goblin._core as core\n"),
        ("goblin/limiter.py", "from goblin import Counters\n"),
        ("goblin/decorators.py", "from goblin.integrations.flask import limit\n"),
        ("goblin/__init__.py", "from goblin import integrations\n"),
        ("goblin/redis/sync.py", "from goblin.integrations import flask\n"),
        ("goblin/shell.py", "import goblin.unheard_of\n"),
    ],
)
def test_arrows_that_point_upward_are_seen(path, text):
    assert wrong_arrows(arrows(path, text)), text


def test_arrows_that_are_for_type_checkers_only_do_not_count():
    text = "import typing\nif typing.TYPE_CHECKING:\n    from goblin import Counters\nelse:\n    import heapq\n"
    assert imports_of("goblin/errors.py", text) == {"typing", "heapq"}


def test_arrows_to_the_integrations_come_from_nowhere_inside():
    users = {
        path
        for path, text in package_files(".py", ".pyx", ".pxd").items()
        if "goblin.integrations" in imports_of(path, text)
    }
    nothing({path for path in users if not path.startswith("goblin/integrations/")}, "these import integrations")


def test_arrows_to_other_packages_only_start_where_they_may():
    sources = package_files(".py", ".pyx", ".pxd", ".pyi")
    foreign = {
        path: foreign_imports(path, text) for path, text in sources.items() if not path.startswith(MAY_USE_OTHERS)
    }
    nothing({path: names for path, names in foreign.items() if names}, "these import what an install does not bring")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("goblin/limiter.py", "import redis\n"),
        ("goblin/limiter.py", "def f():\n    from typing_extensions import override\n"),
        ("goblin/_core.pyx", "cimport numpy\n"),
        ("goblin/_core.pyx", "from numpy.random cimport bitgen_t\n"),
        ("goblin/_core.pyi", "import attrs\n"),
    ],
)
def test_arrows_to_other_packages_are_seen(path, text):
    assert foreign_imports(path, text)


# A function of a .pxd becomes part of each module that cimports it, and looks Python names up in there: where such a
# module does not import them, it compiles, and raises NameError in place of the error that was meant.
NAMES_OF_PXD = {"goblin._args": "goblin.errors"}


def names_that_inlined_code_lacks(path, text):
    used = imports_of(path, text)
    return {name for module, name in NAMES_OF_PXD.items() if module in used and name not in used}


def test_arrows_to_inlined_code_come_with_the_names_it_uses():
    lacking = {path: names_that_inlined_code_lacks(path, text) for path, text in package_files(".pyx").items()}
    nothing({path: names for path, names in lacking.items() if names}, "import these too, or errors become NameError")


def test_arrows_to_inlined_code_without_its_names_are_seen():
    text = "from goblin._args cimport Key, as_key\n"
    assert names_that_inlined_code_lacks("goblin/_scan.pyx", text) == {"goblin.errors"}
    assert not names_that_inlined_code_lacks("goblin/_scan.pyx", "from goblin import errors\n" + text)


def module_name(path):
    return path.rpartition(".")[0].replace("/", ".").removesuffix(".__init__")


@pytest.mark.parametrize("path", [*package_files(".py", ".pyx")])
def test_module_alone_in_a_fresh_process_is_importable_without_a_warning(path, tmp_path):
    command = [sys.executable, "-W", "error", "-bb", "-c", f"import {module_name(path)}"]
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    missing = re.search(r"No module named '(\w+)", process.stderr)
    if missing and missing[1] != "goblin" and path.startswith(MAY_USE_OTHERS):
        pytest.skip(f"{missing[1]} is not installed")
    assert (process.returncode, process.stdout, process.stderr) == (0, "", "")


# ---- Docstrings -----------------------------------------------------------------------------------------------------

LONGEST_SUMMARY = 109  # characters: a full line without its indent and quotes
WITHOUT_EXAMPLE: dict[str, str] = {  # public callable: why its docstring shows none
    "RateLimiter.acquire_async": "a coroutine: an example would show little but an event loop",
}
WITHOUT_EXAMPLE |= {
    f"{protocol}.{verb}": "a protocol's verb: the stores that have it show it"
    for protocol in ("Store", "AsyncStore")
    for verb in ("decide", "refund", "unreserve", "delete", "now_ns")
}


def members_of(public):
    """(name, member) of what a class of ours adds to Python's own, its private bases included."""
    for base in public.__mro__:
        if base.__module__.partition(".")[0] == "goblin":
            yield from ((name, member) for name, member in vars(base).items() if not name.startswith("_"))


def documented(module):
    """(name, object, whether it is called) of public names and their members.

    Constants have no docstring of their own, and an attribute needs none where that of its class speaks of it.
    """
    for name in module.__all__:
        public = getattr(module, name)
        if isinstance(public, type):
            yield name, public, False
            for member, value in members_of(public):
                function = getattr(value, "__func__", value)  # of a classmethod or staticmethod
                if callable(function) or not re.search(rf"\b{member}\b", public.__doc__ or ""):
                    yield f"{name}.{member}", function, callable(function)
        elif callable(public):
            yield name, public, True


def docstring_faults(name, thing, is_called):
    text = inspect.cleandoc(vars(thing).get("__doc__") or "" if isinstance(thing, type) else thing.__doc__ or "")
    text = re.sub(r"\A\w+\(.*\)( -> .*)?\n--\n+", "", text)  # the signature that Cython puts in front
    summary, _, rest = text.partition("\n")
    if not text:
        return [f"{name} has no docstring"]
    found = []
    if rest and not rest.startswith("\n"):
        found.append(f"{name}: the summary is one line, then an empty one")
    if len(summary) > LONGEST_SUMMARY or not summary.rstrip().endswith((".", ":")):
        found.append(f"{name}: the summary is a sentence of at most {LONGEST_SUMMARY} characters: {summary!r}")
    if is_called and ">>>" not in text:
        found.append(f"{name} shows no example")
    return found


def test_docstrings_of_public_names_are_complete():
    found = [fault for row in documented(goblin) for fault in docstring_faults(*row)]
    excused = {f"{name} shows no example" for name in WITHOUT_EXAMPLE}
    nothing(set(found) - excused, "complete these docstrings")
    nothing(excused - set(found), "these exceptions in WITHOUT_EXAMPLE are no longer needed")


def test_docstrings_every_public_method_is_looked_at():
    seen = {name for name, _, _ in documented(goblin)}
    assert {"Counters", "Counters.increx", "ManualClock", "ManualClock.advance", "Stats"} <= seen


class Sample:
    """A class of the samples below."""

    def none(self):
        pass

    def two_lines(self):
        """A summary that
        goes on.

        >>> 1
        1
        """

    def no_sentence(self):
        """some words

        >>> 1
        1
        """

    def long(self):
        pass

    long.__doc__ = "A summary that " + "goes on and " * 8 + "on.\n\n>>> 1\n1\n"

    def no_example(self):
        """Something without an example."""


@pytest.mark.parametrize("name", [name for name in vars(Sample) if not name.startswith("_")])
def test_docstrings_that_lack_something_are_seen(name):
    assert docstring_faults(name, vars(Sample)[name], is_called=True)


def test_docstrings_inherited_from_python_do_not_count():
    class Bare(Exception):
        pass

    assert docstring_faults("Bare", Bare, is_called=False)
    assert not docstring_faults("Sample", Sample, is_called=False)


# ---- What git holds -------------------------------------------------------------------------------------------------


def built(paths):
    return [path for path in paths if BUILT.search(path)]


def test_git_holds_nothing_built():
    nothing(built(tracked()), "git holds what was built")


@pytest.mark.parametrize(
    "path",
    [
        *("goblin/_core.c", "goblin/_core.cpp", "goblin/_core.html", "goblin/_core.pyd"),
        *("goblin/_core.cpython-311-x86_64-linux-gnu.so", "goblin/__pycache__/errors.cpython-311.pyc", "x/a.o"),
        *("build/lib/goblin/errors.py", "dist/goblin_counters-1.tar.gz", "goblin_counters.egg-info/PKG-INFO"),
        *("tests/c/build/plain/tests", "docs/_build/index.html", ".venv/pyvenv.cfg", ".venv-3.13/pyvenv.cfg"),
        *(".mypy_cache/x.json", ".hypothesis/unicode_data/x", ".coverage.host.1", "tests/c/crash-da39a3ee"),
    ],
)
def test_git_built_files_are_seen(path):
    assert built([path, "goblin/_table.h", "tests/c/harness.c", "goblin/__init__.py"]) == [path]


# Folders of somebody's machine. (Devices and the like, such as /dev/null and /usr/bin/env, are the same everywhere.)
SOMEWHERE = re.compile(
    r"(?<![\w.~:/>])/(?:home|root|Users|work|workspace|mnt|media|srv|opt|tmp)/[\w.-]+|\b[A-Za-z]:\\\\?Users\b"
)
UPSTAIRS = re.compile(r"(?<![\w.])(?:\.\./)+[\w.-]*")


def places_outside(path, text):
    """What a file names that lies outside the repository: absolute folders, and ../ that climbs out of it."""
    found = SOMEWHERE.findall(text)
    for climb in UPSTAIRS.findall(text):
        if os.path.normpath(os.path.join(os.path.dirname(path), climb)).startswith(".."):
            found.append(climb)
    return found


def test_git_holds_nothing_that_names_a_place_outside():
    found = {}
    for path in tracked():
        if (ROOT / path).is_file():
            found[path] = places_outside(path, (ROOT / path).read_text(encoding="utf-8", errors="replace"))
    nothing({path: places for path, places in found.items() if places}, "these name places outside the repository")


def test_git_places_outside_are_seen():
    outside = ["/" + "home/ann/goblin", "/" + "work/main", "/" + "tmp/x", "C:" + "\\Users"]
    for place in outside:
        assert places_outside("docs/a.md", f"see `{place}` for it"), place
    up = "../"
    for path, place in [("README.md", up + "x"), ("tests/a.py", up * 2 + "x"), ("tests/c/a.h", up * 3 + "goblin/x.h")]:
        assert places_outside(path, f'"{place}"'), place
    for path, text in [
        ("tests/c/Makefile", "-I" + up * 2 + "goblin"),
        ("docs/a.md", f"[readme]({up}README.md)"),
        (".ci/run", "#!/usr/bin/env bash\necho >/dev/null https://example.org/home/ann"),
    ]:
        assert places_outside(path, text) == []


# ---- Sizes ----------------------------------------------------------------------------------------------------------

MOST_LINES = 400  # of code: comments, docstrings and empty lines are free
LARGE: dict[str, str] = {  # path: why it is not divided
    "goblin/_core.pyx": "one class, which Cython wants in one file; its methods are short and alike",
    "goblin/_table.h": "one data structure: its parts share their invariants, and it has to be read as a whole",
}


def code_lines(path, text):
    if path.endswith((".h", ".c")):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    else:
        text = re.sub(r'^[ \t]*[rR]?("""|\'\'\').*?\1', "", text, flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"^[ \t]*#.*", "", text, flags=re.MULTILINE)
    return sum(bool(line.strip()) for line in text.splitlines())


def test_sizes_of_files_are_within_bounds():
    sources = files("goblin", "tests", "bench", "examples", "docs", endings=(".py", ".pyi", ".pyx", ".pxd", ".h", ".c"))
    over = {path: lines for path, text in sources.items() if (lines := code_lines(path, text)) > MOST_LINES}
    strangers = {path: lines for path, lines in over.items() if path not in LARGE}
    nothing(strangers, f"divide these, or give the reason in LARGE (allowed: {MOST_LINES} lines of code)")
    nothing(set(LARGE) - set(over), "these exceptions in LARGE are no longer needed")


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        (
            "a.py",
            '"""Doc\n\nstring."""\n\nimport x  # why\n\n# comment\n\ndef f():\n    """Doc."""\n    return """a\nb"""\n',
            4,
        ),
        ("a.pyx", 'cdef class A:\n    """A\n--\n\nDoc.\n    """\n    cdef int x  # y\n    # z\n', 2),
        ("a.h", "/* a\n * b */\n#ifndef A\n\nint x; /* c */ // d\n// e\n#endif\n", 3),
    ],
)
def test_sizes_count_code_alone(path, text, lines):
    assert code_lines(path, text) == lines


# ---- What each file begins with -------------------------------------------------------------------------------------


def says_its_noun(path, text):
    """A comment or docstring comes first, and it is a sentence."""
    opening = {".h": r"/\*+ \w", ".pyx": r'r?"""[^"\s]', ".pxd": r'(# \w|r?"""[^"\s])', ".py": r'r?"""[^"\s]'}[
        os.path.splitext(path)[1]
    ]
    return re.match(rf"(#!.*\n)?{opening}", text) is not None


def test_files_begin_by_saying_their_noun():
    sources = files("goblin", "tests", endings=(".h", ".pxd", ".pyx", ".py"))
    nothing(
        [path for path, text in sources.items() if text and not says_its_noun(path, text)], "say first what these are"
    )


@pytest.mark.parametrize("path", ["a.h", "a.pxd", "a.pyx", "a.py"])
def test_files_that_begin_without_a_word_are_seen(path):
    for text in ("from libc.stdint cimport int64_t\n", "#include <x.h>\n", "\n# late\n", "import x\n", '""""""\n'):
        assert not says_its_noun(path, text)
    assert (
        says_its_noun(path, {".h": "/* The map. */\n", "pxd": "# The map.\n"}.get(path[-3:], '"""The map."""\n'))
        or path == "a.h"
    )
    assert says_its_noun("a.h", "/* The map. */\n")


# ---- Tests: no sleep, no wall clock ---------------------------------------------------------------------------------

# asyncio's sleep of 0 is no sleep: it lets others run.
CLOCKED = re.compile(
    r"\btime\.sleep\(|\basyncio\.sleep\((?!0\))|\btime\.time\(|from\s+time\s+import\s.*\b(?:sleep|time)\b"
)
TIMED: dict[str, str] = {
    "tests/test_reported_faults.py": "reads the wall clock only to set a false one: the store must not notice",
    "tests/redis_server.py": "waits for a server's clock, which nobody can move: its pause() is the one for all",
}


def clock_uses(text):
    """Also inside strings: programs for other processes stand there."""
    return CLOCKED.findall(text)


def test_tests_neither_sleep_nor_read_the_wall_clock():
    using = {path for path, text in files("tests", endings=(".py",)).items() if clock_uses(text)}
    nothing(using - set(TIMED), "make time stand still in these, or give the reason in TIMED")
    nothing(set(TIMED) - using, "these exceptions in TIMED are no longer needed")


@pytest.mark.parametrize(
    "use",
    [
        "{}.sleep(1)",
        "x = {}.{}()",
        "from {} import sleep",
        "from {} import monotonic, {}",
        "await asyncio.sl" + "eep(0.1)",
    ],
)
def test_tests_that_sleep_are_seen(use):
    assert clock_uses(use.replace("{}", "time"))
    assert not clock_uses("datetime.timedelta(1), some_time.now(), time.monotonic(), asyncio.sleep(0)")


# ---- What an install brings -----------------------------------------------------------------------------------------


def runtime_dependencies(pyproject):
    project = pyproject["project"]
    return list(project.get("dependencies", [])) + [
        name for name in project.get("dynamic", []) if name == "dependencies"
    ]


def test_install_brings_no_other_package():
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no tomllib")
    assert runtime_dependencies(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))) == []


def test_install_dependencies_are_seen():
    assert runtime_dependencies({"project": {"dependencies": ["typing_extensions"]}})
    assert runtime_dependencies({"project": {"dynamic": ["version", "dependencies"]}})
    assert not runtime_dependencies({"project": {"dynamic": ["version"], "dependencies": []}})
