"""What a figure is published with: machine, versions, commit, load; and the way of results into bench/results/.

Every runner here calls `begin()`, measures, and hands what it found to `write()`: one JSON file for each runner and
each Python.
"""

import json
import os
import platform
import subprocess
import sys
import sysconfig
import time
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
TAG = f"{sys.version_info[0]}.{sys.version_info[1]}{'t' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''}"


def first_line(*command):
    """Of what a program says; empty where there is none."""
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answer.strip().split("\n")[0]


def cpu_model():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def memory_gib():
    try:
        return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
    except (AttributeError, OSError, ValueError):
        return None


def compiler():
    """The one that built goblin, if nothing has changed since."""
    cc = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    return first_line(cc, "--version")


def libc():
    return " ".join(platform.libc_ver()).strip() or platform.system()


def version_of(distribution):
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def load():
    return [round(part, 2) for part in os.getloadavg()] if hasattr(os, "getloadavg") else None


def pin():
    """One core for this process and its children, the last one; its number, or None where this cannot be said."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def begin(core=None):
    # Without folders: where somebody keeps the checkout, the interpreter or the results is nobody's business.
    script, *arguments = sys.argv
    if "--results" in arguments:
        where = arguments.index("--results")
        del arguments[where : where + 2]
    return {
        "command": " ".join(["python", f"bench/{Path(script).name}", *arguments]),
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": first_line("git", "rev-parse", "--short=12", "HEAD") or "not in git",
        "changed": bool(first_line("git", "status", "--porcelain", "--untracked-files=no")),
        "goblin": version_of("goblin-counters"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "python_compiler": platform.python_compiler(),
        "cython": version_of("cython"),
        "compiler": compiler(),
        "libc": libc(),
        "cpu": cpu_model(),
        "cpus": os.cpu_count(),
        "memory_gib": memory_gib(),
        "machine": platform.machine(),
        "kernel": f"{platform.system()} {platform.release()}",
        "core": core,
        "load_before": load(),
        "began": time.time(),
    }


def write(what, about, found, folder):
    about = {**about, "load_after": load(), "took_seconds": round(time.time() - about["began"])}
    del about["began"]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{what}-{TAG}.json"
    path.write_text(json.dumps({"about": about, **found}, indent=1) + "\n", encoding="utf-8")
    return path


def add_options(parser):
    """Those that all runners have."""
    parser.add_argument("--results", metavar="FOLDER", help="where to write the JSON; nowhere if not said")
    parser.add_argument("--small", action="store_true", help="tiny sizes: shows that it runs; no figures to publish")


# ---- a line that says how far it is ---------------------------------------------------------------------------------

_began = float(os.environ.get("GOBLIN_BENCH_BEGAN", 0)) or time.time()  # of the whole run, or of this program
_last = 0.0


def progress(text):
    """On a terminal one line that changes; elsewhere a line every ten seconds."""
    global _last
    text = f"{time.time() - _began:4.0f} s  {text}"
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text[:110]}", end="", file=sys.stderr, flush=True)
    elif time.monotonic() - _last >= 10:
        _last = time.monotonic()
        print(text, file=sys.stderr, flush=True)


def progress_ends():
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
