"""goblin as somebody gets it who has no checkout: sdist, wheels, fresh environments. `.ci/run` runs it.

    python tests/package/check_package.py                    # some four minutes
    python tests/package/check_package.py --folder NEW_DIR   # keeps what it made there, to be looked at
    python tests/package/check_package.py --checks "sdist wheel metadata"

It needs a C compiler and a package index; pip's cache keeps what was downloaded. Everything is made with the
interpreter that runs this file. Each check stands in CHECKS, in order: later ones use what earlier ones made.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DISTRIBUTION = "goblin-counters"
TOOLS = ["build>=1.2,<2", "twine>=6.1,<8", "check-wheel-contents>=0.6.2,<0.7"]
LOWEST = {"setuptools": "77.0.1", "Cython": "3.1.0"}  # the first releases within pyproject.toml's bounds

# What git holds and the sdist does not; everything else must be in it, and nothing that git does not hold.
NOT_IN_SDIST = (".gitignore", ".ci/", ".github/", ".pre-commit-config.yaml")
MADE_BY_SETUPTOOLS = {"PKG-INFO", "setup.cfg"}
# Planted before the sdist is made: what a developer's tree has lying about. None of it may be taken along.
LITTER = """
    .cache/x.py  .venv/lib/x.py  bench/empty.so  build/lib/goblin/errors.py  docs/_build/index.md
    goblin/__pycache__/errors.cpython-39.pyc  goblin/_core.c  goblin/_core.cpython-39-x86_64-linux-gnu.so
    goblin/_core.html  goblin/_core.pyd  tests/.hypothesis/x.py  tests/.ruff_cache/x  tests/c/build/plain/x.c
    tests/c/build/tests  tests/typing/.mypy_cache/x.py  tests/__pycache__/rows.cpython-39.pyc
""".split()

SMOKE = """
import goblin
store = goblin.Counters()
replies = [store.incr("k"), store.increx("w", 60), store.ttl("w"), store.incrbound("k", 1, 1), store["k"]]
if replies != [1, 1, 60, -1, 1]: raise SystemExit(f"replies are {replies}")
print(goblin.__file__)
"""

# Passes if asserts, or those of the tests' own helpers, are not carried out. Copied beside the contract tests.
CANARY = """
\"\"\"All of these must fail.\"\"\"
from rows import do, row
def test_assert(): assert [] == [1]
def test_row(engine): row("x", do("incr", "k").gives(2)).run(engine)
"""


class Failure(Exception):
    """A check did not hold."""


def require(condition, message):
    """`assert` that also works under python -O."""
    if not condition:
        raise Failure(message)


def require_same(found, expected, what):
    lines = [f"  unexpected: {name}" for name in sorted(set(found) - set(expected))]
    lines += [f"  missing:    {name}" for name in sorted(set(expected) - set(found))]
    require(not lines, "\n".join([what, *lines]))


class Workshop:
    """The folder in which everything is made, and the environment that commands see."""

    def __init__(self, folder):
        self.folder = folder
        self.sdist = self.unpacked = self.wheel = self.cython = None  # what the checks make
        # Nothing of the caller's leads to the checkout or changes the build.
        switches = re.findall(r'switch\("(\w+)"\)', (ROOT / "setup.py").read_text(encoding="utf-8"))
        dropped = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LD_PRELOAD", "PYTHONOPTIMIZE"}
        dropped |= {f"GOBLIN_{name}" for name in switches}
        self.environment = {name: value for name, value in os.environ.items() if name not in dropped}
        # A git that only tells on its callers.
        self.git_was_asked = folder / "git-was-asked"
        git = folder / "bin" / "git"
        git.parent.mkdir()
        git.write_text(f'#!/bin/sh\necho "in $PWD: git $*" >>"{self.git_was_asked}"\nexit 127\n')
        git.chmod(0o755)
        self.environment["PATH"] = f"{git.parent}{os.pathsep}{self.environment['PATH']}"
        self.environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
        self.environment["SOURCE_DATE_EPOCH"] = "1700000000"  # any time will do: see check_reproducible

    def run(self, *command, cwd=None, expected=0):
        """Run away from the checkout; returns what was printed. Another exit status than `expected` is a failure."""
        done = subprocess.run(
            [str(word) for word in command], cwd=cwd or self.folder, env=self.environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace", timeout=1800,
        )  # fmt: skip
        shown = " ".join(str(word) for word in command)
        wrong = f"$ {shown}\n{done.stdout}\n(exit status {done.returncode}, not {expected})"
        require(done.returncode == expected, wrong)
        return done.stdout

    def python(self, name):
        """The interpreter of the environment `name`."""
        return self.folder / name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")

    def environment_with(self, name, *requirements):
        """A fresh virtual environment in which nothing but pip and the requirements is installed; its interpreter."""
        venv.create(self.folder / name, with_pip=True)
        python = self.python(name)
        # ensurepip brings setuptools along on Python 3.11 and older.
        self.run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "setuptools")
        if requirements:
            self.run(python, "-m", "pip", "install", "--quiet", *requirements)
        return python

    def build_wheel(self, source, name):
        """The wheel that pip builds of a source, isolated, with what pyproject.toml asks for alone; and its Cython."""
        python, folder = self.environment_with(f"{name}-builder"), self.folder / f"{name}-wheel"
        for module in ("Cython", "setuptools", "goblin"):
            self.run(python, "-c", f"import {module}", expected=1)
        self.git_was_asked.unlink(missing_ok=True)  # by the tests that ran before, perhaps: they may
        said = self.run(python, "-m", "pip", "wheel", "--verbose", "--no-deps", "--wheel-dir", folder, source)
        require(not self.git_was_asked.exists(), "the build asks git, which an sdist does not have")
        cython = re.search(r"Successfully installed .*\bcython-([\d.]*\d)", said, re.IGNORECASE)
        require(cython, f"pip does not say which Cython it took:\n{said}")
        (wheel,) = folder.iterdir()
        return wheel, cython[1]

    def install(self, wheel, name, *extras):
        """A fresh environment with the wheel, which is what is imported, without a warning; its interpreter."""
        python = self.environment_with(name, f"{wheel}[{','.join(['test', *extras])}]")
        self.run(python, "-c", "import Cython", expected=1)
        for flags in ([], ["-W", "error", "-bb"], ["-X", "dev", "-W", "error"], ["-O"], ["-OO"]):
            place = self.run(python, *flags, "-c", SMOKE).strip()
            require(Path(place).is_relative_to(self.folder / name), f"with {flags}, {place!r} is imported")
        return python

    def tests_away(self):
        """A folder with the sdist's tests and the pages that they read, without the package."""
        folder = self.folder / "away"
        if not folder.exists():
            shutil.copytree(self.unpacked, folder, ignore=lambda _, names: {"goblin"}.intersection(names))
        return folder

    def run_tests(self, python, *flags, tests=(), expected=0):
        """pytest against what is installed, the contract tests unless others are named; its last line."""
        folder = self.tests_away()
        names = tests or sorted(path.relative_to(folder) for path in folder.glob("tests/test_contract_*.py"))
        require(names, "there are no contract tests")
        # Under -O pytest warns that asserts are not carried out. Ours are, since it rewrites them: see check_canary.
        quiet = ["-W", "ignore:assertions not in test modules:pytest.PytestConfigWarning"]
        command = [python, *flags, "-m", "pytest", "-q", "-p", "no:cacheprovider", *quiet, *names]
        said = self.run(*command, cwd=folder, expected=expected).strip().splitlines()
        return said[-1].strip("= ")


