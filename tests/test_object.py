"""Counters as a Python object: construction, subclassing, references, copies, help and signatures."""

import copy
import functools
import gc
import inspect
import pickle
import pydoc
import re
import subprocess
import sys
import weakref

import pytest

import goblin
from model import Model
from rows import state

# The model is the specification, of signatures too.
SIGNATURES = {
    name: inspect.signature(getattr(Model(), name))
    for name in dir(Model)
    if not name.startswith("_") and callable(getattr(Model, name))
}


@pytest.fixture
def clock():
    return goblin.ManualClock()


@pytest.fixture
def store(clock):
    return goblin.Counters(clock=clock)


# Construction


def test_constructor_takes_only_clock_by_keyword(clock):
    goblin.Counters(), goblin.Counters(clock=None), goblin.Counters(clock=clock)
    for args in [(1, 2, 3), (clock,), (None,)]:
        with pytest.raises(TypeError):
            goblin.Counters(*args)
    for options in [{"bogus": 1}, {"clock": clock, "bogus": 1}]:
        with pytest.raises(TypeError):
            goblin.Counters(**options)


def test_constructor_of_the_clock_takes_only_now_ns():
    for args, kwargs in [((1, 2), {}), ((), {"bogus": 1}), ((1,), {"now_ns": 1})]:
        with pytest.raises(TypeError):
            goblin.ManualClock(*args, **kwargs)


def test_init_called_twice_with_the_same_clock_is_harmless(store, clock):
    store.increx("k", 60)
    store.__init__(clock=clock)
    assert state(store) == {b"k": (1, 60_000)}
    plain = goblin.Counters()
    plain.incr("k")
    plain.__init__()
    plain.__init__(clock=None)
    assert plain.get("k") == 1


def test_init_called_twice_with_another_clock_raises_valueerror(store, clock):
    store.increx("k", 60)
    plain = goblin.Counters()
    for target, other in [(store, goblin.ManualClock()), (plain, clock)]:
        with pytest.raises(ValueError, match="clock"):
            target.__init__(clock=other)
    clock.advance(1)
    assert state(store) == {b"k": (1, 59_000)}


def test_init_called_twice_with_a_bad_argument_changes_nothing(store):
    store.increx("k", 60)
    with pytest.raises(TypeError):
        store.__init__(clock=5)
    with pytest.raises(TypeError):
        store.__init__(5)
    assert state(store) == {b"k": (1, 60_000)}


def test_init_of_a_clock_called_twice_never_moves_it_out_of_range(clock):
    clock.advance_ns(50)
    for bad in (-1, 2**63, "x", 1.5):
        with pytest.raises((TypeError, OverflowError)):
            clock.__init__(bad)
        assert clock.now_ns == 50


def test_new_alone_gives_a_working_store_on_the_system_clock():
    store = goblin.Counters.__new__(goblin.Counters)
    assert store.increx("k", 60) == 1 and store.ttl("k") in (59, 60)
    assert list(store.items()) == [("k", 1)] and store.sweep() == 0
    store._check()
    del store
    goblin.Counters.__new__(goblin.Counters)  # made and dropped untouched
    assert goblin.ManualClock.__new__(goblin.ManualClock).now_ns == 0


def test_init_of_a_store_that_is_in_use_already_takes_no_clock(clock):
    store = goblin.Counters.__new__(goblin.Counters)
    store.increx("k", 60)
    with pytest.raises(ValueError, match="clock: that of a store in use"):
        store.__init__(clock=clock)
    clock.advance(61)
    assert store.get("k") == 1 and store.ttl("k") in (59, 60)
    store.clear()


def test_constructor_failing_half_way_leaves_nothing_behind():
    for bad in (1, "x", object(), goblin.ManualClock):
        for _ in range(50):
            with pytest.raises(TypeError):
                goblin.Counters(clock=bad)
    gc.collect()


# Subclasses


