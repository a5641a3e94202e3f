"""What the benchmarks say of themselves: the referee sees who counts wrong, verdicts follow the figures, the page is of
its results. No test here measures anything."""

import json
import sys
import types
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parent.parent / "bench"
if not BENCH.exists():
    pytest.skip("bench/ is not beside the tests", allow_module_level=True)
# Last: bench/flood.py is not the tests' own flood.py.
sys.path.append(str(BENCH))

import instructions  # noqa: E402
import latency  # noqa: E402
import losses  # noqa: E402
import memory  # noqa: E402
import plots  # noqa: E402
import referee  # noqa: E402
import report  # noqa: E402
import rivals  # noqa: E402
import targets  # noqa: E402


# ---- the referee ----------------------------------------------------------------------------------------------------


def rival(count, keyed=True):
    """A module as those in bench/rivals/; count(counts, key, limit) says whether a hit is admitted."""

    def setup(limit, seconds):
        counts = {}
        return {"hit": lambda key: count(counts, key, limit)}

    module = types.ModuleType("rival")
    module.name, module.hit, module.setup, module.keyed, module.expires = "rival", "ok = hit(key)", setup, keyed, False
    return module


def honest(counts, key, limit):
    counts[key] = counts.get(key, 0) + 1
    return counts[key] <= limit


FAULTS = {
    "one too many": lambda counts, key, limit: honest(counts, key, limit + 1),
    "one too few": lambda counts, key, limit: honest(counts, key, limit - 1),
    "keys are mixed": lambda counts, key, limit: honest(counts, "all", limit),
    "never refuses": lambda counts, key, limit: True,
    "refuses every other": lambda counts, key, limit: honest(counts, key, 2 * limit) and counts[key] % 2 == 1,
}


@pytest.mark.parametrize("limit", [1, 5])
def test_referee_of_who_counts_right_finds_nothing(limit):
    assert referee.miscount(rival(honest), limit) is None
    assert referee.miscount(rival(FAULTS["keys are mixed"], keyed=False), limit) is None


@pytest.mark.parametrize("fault", FAULTS)
def test_referee_of_who_counts_wrong_names_it(fault):
    found = [referee.miscount(rival(FAULTS[fault]), limit) for limit in (1, 5)]
    assert any(found), fault


GOBLINS = [one for one in rivals.load_all() if one.file.startswith("goblin")]


def test_rivals_of_goblin_are_all_there():
    assert {one.file for one in GOBLINS} >= {"goblin_increx", "goblin_gcra", "goblin_allow", "goblin_decorator"}
    assert all(one.module for one in GOBLINS)


@pytest.mark.parametrize("one", GOBLINS, ids=[one.file for one in GOBLINS])
def test_rivals_of_goblin_count_right(one):
    assert [referee.miscount(one.module, limit) for limit in (1, 5)] == [None, None]


def test_rivals_all_have_the_same_three_names():
    for one in rivals.load_all():
        if one.module:
            assert isinstance(one.module.name, str) and isinstance(one.module.hit, str) and callable(one.module.setup)


# ---- verdicts -------------------------------------------------------------------------------------------------------


def test_targets_are_judged_by_the_median_of_the_rounds_ratios():
    work = f"increx, {targets.ROTATION}"
    times = {"goblin": [16.0, 16.0, 99.0], "empty": [10.0, 10.0, 10.0], "dict": [10.0, 10.0, 100.0]}
    rows = {row["text"]: row for row in targets.judge({work: times})}
    assert rows["increx / an empty method"]["verdict"] == "ok" and rows["increx / an empty method"]["median"] == 1.6
    assert rows["increx / the dict idiom"]["verdict"] == "missed"
    assert rows["gcra / increx on the exact clock"]["verdict"] == "not measured"


def test_latency_summary_drops_marked_calls_and_reads_the_tail():
    found = latency.summary([*range(1, 1_001), -1, -1])
    assert (found["calls"], found["dropped"], found["longest"]) == (1_002, 2, 1_000)
    assert (found["p50"], found["p99"], found["p99.9"]) == (501, 991, 1_000)
    assert [found["tail"][0], found["tail"][10], found["tail"][-1]] == [[1.0, 1], [10.0, 901], [1_000, 1_000]]


def test_memory_is_judged_by_the_worst():
    row = {"keys": 10, "mib": 8.0, "stored": 100, "live": 89}
    found = {"bytes_per_key": {"goblin": [[1, 60.0], [2, 65.0]]}, "churn": [row, row], "burst": [row]}
    assert [one["verdict"] for one in memory.judged(found)] == ["missed", "ok", "missed", "missed"]


def test_instructions_off_by_more_than_the_tolerance_are_found_both_ways():
    before = {"a": 100.0, "b": 100.0, "c": 100.0, "gone": 1.0}
    assert instructions.off(before, {"a": 102.9, "b": 103.1, "c": 96.9, "new": 1.0}) == {
        "b": (100.0, 103.1), "c": (100.0, 96.9), "gone": (1.0, None), "new": (None, 1.0),
    }  # fmt: skip


# ---- the page -------------------------------------------------------------------------------------------------------


def test_losses_are_found_where_a_rival_is_faster():
    work = {"text": "one key", "ns": {"goblin increx": [50, 51, 52], "goblin hit": [90, 90, 90], "rust": [60, 60, 60]}}
    assert list(losses.to_rivals({"works": {"hot": work}})) == ["one key: rust takes 60 ns, less than hit 90 ns"]


def test_losses_are_found_where_the_dict_is_faster():
    data = {"ns_per_call": {"increx": {"goblin": [30, 30, 30], "dict": [20, 20, 20], "dict of tuples": [40, 40, 40]}}}
    assert list(losses.to_dicts(data)) == ["increx: the dict idiom takes 20 ns, goblin 30 ns (1.50 times)"]


@pytest.mark.parametrize(
    ("ns", "text"), [(9.876, "9.88 ns"), (999.4, "999 ns"), (1_234, "1.23 µs"), (2.5e6, "2.5 ms"), (2.5e9, "2,500 ms")]
)
def test_duration_has_three_digits_and_a_unit(ns, text):
    assert plots.duration(ns) == text


def test_page_and_pictures_are_of_the_results():
    results = report.read(report.ROOT / "bench" / "results")
    if not results:
        pytest.skip("bench/results/ holds no results")
    assert list(report.stale(results, report.ROOT / "docs")) == [], "run `make bench-report`"


def test_page_shows_threads_where_they_were_measured(tmp_path):
    row = {"work": "one key", "one_thread_ns": 50.12, "ratio": 1.2, "low": 1.1, "high": 1.3}
    for name in ("scaling", "scaling-3.14t"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"rows": [row]}), encoding="utf-8")
    text = report.page(report.read(tmp_path))
    assert text.count("| one key | 50.1 ns | 1.20 (1.10 to 1.30) |") == 2 and "CPython 3.14t" in text


def test_page_without_results_is_none(tmp_path):
    assert report.read(tmp_path) == {}
