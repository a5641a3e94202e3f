"""Fixtures: `engine` runs a test once for every engine that can, `rig` is a fresh store of it with its clock.

What one of the engines is not asked is counted, with the reason: see the end of pytest's output.
"""

import collections
import gc
import os
import sys

import pytest

HERE = os.path.dirname(__file__)
sys.path.insert(0, HERE)  # the helpers beside this file, whatever the import mode
# Their asserts shall say what they compared, and be carried out under python -O too.
pytest.register_assert_rewrite(*(name[:-3] for name in os.listdir(HERE) if name.endswith(".py")))

from engines import CAPABILITIES, ENGINES, IN_PROCESS, ON_SERVERS  # noqa: E402
from redis_server import (  # noqa: E402, F401 - two are fixtures
    missing,
    missing_valkey,
    redis_server,
    skip_or_fail_if_missing,
    valkey_server,
)


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(*capabilities): run on the engines that have all of them")
    config.pluginmanager.register(Tally(), TALLY)


def pytest_generate_tests(metafunc):
    if "engine" not in metafunc.fixturenames:
        return
    needed = {name for mark in metafunc.definition.iter_markers("needs") for name in mark.args}
    assert needed <= CAPABILITIES.keys(), f"unknown capability: {needed - CAPABILITIES.keys()}"
    # Of what the servers are not asked Tally keeps count, so here they are able to do everything.
    engines = ENGINES if metafunc.module.__name__.startswith("test_contract_") else IN_PROCESS
    able = [engine for engine in engines if needed <= engine.capabilities or engine in ON_SERVERS]
    metafunc.parametrize("engine", able, ids=[engine.name for engine in able], indirect=True)


@pytest.fixture(scope="module", autouse=True)
def set_aside():
    """What was made before is not for the collector: each gc.collect() would walk through thousands of tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def engine(request):
    if request.param in ON_SERVERS:
        request.param.connect(request.getfixturevalue(request.param.fixture))
    return request.param


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


@pytest.fixture
def redis_report(request):
    """A list of lines for the end of pytest's output."""
    return request.config.pluginmanager.get_plugin(TALLY).lines


TALLY = "goblin-redis-tally"


class Tally:
    """What of the contract ran on the server, what differs there as written, and what does not apply, and why."""

    def __init__(self):
        self.differing = {}  # node id of each test for a server: (engine's name, whether it is written to differ)
        self.left_out = collections.Counter()  # (engine's name, reason)
        self.outcomes = collections.Counter()  # (engine's name, "run" or "differing")
        self.lines = []
        self.any = False  # test for the server among those that were to run

    @pytest.hookimpl(trylast=True)  # after -k and -m
    def pytest_collection_modifyitems(self, items):
        kept = []
        for item in items:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            if "engine" in params:
                engine, row = params["engine"], params.get("row")
                reason = why_not(item, engine, row)
                if engine in ON_SERVERS and reason:
                    self.left_out[engine.name, reason] += 1
                elif engine in ON_SERVERS:
                    self.differing[item.nodeid] = engine.name, row is not None and row.differs_on(engine)
                if reason:
                    continue
            kept.append(item)
        items[:] = kept

    def pytest_runtest_setup(self, item):
        if item.nodeid in self.differing or "redis_server" in item.fixturenames:
            self.any = True
            skip_or_fail_if_missing()

    def pytest_runtest_logreport(self, report):
        if report.nodeid in self.differing and report.when == "call":
            name, differs = self.differing[report.nodeid]
            self.outcomes[name, "run"] += not report.skipped
            self.outcomes[name, "differing"] += differs and not report.skipped

    def pytest_terminal_summary(self, terminalreporter):
        if not self.any:
            return
        line = terminalreporter.write_line
        terminalreporter.section("a real Redis")
        if missing():
            line(f"NOTHING was compared with a real Redis: {missing()}")
        if missing_valkey():
            line(f"NOTHING was run on a real Valkey: {missing_valkey()}")
        for name in dict.fromkeys(name for name, _ in self.differing.values()):
            run, differing = self.outcomes[name, "run"], self.outcomes[name, "differing"]
            all_of_it = sum(other == name for other, _ in self.differing.values())
            reasons = {reason: count for (other, reason), count in self.left_out.items() if other == name}
            line(
                f"contract tests on {name}: {run} of {all_of_it} run, {differing} with a written difference; "
                f"{sum(reasons.values())} are not applicable"
            )
            for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
                line(f"{count:6} {reason}")
        for text in self.lines:
            line(text)


def why_not(item, engine, row):
    """Why this engine is not asked; None if it is."""
    needed = {name for mark in item.iter_markers("needs") for name in mark.args} | (row.needs if row else set())
    lacking = sorted(needed - engine.capabilities)
    if lacking:
        return f"needs {lacking[0]}: {CAPABILITIES[lacking[0]]}"
    return row.differs.get(engine.name) if row else None