class Named(goblin.Counters):
    """A user's own store: own arguments, own attributes, an overridden method."""

    def __init__(self, name, *, clock=None):
        super().__init__(clock=clock)
        self.name = name

    def incr(self, key, amount=1, **options):
        return super().incr(f"{self.name}:{key}", amount, **options)


def test_subclass_has_its_own_arguments_attributes_and_methods(clock):
    store = Named("a", clock=clock)
    assert store.incr("k") == 1 and store.incr("k", 5, ex=9) == 6
    assert state(store) == {b"a:k": (6, 9_000)}
    assert store.name == "a" and isinstance(store, goblin.Counters)


def test_subclass_that_forgets_super_init_still_works():
    class Forgetful(goblin.Counters):
        def __init__(self):
            pass

    assert Forgetful().incr("k") == 1


def test_subclass_with_slots_and_with_a_mixin_works(clock):
    class Slotted(goblin.Counters):
        __slots__ = ("extra",)

    class Mixin:
        def hello(self):
            return "hello"

    class Both(Mixin, goblin.Counters):
        pass

    slotted = Slotted(clock=clock)
    slotted.extra = 1
    assert slotted.incr("k") == 1
    assert Both(clock=clock).hello() == "hello"


def test_subclass_constructor_surplus_arguments_raise_typeerror():
    class Plain(goblin.Counters):
        pass

    for args, kwargs in [((1,), {}), ((), {"bogus": 1})]:
        with pytest.raises(TypeError):
            Plain(*args, **kwargs)


def test_plain_store_takes_no_attributes(store):
    with pytest.raises(AttributeError):
        store.anything = 1


# References and cycles


@pytest.mark.parametrize("kind", [goblin.Counters, Named])
def test_weak_reference_to_a_store_works_and_dies_with_it(kind):
    store = kind() if kind is goblin.Counters else kind("a")
    reference = weakref.ref(store)
    table = weakref.WeakKeyDictionary({store: 1})
    assert reference() is store and table[store] == 1
    del store
    gc.collect()
    assert reference() is None and len(table) == 0


def test_cycle_through_a_subclass_is_collected():
    store = Named("a")
    store.me = store
    reference = weakref.ref(store)
    del store
    gc.collect()
    assert reference() is None


def test_cycle_through_the_clock_is_collected():
    class Clock(goblin.ManualClock):
        pass

    clock = Clock()
    clock.store = goblin.Counters(clock=clock)
    reference = weakref.ref(clock.store)
    clock.store.increx("k", 60)
    del clock
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("view", ["__iter__", "items", "scan_iter"])
def test_cycle_through_an_iterator_is_collected(view):
    store = Named("a")
    store.incr("k")
    store.iterator = getattr(store, view)()
    reference = weakref.ref(store)
    del store
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("view", ["__iter__", "items", "scan_iter"])
def test_iterator_keeps_its_store_alive(view):
    def make():
        store = goblin.Counters()
        store.mset({f"k{n}": n for n in range(5_000)})
        return getattr(store, view)()

    iterator = make()
    gc.collect()
    assert len(list(iterator)) == 5_000
    assert next(iterator, "end") == "end"


def test_identity_is_equality_and_stores_can_be_dict_keys(store):
    other = goblin.Counters()
    assert store == store and store != other
    assert {store: 1, other: 2}[store] == 1


# Copies


class OwnStore(goblin.Counters):
    pass


@pytest.mark.parametrize("kind", [goblin.Counters, OwnStore])
def test_copy_and_pickle_raise_a_typeerror_that_names_items(kind, clock):
    store = kind(clock=clock)
    store.incr("k")
    attempts = [copy.copy, copy.deepcopy, lambda s: copy.deepcopy({"s": s})]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        attempts.append(functools.partial(pickle.dumps, protocol=protocol))
    for attempt in attempts:
        with pytest.raises(TypeError, match=rf"(?s){kind.__name__}.*items\(\)"):
            attempt(store)
    assert state(store) == {b"k": (1, None)}


