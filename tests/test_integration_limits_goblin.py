"""What is goblin's own about the storages for `limits`: URIs and named stores, errors, threads, what stays behind."""

import asyncio
import doctest
import inspect
import itertools
import threading
import time

import pytest

from doc_examples import run_docstring
from integrations_installed import needs
from races import race

needs("limits")

import limits  # noqa: E402
from limits.errors import ConfigurationError, StorageError  # noqa: E402
from limits.storage import storage_from_string  # noqa: E402
from limits.strategies import FixedWindowRateLimiter, SlidingWindowCounterRateLimiter  # noqa: E402

import goblin  # noqa: E402
import goblin.integrations.limits as integration  # noqa: E402
from goblin.integrations.limits import AsyncGoblinStorage, GoblinStorage  # noqa: E402
from limits_storages import Rig  # noqa: E402

BOTH = pytest.mark.parametrize("scheme", ["goblin", "async+goblin"])
names = (f"test-{number}" for number in itertools.count())  # a named store lives as long as the process


@pytest.fixture
def rig(monkeypatch):
    return Rig("goblin", monkeypatch)


# ---- docstrings ------------------------------------------------------------------------------------------------------


def test_docstring_examples_run_and_no_public_method_has_none():
    tests = doctest.DocTestFinder(exclude_empty=False).find(integration, extraglobs={"goblin": goblin})
    for test in tests:
        assert run_docstring(test) == "", test.name
    shown = {test.name.partition(".limits.")[2] for test in tests if test.examples}
    for name, member in vars(GoblinStorage).items():
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
            assert f"GoblinStorage.{name}" in shown
            assert getattr(AsyncGoblinStorage, name).__doc__
    assert {"", "GoblinStorage", "AsyncGoblinStorage"} <= shown | {""}


# ---- URIs and named stores ------------------------------------------------------------------------------------------


def test_uri_gives_the_storage_of_its_scheme():
    assert type(storage_from_string("goblin://")) is GoblinStorage
    assert type(storage_from_string("async+goblin://")) is AsyncGoblinStorage
    assert type(storage_from_string("GOBLIN://")) is GoblinStorage  # schemes are, in any case


@BOTH
def test_uri_without_a_name_is_a_store_of_its_own(scheme):
    one, other = storage_from_string(f"{scheme}://"), storage_from_string(f"{scheme}://")
    one.counters.incr("a")
    assert (one.counters.get("a"), other.counters.get("a")) == (1, None)
    assert GoblinStorage().counters is not GoblinStorage().counters


def test_uri_with_a_name_is_one_store_for_sync_and_async():
    name = next(names)
    one, other = storage_from_string(f"goblin://{name}"), storage_from_string(f"async+goblin://{name}")
    assert one.incr("a", 60) == 1
    assert asyncio.run(other.incr("a", 60)) == 2
    assert storage_from_string(f"goblin://{name}").get("a") == 2
    assert storage_from_string(f"goblin://{name.upper()}").get("a") == 0  # names are told apart by case
    assert one.counters is other.counters


def test_named_store_asked_for_by_many_threads_at_once_is_one():
    name = next(names)
    stores = race(*[lambda: storage_from_string(f"goblin://{name}").counters] * 16)
    assert len(set(map(id, stores))) == 1


@pytest.mark.parametrize("second", ["?max_keys=8", "?on_full=raise&max_keys=7", ""])
def test_named_store_asked_for_otherwise_raises_and_stays(second):
    name = next(names)
    first = storage_from_string(f"goblin://{name}?max_keys=7")
    with pytest.raises(ConfigurationError, match=rf"store '{name}' .*expected: as it was made, with .*max_keys=7,"):
        storage_from_string(f"goblin://{name}{second}")
    assert storage_from_string(f"async+goblin://{name}?on_full=evict&max_keys=7").counters is first.counters


def test_named_store_with_another_clock_raises():
    name, clock = next(names), goblin.ManualClock()
    assert storage_from_string(f"goblin://{name}", clock=clock).counters.clock is clock
    with pytest.raises(ConfigurationError, match="expected: as it was made"):
        storage_from_string(f"goblin://{name}")