def held_by_git():
    """Paths that git holds or would take; outside git, every file of the tree."""
    if (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.split("\0")
    else:
        names = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if ".egg-info" not in str(path)]
        names = set(names) - MADE_BY_SETUPTOOLS
    return {name for name in names if name and (ROOT / name).is_file()}


# ---- The checks -----------------------------------------------------------------------------------------------------


def check_sdist(shop):
    """What git holds is in the sdist, but for NOT_IN_SDIST; generated and built files are not."""
    held, tree = held_by_git(), shop.folder / "tree"
    for path in held:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tree / path)
    for path in LITTER:
        require(path not in held, f"git holds {path}")
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text("litter")
    tools = shop.environment_with("tools", *TOOLS)
    shop.run(tools, "-m", "build", "--sdist", "--outdir", shop.folder / "sdist", tree)
    (shop.sdist,) = (shop.folder / "sdist").iterdir()
    with tarfile.open(shop.sdist) as archive:
        found = [member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()]
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(shop.folder / "unpacked", **safely)
    (shop.unpacked,) = (shop.folder / "unpacked").iterdir()
    found = {path for path in found if ".egg-info/" not in path}
    expected = {path for path in held if not path.startswith(NOT_IN_SDIST)} | MADE_BY_SETUPTOOLS
    require_same(found, expected, f"{shop.sdist.name} is not what git holds:")
    for ending in (".pyx", ".pxd", ".h", ".pyi", ".lua", "py.typed"):
        require(any(path.startswith("goblin/") and path.endswith(ending) for path in found), f"no {ending} in it")
    return f"{shop.sdist.name}: {len(found)} files"


def check_reproducible(shop):
    """The same bytes from another folder, written at another time, with other modes and no litter about."""
    tree = shop.folder / "tree-again"
    for path in sorted(held_by_git(), reverse=True):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tree / path)
        (tree / path).chmod(0o600)  # as in the first tree, where copies are not executable either
        os.utime(tree / path, (1, 1))
    shop.run(shop.python("tools"), "-m", "build", "--sdist", "--outdir", shop.folder / "sdist-again", tree)
    (again,) = (shop.folder / "sdist-again").iterdir()
    require(again.name == shop.sdist.name, f"{again.name} is not {shop.sdist.name}")
    require(again.read_bytes() == shop.sdist.read_bytes(), f"two builds of {again.name} differ: compare {shop.folder}")
    return f"sha256 {hashlib.sha256(again.read_bytes()).hexdigest()[:16]}... twice"


