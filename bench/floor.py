"""Builds and loads this folder's .pyx files, which belong to the benchmarks and never to the package.

It goes into a folder of .cache named after everything that shapes it, so a second run only loads it, and a change of
setup.py's directives or flags, of Cython or of the interpreter makes a new one.
"""

import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def load_empty():
    """The class Empty."""
    return load("empty").Empty


def load(name):
    """The module of bench/name.pyx."""
    switches = {name: value for name, value in os.environ.items() if name.startswith("GOBLIN_")}
    recipe = repr((sorted(switches.items()), version("cython"), sys.version, SUFFIX)).encode()
    recipe += (ROOT / "setup.py").read_bytes() + (ROOT / "bench" / f"{name}.pyx").read_bytes()
    folder = ROOT / ".cache" / "bench" / hashlib.sha256(recipe).hexdigest()[:16]
    module = folder / f"{name}{SUFFIX}"
    if not module.exists():
        # In a process of its own: setuptools changes the interpreter it is imported into.
        subprocess.run([sys.executable, __file__, name, str(folder)], cwd=ROOT, check=True)
    return _import_file(name, module)


def _import_file(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _build(name, folder):
    # Before anything of distutils: setuptools replaces it.
    from setuptools import Distribution

    recipe = _import_file("goblin_setup", ROOT / "setup.py")
    module = recipe.extension(name, f"bench/{name}.pyx")
    command = Distribution({"ext_modules": [module]}).get_command_obj("build_ext")
    command.build_lib, command.build_temp = folder, os.path.join(folder, "temp")
    command.cython_c_in_temp = True
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    _build(*sys.argv[1:])