@BOTH
def test_uri_parameters_bound_the_store(scheme):
    counters = storage_from_string(f"{scheme}://?max_keys=5&on_full=raise").counters
    for number in range(5):
        counters.increx(str(number), 60)
    with pytest.raises(goblin.CapacityError):
        counters.increx("6", 60)


def test_uri_without_parameters_is_bounded_as_the_default_store():
    assert repr(GoblinStorage().counters) == repr(goblin.Counters(max_keys=1_000_000, on_full="evict"))
    storage = storage_from_string("goblin://?max_keys=100")  # and evicts
    for number in range(1_000):
        storage.incr(f"{number}", 60)
    assert len(storage.counters) <= 100 and storage.counters.stats().evicted >= 900


@BOTH
@pytest.mark.parametrize(
    ("rest", "message"),
    [
        (":name", r"storage URI '.*:name' \(expected: goblin://\[NAME\]"),
        ("://a/b", r"expected: goblin://\[NAME\].*letters, digits"),
        ("://localhost:6379", r"expected: goblin://\[NAME\]"),
        ("://a@b", r"expected: goblin://\[NAME\]"),
        ("://ä", r"expected: goblin://\[NAME\]"),
        ("://a#b", r"expected: goblin://\[NAME\]"),
        ("://?max_keys=0", r"max_keys='0' in .* \(expected: an integer, 1 to 10\*\*18-1\)"),
        ("://?max_keys=-1", "max_keys='-1' in"),
        ("://?max_keys=1e6", "max_keys='1e6' in"),
        ("://?max_keys=١", "max_keys='١' in"),
        ("://?max_keys=", "max_keys='' in"),
        ("://?max_keys", "max_keys='' in"),
        ("://?max_keys=" + "9" * 19, "max_keys='9{19}' in"),
        ("://?on_full=drop", r"on_full='drop' in .* \(expected: evict or raise\)"),
        ("://?max_key=5", r"parameter 'max_key' in .* \(expected: max_keys=, on_full=\)"),
        ("://a?max_keys=5&max_keys=5", "'max_keys' is given twice in"),
    ],
)
def test_uri_that_is_wrong_says_what_was_expected(scheme, rest, message):
    with pytest.raises(ConfigurationError, match=message):
        storage_from_string(scheme + rest)


@BOTH
def test_options_that_are_wrong_say_what_was_expected(scheme):
    with pytest.raises(ConfigurationError, match=r"storage option 'max_keys', 'x' \(expected: clock, wrap_exceptions;"):
        storage_from_string(f"{scheme}://", x=1, max_keys=5)
    with pytest.raises(ConfigurationError, match=r"clock of type float \(expected: a goblin.ManualClock, or None\)"):
        storage_from_string(f"{scheme}://", clock=1.5)


# ---- errors ---------------------------------------------------------------------------------------------------------

TOO_LONG = "x" * 70_000
CALLS = {  # one that the store refuses, of every method that can be
    "incr": ((TOO_LONG, 60), ValueError),
    "get": ((TOO_LONG,), ValueError),
    "get_expiry": ((TOO_LONG,), ValueError),
    "clear": ((TOO_LONG,), ValueError),
    "acquire_sliding_window_entry": (("a", 2**31, 60), ValueError),
    "get_sliding_window": (("a", 0), ValueError),
    "clear_sliding_window": ((TOO_LONG, 60), ValueError),
}


@BOTH
@pytest.mark.parametrize("method", CALLS)
def test_errors_of_the_store_are_wrapped_if_asked_for(monkeypatch, scheme, method):
    args, error = CALLS[method]
    rig = Rig(scheme, monkeypatch)
    assert error in rig.bare.base_exceptions
    with pytest.raises(error) as bare:
        getattr(rig.storage, method)(*args)
    assert type(bare.value) is error
    wrapping = rig.awaited(storage_from_string(f"{scheme}://", wrap_exceptions=True))
    with pytest.raises(StorageError) as wrapped:
        getattr(wrapping, method)(*args)
    assert type(wrapped.value.storage_error) is error and wrapped.value.__cause__ is wrapped.value.storage_error
    assert str(wrapped.value.storage_error) == str(bare.value)
    rig.close()


