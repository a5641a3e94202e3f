"""The figures and pictures of the pages are those of their scripts, docs/plots/algorithms.py and docs/plots/drawings.py.

After a change: run the script (it wants matplotlib), and put the tables that it prints into the page.
"""

import importlib.util
import re

import pytest

from doc_examples import ROOT

PAGE = ROOT / "docs" / "algorithms.md"
SCRIPT = ROOT / "docs" / "plots" / "algorithms.py"


def loaded(script):
    spec = importlib.util.spec_from_file_location(f"{script.stem}_plot", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def plot():
    return loaded(SCRIPT)


def tables_of(page):
    return re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)


def test_page_tables_are_the_scripts(plot):
    tables = tables_of(PAGE)
    for lines in (plot.scenario_table(), plot.random_table()):
        assert "".join(f"{line}\n" for line in lines) in tables


def test_page_quotes_the_scripts_figures(plot):
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    for quote in plot.quotes():
        assert quote in text


def test_picture_is_of_todays_data(plot):
    assert f"data {plot.digest()}<" in plot.SVG.read_text(encoding="utf-8"), f"run {SCRIPT}"


def test_fullest_by_hand(plot):
    assert plot.fullest([], 60) == 0
    assert plot.fullest([0, 60 * plot.SECOND], 60) == 1, "a minute does not hold its own end"
    assert plot.fullest([0, 60 * plot.SECOND - 1, 60 * plot.SECOND], 60) == 2


def test_area_is_what_passed_in_the_last_minute(plot):
    for passed in plot.scenarios().values():
        for algorithm, instants in passed.items():
            assert max(plot.in_last_period(instants)[1]) == plot.fullest(instants, 60), algorithm


@pytest.mark.parametrize("calls_a_minute", [10, 11, 15, 20, 30, 97, 1_000])
def test_sliding_window_under_steady_overload_admits_exactly_the_limit_in_each_window(plot, calls_a_minute):
    calls = [number * plot.PERIOD_NS // calls_a_minute for number in range(20 * calls_a_minute)]
    passed = plot.admitted("sliding window", calls)
    assert [sum(t // plot.PERIOD_NS == window for t in passed) for window in range(20)] == [plot.LIMIT] * 20


def test_bounds_of_the_table_hold_for_the_saving_client(plot):
    """Just under twice the limit, twice, burst + limit: in any minute."""
    passed = plot.scenarios()["client that saves up"]
    assert {algorithm: plot.fullest(instants, 60) for algorithm, instants in passed.items()} == {
        "fixed window": 2 * plot.LIMIT - 1,
        "sliding window": 2 * plot.LIMIT - 1,
        "gcra": 2 * plot.LIMIT - 1,
        "gcra, burst 1": plot.LIMIT,
    }


DRAWINGS = ROOT / "docs" / "plots" / "drawings.py"


@pytest.mark.parametrize("name", ["increx.svg", "map.svg"])
def test_drawing_is_todays(name):
    drawn = loaded(DRAWINGS).DRAWINGS[name]().svg()
    assert (DRAWINGS.parent / name).read_text(encoding="utf-8") == drawn, f"run {DRAWINGS}"
