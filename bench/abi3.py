"""What the limited API would cost: `python bench/abi3.py`, for docs/why-no-abi3.md. Needs Cython and setuptools.

goblin itself does not compile under it (the page says why), so measured is abi3.pyx: what is around a step, which is the
part that the limited API changes. Built twice, measured in turn, beside goblin's own `increx`.
"""

import argparse
import importlib.util
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import timeit
from pathlib import Path

import goblin

SOURCE = Path(__file__).resolve().parent / "abi3.pyx"
SETUP = """
import sys
from setuptools import Extension, setup
level = sys.argv.pop()
macros = [("Py_LIMITED_API", level)] if level != "whole" else []
module = Extension("abi3", ["abi3.pyx"], define_macros=macros, py_limited_api=bool(macros), extra_compile_args=["-std=c11"])
module.cython_directives = {directives!r}
setup(name="abi3", ext_modules=[module])
"""
DIRECTIVES = {"language_level": 3, "binding": False, "embedsignature": True, "embedsignature.format": "clinic"}


def built(folder, level):
    """Counters of abi3.pyx, built for `level`: "whole", or a value of Py_LIMITED_API."""
    tree = folder / level
    tree.mkdir()
    (tree / "abi3.pyx").write_text(SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    (tree / "setup.py").write_text(SETUP.replace("{directives!r}", repr(DIRECTIVES)), encoding="utf-8")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", level]
    subprocess.run(command, cwd=tree, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (path,) = (file for file in tree.iterdir() if file.suffix in (".so", ".pyd"))
    spec = importlib.util.spec_from_file_location("abi3", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Counters()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--calls", type=int, default=100_000)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    newest = f"0x03{min(sys.version_info[1], 13):02X}0000"
    with tempfile.TemporaryDirectory() as folder:
        levels = ["whole", *dict.fromkeys(["0x030A0000", newest])]
        stores = {level: built(Path(folder), level) for level in levels} | {"goblin": goblin.Counters()}
        timers = {
            name: timeit.Timer('call("rate:user42", 60)', globals={"call": store.increx}) for name, store in stores.items()
        }
        rounds = {name: [] for name in timers}
        for _ in range(options.rounds):
            for name, timer in timers.items():
                rounds[name].append(timer.timeit(options.calls) / options.calls * 1e9)
    print(f"CPython {platform.python_version()}, {platform.platform()}; {options.rounds} rounds of {options.calls} calls")
    for name, times in rounds.items():
        more = [one - other for one, other in zip(times, rounds["whole"], strict=True)]
        cells = ["/".join(f"{value:.1f}" for value in statistics.quantiles(row, n=4)) for row in (times, more)]
        print(f"{name:12} {cells[0]:>18} ns a call (quartiles), {cells[1]:>18} more than the whole API")


if __name__ == "__main__":
    main()
