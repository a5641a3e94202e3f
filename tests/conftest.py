"""Fixtures: `engine` runs a test once for every engine that can, `rig` is a fresh store of it with its clock."""

import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))  # the helpers beside this file, whatever the import mode

from engines import CAPABILITIES, ENGINES  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*capabilities): run on the engines that have all of them")


def pytest_generate_tests(metafunc):
    if "engine" not in metafunc.fixturenames:
        return
    needed = {name for mark in metafunc.definition.iter_markers("needs") for name in mark.args}
    assert needed <= CAPABILITIES.keys(), f"unknown capability: {needed - CAPABILITIES.keys()}"
    able = [engine for engine in ENGINES if needed <= engine.capabilities]
    metafunc.parametrize("engine", able, ids=[engine.name for engine in able])


@pytest.fixture
def rig(engine):
    return engine.make()


@pytest.fixture
def store(rig):
    return rig.store


@pytest.fixture
def advance(rig):
    """Moves the clock of `store` by seconds (a float means whole milliseconds)."""
    return rig.advance
