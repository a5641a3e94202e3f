"""Who is measured beside whom: a small file for each, all with the same three names.

    name            as the tables call it
    setup(limit, seconds)
                    a fresh limiter that admits `limit` hits for each key in `seconds`, as a dict of the names that
                    `hit` uses
    hit             one line of Python that hits `key` and sets `ok` to whether it was admitted; it is compiled into the
                    loop that is timed, so that nobody pays for a function around the call that a user would not write

A file may say more: `distribution`, whose version is recorded; `works`, the names of the only workloads it takes part
in; `keyed = False` where there is one count and no key; `refusal`, the exception that a refused hit raises; `probe`, a
line like `hit` that does not wait where `hit` would; `expires = False` of what never forgets; `fill(names, keys)`, a
faster way of making many live keys; `close(names)`; `program`, what has to be on the PATH.

`referee.py` has each count before it is timed. A file that cannot be imported is reported as missing.
"""

import importlib
import pkgutil
import shutil
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple


class Rival(NamedTuple):
    file: str  # "limits_fixed"
    module: Any  # None: missing
    name: str
    version: str  # or, of a missing one, why

    def takes_part_in(self, work):
        works = getattr(self.module, "works", None)
        if works is not None:
            return work in works
        return work != "decorator"


def load(file):
    try:
        module = importlib.import_module(f"rivals.{file}")
    except ImportError as error:
        return Rival(file, None, file.replace("_", " "), f"not installed: {error}")
    program = getattr(module, "program", None)
    if program and not shutil.which(program):
        return Rival(file, None, module.name, f"{program} is not on the PATH")
    distribution = getattr(module, "distribution", None)
    try:
        return Rival(file, module, module.name, f"{distribution} {version(distribution)}" if distribution else "")
    except PackageNotFoundError as error:
        return Rival(file, None, module.name, f"not installed: {error}")


def load_all():
    """Every file of this folder, goblin's first."""
    files = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [load(file) for file in sorted(files, key=lambda file: not file.startswith("goblin"))]