def check_wheel(shop):
    """F1, F2: of the sdist alone, without git or Cython at hand, a wheel of modules and stubs, without sources."""
    shop.wheel, shop.cython = shop.build_wheel(shop.sdist, "highest")
    paths = [path for path in (shop.unpacked / "goblin").rglob("*") if path.is_file()]
    sources = {path.relative_to(shop.unpacked).as_posix() for path in paths}
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    expected = {path for path in sources if not path.endswith((".pyx", ".pxd", ".h"))}
    expected |= {path.removesuffix(".pyx") + suffix for path in sources if path.endswith(".pyx")}
    with zipfile.ZipFile(shop.wheel) as archive:
        found = [name for name in archive.namelist() if not re.match(r"goblin_counters-[^/]+\.dist-info/", name)]
        modules = [archive.read(name) for name in found if name.endswith(suffix)]
    require_same(found, expected, f"{shop.wheel.name} is not what it should be:")
    require(not any(b"__assert_fail" in module for module in modules), "an ordinary build has C asserts in it")
    return f"{shop.wheel.name}: {len(found)} files, made by Cython {shop.cython}"


def check_metadata(shop):
    """F8: the name is not `goblin`, nothing else is brought along, and an index can show the README."""
    with zipfile.ZipFile(shop.wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(name).decode())
    code = (shop.unpacked / "goblin" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', code, re.MULTILINE)[1]
    fields = {"Name": DISTRIBUTION, "Version": version, "Description-Content-Type": "text/markdown"}
    for field, expected in fields.items():
        require(metadata[field] == expected, f"{field} is {metadata[field]!r}, not {expected!r}")
    brought = [line for line in metadata.get_all("Requires-Dist", []) if not re.search(r";.*\bextra == ", line)]
    require(not brought, f"an install brings {brought}")
    text = (shop.unpacked / "README.md").read_text(encoding="utf-8")
    require(DISTRIBUTION in text, f"the README does not speak of {DISTRIBUTION}")
    require(not re.search(r"pip install goblin(?![-\w])", text), "the README has somebody else's goblin installed")
    said = shop.run(shop.python("tools"), "-m", "twine", "check", "--strict", shop.sdist, shop.wheel)
    require(said.count("PASSED") == 2, said)
    said += shop.run(shop.python("tools"), "-m", "check_wheel_contents", shop.wheel)
    return "twine and check-wheel-contents have no complaint"


def check_installed(shop):
    """All tests against the installed wheel, away from the checkout."""
    return shop.run_tests(shop.install(shop.wheel, "fresh", "typing"), tests=["tests"])


def check_optimised(shop):
    """F7: the same contract under python -O, where a plain `assert` does nothing."""
    return shop.run_tests(shop.python("fresh"), "-O")


def check_canary(shop):
    """Proof of what was just said: tests that must fail do fail under python -O."""
    canary = shop.tests_away() / "tests" / "test_canary.py"
    canary.write_text(CANARY)
    said = shop.run_tests(shop.python("fresh"), "-O", tests=[canary], expected=1)
    canary.unlink()
    require("failed" in said and "passed" not in said, said)
    return f"of tests that must fail: {said}"


def check_lowest(shop):
    """F4: the lowest Cython and setuptools that pyproject.toml allows build it too."""
    tree = shop.folder / "lowest-tree"
    shutil.copytree(shop.unpacked, tree)
    text = (tree / "pyproject.toml").read_text(encoding="utf-8")
    bounds = re.search(r'^requires = \["setuptools>=([\d.]+)", "Cython>=([\d.]+),<[\d.]+"\]$', text, re.MULTILINE)
    require(bounds, "pyproject.toml bounds setuptools below, Cython on both sides, and nothing else")
    for (name, version), bound in zip(LOWEST.items(), bounds.groups()):
        require(version.startswith(f"{bound}."), f"{name} {version} is not the lowest of {bounds[0]}")
    exact = ", ".join(f'"{name}=={version}"' for name, version in LOWEST.items())
    (tree / "pyproject.toml").write_text(text.replace(bounds[0], f"requires = [{exact}]"), encoding="utf-8")
    wheel, cython = shop.build_wheel(tree, "lowest")
    require(cython == LOWEST["Cython"] != shop.cython, f"Cython {cython} and {shop.cython} are hardly the two ends")
    return f"Cython {cython}: {shop.run_tests(shop.install(wheel, 'fresh-lowest'))}"


CHECKS = {name.removeprefix("check_"): value for name, value in dict(globals()).items() if name.startswith("check_")}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="where to make everything, and leave it; it must not exist")
    parser.add_argument("--checks", default=" ".join(CHECKS), help=f"some of: {' '.join(CHECKS)}")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="goblin-package-") as temporary:
        folder = (options.folder or Path(temporary) / "shop").resolve()
        folder.mkdir(parents=True)
        shop, start = Workshop(folder), time.monotonic()
        for name in options.checks.split():
            begun = time.monotonic()
            try:
                said = CHECKS[name](shop)
            except Failure as failure:
                print(f"package: {name} FAILED: {failure}", flush=True)
                return 1
            print(f"{name:10} {time.monotonic() - begun:4.0f} s  {said}", flush=True)
        print(f"package: all is well, {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
