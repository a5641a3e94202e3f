"""Switches for the build, and an sdist that is the same each time; what can be said as data is in pyproject.toml.

Environment variables, "1" turns one on (`make build GOBLIN_DEBUG=1` does the same and rebuilds when they change):

    GOBLIN_SANITIZE   AddressSanitizer and UBSan. Run with libasan preloaded and PYTHONMALLOC=malloc.
    GOBLIN_PORTABLE   the fallbacks of _port.h instead of compiler builtins (-DGOB_PORTABLE)
    GOBLIN_DEBUG      C asserts on (-DGOB_DEBUG, -UNDEBUG)
    GOBLIN_COVERAGE   line tracing for Cython's coverage plugin; the generated C stays beside the .pyx, where it looks
    GOBLIN_ANNOTATE   Cython's yellow HTML pages, beside the generated C (see there)
    GOBLIN_WERROR     C warnings are errors. For us, not for those who install with a compiler we have not seen.
    SOURCE_DATE_EPOCH seconds; an sdist's times are set to it, so that anybody can make the same bytes again

Imported rather than run (bench/conftest.py does), this file only offers `extension` and `build_ext_options`, so that
what is measured beside the core is compiled exactly as the core is.
"""

import gzip
import io
import os
import sysconfig
import tarfile
from glob import glob

from setuptools import Extension, setup
from setuptools.command.sdist import sdist


def switch(name):
    return os.environ.get(f"GOBLIN_{name}", "") not in ("", "0")


# Directives for every extension. Those that hide errors (boundscheck, wraparound, cdivision) are set per function in
# the .pyx, each with its reason.
DIRECTIVES = {
    "language_level": 3,
    # inspect.signature and help() need these two.
    "binding": False,
    "embedsignature": True,
    "embedsignature.format": "clinic",
    "autotestdict": False,  # doctests are found by tests/, not by a __test__ in the module
    "freethreading_compatible": True,  # each store has locks of its own: see goblin/_lock.h
    "linetrace": switch("COVERAGE"),
}


MODULES = ["_clock", "_scan", "_reservations", "_decide", "_convert", "_core", "_limiter"]


# A command's way from argument to record is a dozen small functions that share one structure; only as one piece of code
# does it stay in registers. gcc's bounds are for larger functions. Others do not know these, and elsewhere they would only
# make compiling five times as long.
HOT = {"goblin._core", "goblin._decide"}
INLINING = [
    "-finline-limit=1500", "--param=inline-unit-growth=200", "--param=large-function-growth=400",
    "--param=large-unit-insns=100000",
]


def c_settings():
    """Macros and flags, by compiler and by switch, as keywords of Extension."""
    macros, undefined, compile_args, link_args = [], [], [], []
    # "win-amd64" is MSVC; MinGW builds say "mingw_x86_64".
    if sysconfig.get_platform().startswith("win"):
        compile_args += ["/O2", "/std:c11"]
        if switch("WERROR"):
            compile_args += ["/WX"]
    else:
        # Cython's C is full of unused parameters, casts of method pointers and half-written initialisers, by design.
        compile_args += ["-std=c11", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Wno-unused-function"]
        compile_args += ["-Wno-cast-function-type", "-Wno-missing-field-initializers"]
        # An environment's CFLAGS take the place of Python's own, -O3 and -DNDEBUG among them.
        if "-O" not in os.environ.get("CFLAGS", "-O"):
            compile_args += ["-O3"]
        if "CFLAGS" in os.environ and not switch("DEBUG"):
            macros.append(("NDEBUG", None))
        if switch("WERROR"):
            compile_args += ["-Werror"]
        if switch("SANITIZE"):
            sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
            # -fwrapv is among CPython's own flags and would make UBSan blind to signed overflow.
            compile_args += [*sanitizers, "-fno-omit-frame-pointer", "-fno-wrapv", "-O1", "-g"]
            # gcc's own manual warns of false alarms of this one under its sanitizers.
            compile_args += ["-Wno-maybe-uninitialized"]
            link_args += sanitizers
    if switch("PORTABLE"):
        macros.append(("GOB_PORTABLE", "1"))
    if switch("DEBUG"):
        macros.append(("GOB_DEBUG", "1"))
        undefined.append("NDEBUG")
    if switch("COVERAGE"):
        macros.append(("CYTHON_TRACE_NOGIL", "1"))
    return {
        "define_macros": macros,
        "undef_macros": undefined,
        "extra_compile_args": compile_args,
        "extra_link_args": link_args,
    }


def extension(name, source):
    """A plain setuptools.Extension of a .pyx: cythonize() here would leave the .pyx out of the sdist."""
    # A change of any header or .pxd must rebuild every module that could include it; there are few, so all.
    headers = sorted(glob("goblin/*.h") + glob("goblin/*.pxd"))
    settings = c_settings()
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or ""
    if name in HOT and "gcc" in compiler:
        settings["extra_compile_args"] = INLINING + settings["extra_compile_args"]
    module = Extension(name, [source], depends=headers, **settings)
    module.cython_directives = DIRECTIVES  # read by Cython's build_ext
    return module


class Sdist(sdist):
    """Under SOURCE_DATE_EPOCH, without what the machine adds: times, owners, modes, the order of its folders."""

    def make_archive(self, *args, **kwargs):
        path = super().make_archive(*args, **kwargs)
        epoch = os.environ.get("SOURCE_DATE_EPOCH")
        if epoch and path.endswith(".tar.gz"):
            pack_again(path, int(epoch))
        return path


def pack_again(path, epoch):
    with tarfile.open(path) as archive:
        members = [(one, archive.extractfile(one).read() if one.isfile() else b"") for one in archive.getmembers()]
    with (
        open(path, "wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for old, content in sorted(members, key=lambda member: member[0].name):
            new = tarfile.TarInfo(old.name)  # owned by nobody in particular
            new.type, new.size, new.mtime = old.type, len(content), epoch
            new.mode = 0o755 if old.isdir() or old.mode & 0o100 else 0o644
            archive.addfile(new, io.BytesIO(content))


# The generated C goes to the temporary build folder: never beside the sources, never into a commit, sdist or wheel.
build_ext_options = {"cython_c_in_temp": not switch("COVERAGE")}

if switch("ANNOTATE"):
    from Cython.Compiler import Options

    Options.annotate = True

if __name__ == "__main__":
    setup(
        ext_modules=[extension(f"goblin.{name}", f"goblin/{name}.pyx") for name in MODULES],
        cmdclass={"sdist": Sdist},
        options={"build_ext": build_ext_options},
    )