@pytest.mark.parametrize("wrap", [True, False])
def test_full_store_raises_an_error_that_can_be_wrapped(wrap):
    storage = storage_from_string("goblin://?max_keys=1&on_full=raise", wrap_exceptions=wrap)
    storage.incr("a", 60)
    for hit in (storage.incr, lambda key, expiry: storage.acquire_sliding_window_entry(key, 5, expiry)):
        with pytest.raises(StorageError if wrap else goblin.CapacityError):
            hit("b", 60)
    assert storage.incr("a", 60) == 2


def test_subclass_of_the_storage_has_its_own_methods_wrapped():
    class Broken(GoblinStorage):
        STORAGE_SCHEME = ["broken-goblin"]

        def incr(self, key, expiry, amount=1):
            raise OverflowError("broken")

    with pytest.raises(StorageError):
        Broken(wrap_exceptions=True).incr("a", 60)
    assert Broken().acquire_sliding_window_entry("a", 1, 60)


def test_sum_beyond_int64_raises_and_never_passes_a_limit():
    storage, most = GoblinStorage(), 2**63 - 1
    assert storage.incr("a", 60, amount=most) == most
    for amount in (1, 2, most):
        with pytest.raises(OverflowError, match="increment or decrement would overflow"):
            storage.incr("a", 60, amount=amount)
    with pytest.raises(OverflowError, match="delta=9223372036854775808"):
        storage.incr("b", 60, amount=2**63)
    assert (storage.get("a"), storage.get("b")) == (most, 0)


def test_incr_by_less_than_nothing_takes_away():
    storage = GoblinStorage()
    assert [storage.incr("a", 60, amount=amount) for amount in (5, -2, -4, 0, 1, -1, 3)] == [5, 3, -1, -1, 0, -1, 2]


@pytest.mark.parametrize("amount", [1.5, "1", None])
def test_amount_that_is_no_integer_is_a_type_error_and_never_wrapped(amount):
    storage = GoblinStorage(wrap_exceptions=True)
    with pytest.raises(TypeError, match="value is not an integer"):
        storage.incr("a", 60, amount=amount)
    with pytest.raises(TypeError, match="value is not an integer"):
        storage.acquire_sliding_window_entry("a", 5, 60, amount)
    assert storage.reset() == 0


def test_sliding_window_of_a_larger_limit_than_the_store_has_says_so():
    storage = GoblinStorage()
    assert storage.acquire_sliding_window_entry("a", 2**31 - 1, 60, 2**31 - 1)
    assert not storage.acquire_sliding_window_entry("a", 2**31 - 1, 60)
    assert storage.get_sliding_window("a", 60)[2] == 2**31 - 1
    with pytest.raises(ValueError, match="limit=2147483648 .*at most 2147483647"):
        storage.acquire_sliding_window_entry("b", 2**31, 60)


# ---- time -----------------------------------------------------------------------------------------------------------


def test_sliding_window_begins_with_the_first_hit(rig):
    """As on limits' Redis and MongoDB; its memory storage has them begin at multiples of the period."""
    limiter, limit = rig.limiter("sliding-window-counter"), limits.parse("2/minute")
    rig.advance(45)
    assert limiter.hit(limit, cost=2)
    rig.advance(59)
    assert rig.storage.get_sliding_window(limit.key_for(), 60) == pytest.approx((0, 0, 2, 61))
    assert not limiter.hit(limit)
    assert limiter.get_window_stats(limit) == (pytest.approx(rig.now + 1), 0)


def test_get_sliding_window_never_names_a_longer_ttl_than_the_period(rig):
    assert rig.storage.acquire_sliding_window_entry("a", 5, 60)
    rig.advance(61)
    assert rig.storage.acquire_sliding_window_entry("a", 5, 60)
    assert rig.storage.get_sliding_window("a", 10)[1] <= 10  # another period than it was hit with


def test_wall_clock_that_is_set_moves_no_window(monkeypatch):
    storage = GoblinStorage()
    storage.incr("a", 60)
    for wall in (0.0, 4e9):
        monkeypatch.setattr(time, "time", lambda wall=wall: wall)
        assert storage.get("a") == 1
        assert wall + 59 < storage.get_expiry("a") <= wall + 60.001


