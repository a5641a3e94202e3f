# goblin: what a contributor types. `make help` lists it.
#
# Needs Python >= 3.10 with its headers and venv, a C compiler and make. Everything else goes into .venv.
#   PYTHON=python3.13   which interpreter .venv is made with; one .venv per interpreter: VENV=.venv-3.13
#   GOBLIN_DEBUG=1      and the other switches of setup.py; a change of them rebuilds
#
# Paths are relative throughout, so that the checkout may lie under a path with spaces.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
COPY ?= .cache/copy

export GOBLIN_SANITIZE GOBLIN_PORTABLE GOBLIN_DEBUG GOBLIN_COVERAGE GOBLIN_ANNOTATE GOBLIN_WERROR
# pip's chatter is noise here; its errors, with the compiler's log, are still printed.
export PIP_DISABLE_PIP_VERSION_CHECK = 1
export PIP_NO_INPUT = 1
PIP_INSTALL := $(VENV)/bin/python -m pip --quiet --quiet install

# Which switches the module in the checkout was built with is part of the stamp's name.
BUILT := $(VENV)/.built-$(GOBLIN_SANITIZE)-$(GOBLIN_PORTABLE)-$(GOBLIN_DEBUG)-$(GOBLIN_COVERAGE)-$(GOBLIN_ANNOTATE)
# The module's ending, such as .cpython-311-x86_64-linux-gnu.so: other interpreters' modules lie beside it unharmed.
SUFFIX = "$$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')"
SOURCES := $(wildcard goblin/*.pyx goblin/*.pxd goblin/*.h) setup.py pyproject.toml

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help build demo test c-test py-test bench bench-quick bench-report ratios instructions docs copy sanitize coverage types lint package fuzz soak clean distclean

help: ## this list
	@sed -n 's/^\([a-z][a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

# --- set-up --------------------------------------------------------------------------------------------------------

# The requirements are read from pyproject.toml's one line, so that they are written once; xargs undoes the quotes.
$(VENV)/.tools: pyproject.toml
	@echo "make: setting up $(VENV) with $(PYTHON)"
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "make: '$(PYTHON) -m venv' failed; on Debian: apt-get install python3-venv python3-dev gcc" >&2; exit 1; }
	@sed -n 's/^requires = \[\(.*\)\]$$/\1/p' pyproject.toml | sed 's/", "/" "/g' | xargs $(PIP_INSTALL)
	@touch $@

# Editable, and without build isolation: the Cython of .venv is used, also for the benchmark's empty module. Left-over
# modules go first, or setuptools would take one that was built with other switches as up to date.
$(VENV)/.installed: $(VENV)/.tools
	@echo "make: building and installing into $(VENV)"
	@rm -f $(VENV)/.built-* goblin/*$(SUFFIX)
	@$(PIP_INSTALL) --no-build-isolation --editable '.[test]'
	@touch $@

# Without a stamp the line above has just built it; with one, sources or switches have changed. The old module goes
# first: a build that failed leaves none, rather than yesterday's. --force, as Cython looks at sources, not directives.
$(BUILT): $(SOURCES) | $(VENV)/.installed
	@if ls $(VENV)/.built-* >/dev/null 2>&1; then \
	  echo "make: rebuilding the extension"; rm -f $(VENV)/.built-* goblin/*$(SUFFIX); touch $(VENV)/.built-none; \
	  $(VENV)/bin/python setup.py --quiet build_ext --inplace --force; fi
	@rm -f $(VENV)/.built-*; touch $@

build: $(BUILT) ## .venv with the compiled package in it (editable) and the test tools

# --- run -----------------------------------------------------------------------------------------------------------

demo: $(BUILT) ## the transcripts of the pages through the shell, then a rate limiter, a million calls
	@$(VENV)/bin/python examples/demo.py

# Side by side, a core each: pytest takes longer, so its summary comes last.
test: $(BUILT) ## everything that fits into two minutes: the table in C, and pytest
	@$(MAKE) --no-print-directory -j2 c-test py-test

c-test: ## the hash table alone, with sanitizers and an allocator that fails
	@$(MAKE) --no-print-directory -C tests/c test

# Plain `pytest`, not `python -m pytest`: the package tested is the installed one, whatever the current folder is.
py-test: $(BUILT) ## pytest alone; ARGS="-k expire" goes to it
	@$(UNDER) $(VENV)/bin/pytest $(ARGS)

# The rivals and matplotlib, only where they are asked for. A rival that cannot be installed does not keep the others out.
$(VENV)/.bench: pyproject.toml | $(VENV)/.installed
	@echo "make: installing what goblin is measured beside"
	@sed -n '/^bench = \[/,/^]/s/^ *"\(.*\)",.*/\1/p' pyproject.toml | while read -r rival; do \
	  $(PIP_INSTALL) "$$rival" || echo "make: not installed: $$rival" >&2; done
	@touch $@

bench: $(BUILT) $(VENV)/.bench ## all figures that are published, into bench/results/; under ten minutes, alone on the machine
	@$(VENV)/bin/python bench/run.py $(ARGS)

bench-report: $(VENV)/.docs ## docs/performance.md and its pictures, from bench/results/; ARGS=--check only compares
	@$(VENV)/bin/python bench/report.py $(ARGS)

bench-quick: $(BUILT) ## pytest-benchmark: the headline calls, and the rivals that are installed; about a minute
	@$(VENV)/bin/pytest bench/ --benchmark-only $(ARGS)

ratios: $(BUILT) ## goblin against an empty method and a dict, measured in turn on one core; and the targets
	@$(VENV)/bin/python bench/ratios.py $(ARGS)

instructions: $(BUILT) ## instructions per call, by valgrind, beside those in bench/instructions.json; ARGS=--update
	@$(VENV)/bin/python bench/instructions.py $(ARGS)

# The requirements of one of pyproject.toml's extras, without goblin itself, which would be built again for them.
install_extra = sed -n '/^$(1) = \[/,/^\]/s/^ *"\([^"]*\)",.*/\1/p' pyproject.toml | xargs $(PIP_INSTALL)

$(VENV)/.docs: pyproject.toml | $(VENV)/.installed
	@$(call install_extra,docs)
	@touch $@

# -E: the reference is made of the compiled modules' docstrings, and Sphinx does not see when those have changed.
docs: $(BUILT) $(VENV)/.docs ## the site, in docs/_build/html; warnings are errors
	@$(VENV)/bin/python -m sphinx -q -E -W --keep-going docs docs/_build/html $(ARGS)
	@echo "make: docs/_build/html/index.html"

# --- what the gate runs beside that --------------------------------------------------------------------------------

# The modules lie beside their sources, so a build with other switches gets a tree of its own, and in it its own .venv.
copy: # the tree once more, in the folder COPY, without what was built
	@mkdir -p $(COPY)
	@rm -rf $(addprefix $(COPY)/,$(COPIED)) $(COPY)/.venv/.built-* $(COPY)/.venv/.installed
	@tar -cf - --exclude='*.so' --exclude=__pycache__ --exclude=tests/c/build $(COPIED) | tar -xf - -C $(COPY)

COPIED = $(filter-out build dist %.egg-info,$(wildcard *))

# Leaks: Python leaves much behind when it ends, so nothing can be told from what is left; tests/c looks for them.
# PYTHONMALLOC: Python's own allocator would hide from the sanitizer what lies in its arenas. abort: so that
# faulthandler says in which test it was. --capture=sys: pytest's default would swallow the report. Tests that start
# processes pass all this on, but for a redis-server.
SANITIZED = env LD_PRELOAD=$(shell gcc -print-file-name=libasan.so) PYTHONMALLOC=malloc \
  ASAN_OPTIONS=detect_leaks=0:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1

sanitize: ## pytest on a build with AddressSanitizer, UBSan and C asserts, in a copy of the tree
	@$(MAKE) --no-print-directory copy COPY=.cache/sanitize
	@$(MAKE) --no-print-directory -C .cache/sanitize py-test VENV=.venv GOBLIN_SANITIZE=1 GOBLIN_DEBUG=1 \
	  UNDER='$(SANITIZED)' ARGS='--capture=sys $(ARGS)'

coverage: ## lines of goblin/*.py and *.pyx, branches of the table in C; in a copy of the tree
	@$(PYTHON) tests/coverage_report.py $(ARGS)

$(VENV)/.types: pyproject.toml | $(VENV)/.installed
	@$(PIP_INSTALL) --no-build-isolation --editable '.[test,typing]'
	@touch $@

types: $(BUILT) $(VENV)/.types ## mypy, pyright and stubtest
	@$(VENV)/bin/python tests/typing_check.py

$(VENV)/.lint: pyproject.toml | $(VENV)/.tools
	@$(call install_extra,lint)
	@touch $@

# cython-lint calls pycodestyle by name, hence the PATH.
lint: $(VENV)/.lint ## ruff and cython-lint; seconds
	@$(VENV)/bin/ruff check .
	@PATH="$(abspath $(VENV))/bin:$$PATH" cython-lint goblin

package: ## sdist, wheels, and tests in fresh environments; about four minutes
	@$(PYTHON) tests/package/check_package.py $(ARGS)

fuzz: ## the table under libFuzzer for a minute; needs clang. `make -C tests/c fuzz SECONDS=3600`
	@$(MAKE) --no-print-directory -C tests/c fuzz

SCALED = GOBLIN_SOAK|import .*\b(SOAK|size|rounds|scale)\b
# Those that name GOBLIN_SOAK or take their size from tests/scale.py have a long form. -s: their progress is to be seen.
soak: $(BUILT) ## the long form of every random test, then an hour of fuzzing; ARGS="-k redis" takes some
	@GOBLIN_SOAK=1 $(VENV)/bin/pytest -v -s $(shell grep -lE '$(SCALED)' tests/test_*.py) $(ARGS)
	@$(MAKE) --no-print-directory -C tests/c long
	@$(MAKE) --no-print-directory -C tests/c fuzz SECONDS=3600

# --- tidy ----------------------------------------------------------------------------------------------------------

clean: ## what was built; .venv keeps its tools
	rm -rf build dist .cache *.egg-info .pytest_cache .hypothesis .benchmarks tests/c/build docs/_build
	rm -f $(VENV)/.built-* $(VENV)/.installed goblin/*.so goblin/*.pyd goblin/*.c goblin/*.html
	find . -name __pycache__ -not -path './.venv*' -type d -prune -exec rm -rf {} +

distclean: clean ## .venv too: the next make starts from nothing
	rm -rf $(VENV)
