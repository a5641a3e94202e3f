"""Whether the libraries are here that goblin/integrations is for. Their tests call `needs` first of all.

Without one they are skipped, and pytest's summary names it; with GOBLIN_REQUIRE_INTEGRATIONS=1 they fail instead, so
that a gate cannot pass by skipping.
"""

import importlib.util
import os

import pytest


def missing(*modules):
    """What keeps the tests from running, in one line; empty if nothing does."""
    lacking = [module for module in modules if importlib.util.find_spec(module) is None]
    return f"not installed: {', '.join(lacking)} (pip install '.[test]')" if lacking else ""


def is_required():
    return os.environ.get("GOBLIN_REQUIRE_INTEGRATIONS", "") not in ("", "0")


def needs(*modules):
    """At the top of a test module: it is run, or skipped as a whole, or fails as a whole."""
    lacking = missing(*modules)
    if lacking and is_required():
        pytest.fail(f"{lacking}; GOBLIN_REQUIRE_INTEGRATIONS is set", pytrace=False)
    if lacking:
        pytest.skip(lacking, allow_module_level=True)