def test_reset_does_not_count_what_has_expired(rig):
    rig.storage.incr("a", 1)
    rig.storage.incr("b", 2)
    rig.advance(1)
    assert rig.storage.reset() == 1


# ---- threads --------------------------------------------------------------------------------------------------------

THREADS = 16


@pytest.mark.parametrize("strategy", [FixedWindowRateLimiter, SlidingWindowCounterRateLimiter])
@pytest.mark.parametrize("shared", [False, True])
def test_threads_together_get_exactly_the_limit(strategy, shared):
    uri = f"goblin://{next(names)}" if shared else "goblin://"
    first = storage_from_string(uri)
    storages = [storage_from_string(uri) if shared else first for _ in range(THREADS)]
    limit = limits.parse("100/day")

    def worker(storage):
        limiter = strategy(storage)
        return lambda: sum(limiter.hit(limit, "ann") for _ in range(50))

    assert sum(race(*map(worker, storages))) == 100


def test_threads_get_exactly_what_the_previous_window_leaves(rig):
    """Eleven times twenty seconds: what is admitted each time is the limit less the weighted count, not one more."""
    limiter, limit = rig.limiter("sliding-window-counter"), limits.parse("90/minute")
    seen = set()
    for _ in range(11):
        previous, previous_ttl, current, _ = rig.storage.get_sliding_window(limit.key_for("ann"), 60)
        left = 90 - int(previous * previous_ttl / 60 + current)
        admitted = race(*[lambda: sum(limiter.hit(limit, "ann") for _ in range(8))] * THREADS)
        assert sum(admitted) == left
        seen.add(left)
        rig.advance(20.001)
    assert len(seen) > 2 and max(seen) == 90


def test_threads_with_costs_lose_no_hit(rig):
    race(*[lambda: [rig.storage.incr("a", 60, amount=amount) for amount in (1, 2, 3) * 100]] * THREADS)
    assert rig.storage.get("a") == THREADS * 600


# ---- what memory:// leaves behind, and this does not ----------------------------------------------------------------


@pytest.fixture
def started(monkeypatch):
    """Counts the threads that are started."""
    starts = []
    start = threading.Thread.start

    def noted(thread):
        starts.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    return starts


def hit_everything(storage):
    limit = limits.parse("1/second")
    for strategy in (FixedWindowRateLimiter, SlidingWindowCounterRateLimiter):
        limiter = strategy(storage)
        for number in range(100):
            limiter.hit(limit, f"{number}")
        limiter.get_window_stats(limit, "1")


def test_storage_starts_no_thread_and_memory_does(started):
    hit_everything(storage_from_string("goblin://"))
    assert started == []
    storage = storage_from_string("memory://")
    hit_everything(storage)
    assert started and all(isinstance(thread, threading.Timer) for thread in started)
    storage.timer.join()


def test_keys_of_the_past_go_here_and_stay_in_memory_until_somebody_scans_all(monkeypatch):
    """A thousand keys whose windows are over, then others: here each new key pays for a share of the sweep."""
    ours, theirs = Rig("goblin", monkeypatch), Rig("memory", monkeypatch)
    for rig in (ours, theirs):
        for number in range(1_000):
            rig.storage.incr(f"{number}", 1)
    theirs.bare.timer.join()  # it has run, and will not again until the next hit
    ours.advance(2)
    theirs.advance(2)
    assert len(theirs.bare.storage) == len(theirs.bare.expirations) == 1_000
    for number in range(5_000):
        ours.storage.incr(f"new {number}", 60)
    assert 5_000 <= len(ours.bare.counters) <= 5_500  # a tenth of what is stored may be dead


def test_moving_windows_of_memory_leave_an_empty_list_per_key_for_ever(monkeypatch):
    """Why there is no moving window here, and what its users have to know of memory://."""
    rig = Rig("memory", monkeypatch)
    for number in range(1_000):
        assert rig.storage.acquire_entry(f"{number}", 5, 1)
    for _ in range(3):
        rig.advance(10)
        rig.close()
        rig.storage.acquire_entry("busy", 5, 1)
    rig.close()
    assert len(rig.bare.events) == 1_001
    assert sum(map(len, rig.bare.events.values())) <= 1