@pytest.mark.parametrize("view", ["__iter__", "items", "scan_iter"])
def test_copy_and_pickle_of_an_iterator_raise_typeerror(view, store):
    store.incr("k")
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            attempt(getattr(store, view)())


# Shown


def test_repr_names_the_class_and_counts_the_keys(store):
    assert repr(store) == "<goblin.Counters: 0 keys>"
    store.mset({"a": 1, "b": 2})
    assert repr(store) == str(store) == "<goblin.Counters: 2 keys>"
    named = Named("x")
    named.incr("a")
    named.incr("b")
    assert "Named" in repr(named) and "2 keys" in repr(named)


def test_bool_is_true_also_when_empty(store):
    assert bool(store) is True and bool(Model()) is True
    store.incr("k")
    store.clear()
    assert (store or None) is store


def test_signatures_are_those_of_the_model():
    for method, expected in SIGNATURES.items():
        unbound = inspect.signature(getattr(goblin.Counters, method))
        bound = inspect.signature(getattr(goblin.Counters(), method))
        assert bound == expected, method
        assert unbound.replace(parameters=list(unbound.parameters.values())[1:]) == expected, method


def test_signatures_are_of_every_command():
    assert {"increx", "incrbound", "decrpos", "incr", "set", "expire", "mget", "stats"} <= set(SIGNATURES)
    assert str(SIGNATURES["incrbound"]) == "(key, delta, max, *, seconds=None)"


def test_constructor_signature_is_shown():
    assert "clock=None" in str(inspect.signature(goblin.Counters))
    assert "now_ns=0" in str(inspect.signature(goblin.ManualClock))


def test_help_reads_well():
    text = pydoc.plain(pydoc.render_doc(goblin.Counters))
    for method in SIGNATURES:
        assert f" {method}(" in text, method
    assert re.search(r"increx\(self, (/, )?key, seconds\)", text)
    for kind in (goblin.Counters, goblin.ManualClock, goblin.Stats):
        assert inspect.getdoc(kind)
        assert kind.__module__ == "goblin" or kind.__module__.startswith("goblin.")


def test_stats_is_a_named_tuple(store):
    store.mset({"a": 1, "b": 2})
    stats = store.stats()
    assert isinstance(stats, goblin.Stats) and isinstance(stats, tuple)
    assert stats.keys == 2 and stats.slots >= 2 and stats.memory_bytes > 0 and stats.expired == 0
    assert stats._fields[:4] == ("keys", "slots", "memory_bytes", "expired")
    assert all(type(field) is int for field in stats)


def test_check_of_a_sound_store_is_none(store):
    assert store._check() is None
    store.mset({f"k{n}": n for n in range(10_000)})
    assert store._check() is None


def test_import_under_bytes_warnings_as_errors_and_optimised():
    """`python -bb` makes comparing str with bytes an error; -O drops asserts."""
    program = """
import goblin
s = goblin.Counters(clock=goblin.ManualClock())
assert s.incr("k") == 1
for key in ("k", b"k", "ä", b"\\xff", ""):
    s.set(key, "5"); s.set(key, b"5"); s.incr(key); s.mget(key, "x"); key in s; s[key]
    list(s.scan_iter(match=key)); list(s.items()); s.most_common()
    for bad in ("+5", b"+5"):
        try: s.set(key, bad)
        except ValueError as error: str(error)
        else: raise SystemExit("taken")
    for bad in (1.5, None, b"x", "x"):
        try: s.incr(key, bad)
        except TypeError as error: str(error)
        else: raise SystemExit("taken")
s._check()
print("fine")
"""
    for flags in (["-bb"], ["-O"], ["-OO", "-bb"], ["-X", "dev", "-W", "error"]):
        done = subprocess.run([sys.executable, *flags, "-c", program], capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "fine", ""), (flags, done.stderr)
