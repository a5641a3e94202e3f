"""`RateLimiter`: how it is made, hit, allow, peek, reset, refund; which store it uses; and that any store will do."""

import random
from math import inf

import pytest

import goblin
from engines import CORE
from goblin import Limit, RateLimiter
from scale import SEED
from test_reported_faults_threads import run_threads

ALGORITHMS = ["fixed-window", "sliding-window", "gcra"]


@pytest.fixture
def rig():
    return CORE.make()


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


# Making one


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ("5/minute", (Limit(5, 60),)),
        ("5/minute; 9/hour", (Limit(5, 60), Limit(9, 3_600))),
        (Limit(5, 60), (Limit(5, 60),)),
        ([Limit(5, 60), "9/hour"], (Limit(5, 60), Limit(9, 3_600))),
        (("5/minute; 9/hour", Limit(1, 1)), (Limit(5, 60), Limit(9, 3_600), Limit(1, 1))),
        (iter(["5/minute"]), (Limit(5, 60),)),
        # equal ones count once, where they first stand
        ("5/minute; 9/hour; 5 per 60 seconds", (Limit(5, 60), Limit(9, 3_600))),
        ([Limit(5, 60), Limit(5, 60, burst=5)], (Limit(5, 60),)),
    ],
)
def test_limiter_takes_a_string_a_limit_or_several(limits, expected):
    assert RateLimiter(limits).limits == expected


@pytest.mark.parametrize(
    ("limits", "options", "error", "pattern"),
    [
        ("10/fortnight", {}, ValueError, "10/fortnight"),
        ("", {}, ValueError, "allowed"),
        ([], {}, ValueError, "limits"),
        (None, {}, TypeError, "NoneType"),
        (5, {}, TypeError, "int"),
        ([5], {}, TypeError, "int"),
        (b"5/minute", {}, TypeError, "bytes|int"),
        ("5/minute", {"algorithm": "leaky-bucket"}, ValueError, "leaky-bucket.*allowed.*gcra"),
        ("5/minute", {"algorithm": None}, (TypeError, ValueError), "algorithm"),
        ("5/minute", {"algorithm": ["gcra"]}, (TypeError, ValueError), ""),
        ("5/minute", {"name": "a{b"}, ValueError, "name="),
        ("5/minute", {"store": object()}, TypeError, "store"),
        ("5/minute", {"store": {}}, TypeError, "store"),
        ("5/minute", {"store": goblin.Counters}, TypeError, "store"),
        ("5/minute", {"sleep": 5}, TypeError, "sleep"),
        ("5/minute burst 9", {}, ValueError, "burst"),
        ("5/minute; 9/hour burst 3", {"algorithm": "sliding-window"}, ValueError, "burst"),
        (Limit(5, None), {"algorithm": "sliding-window"}, ValueError, "never"),
        (Limit(5, None), {"algorithm": "gcra"}, ValueError, "never"),
        (Limit(2**31, 60), {"algorithm": "sliding-window"}, ValueError, "2147483647"),
        ("5/minute", {"bogus": 1}, TypeError, "bogus"),
    ],
)
def test_limiter_of_bad_arguments_raises(limits, options, error, pattern):
    with pytest.raises(error, match=pattern or None):
        RateLimiter(limits, **options)


def test_limiter_arguments_after_the_limits_are_by_keyword():
    with pytest.raises(TypeError):
        RateLimiter("5/minute", "gcra")


@pytest.mark.parametrize(
    ("alias", "name"),
    [("sliding-window-counter", "sliding-window"), ("token-bucket", "gcra"), *[(name, name) for name in ALGORITHMS]],
)
def test_limiter_algorithm_has_aliases(alias, name, rig):
    by_alias = RateLimiter("2/minute", algorithm=alias, store=rig.store)
    assert by_alias.algorithm == name and by_alias.allow("k")
    assert RateLimiter("2/minute", algorithm=name, store=rig.store).peek("k").remaining == 1


def test_limiter_repr_says_what_it_is():
    shown = repr(RateLimiter("5/minute; 9/hour", algorithm="gcra", name="api"))
    assert "5/minute" in shown and "9/hour" in shown and "gcra" in shown and "'api'" in shown


def test_limiter_cannot_be_set_up_twice(rig):
    limiter = RateLimiter("2/minute", store=rig.store)
    limiter.allow("k")
    with pytest.raises(TypeError):
        limiter.__init__("9/minute", store=rig.store)
    assert limiter.limits == (Limit(2, 60),) and limiter.peek("k").remaining == 1


# hit, allow, peek, reset


def test_hit_and_allow_pass_exactly_the_limit(algorithm, rig):
    for limit in (1, 2, 7, 1_000):
        by_hit = RateLimiter(Limit(limit, 60), algorithm=algorithm, store=rig.store, name="hit")
        by_allow = RateLimiter(Limit(limit, 60), algorithm=algorithm, store=rig.store, name="allow")
        assert [bool(by_hit.hit("k")) for _ in range(limit + 3)] == [True] * limit + [False] * 3
        assert [by_allow.allow("k") for _ in range(limit + 3)] == [True] * limit + [False] * 3
    assert type(by_allow.allow("k")) is bool


def test_hit_allow_and_peek_agree_on_random_calls(algorithm):
    """The same calls through each of them, on stores of their own."""
    rng = random.Random(SEED)
    for _ in range(30):
        text = rng.choice(["3/second", "3/second; 5 per 2 seconds", "2/second; 5 per 3 seconds; 6 per 7 seconds"])
        rigs = [CORE.make() for _ in range(2)]
        first, second = (RateLimiter(text, algorithm=algorithm, store=made.store) for made in rigs)
        for _ in range(60):
            key, cost = rng.choice(["a", "b", 5, ("a", 1)]), rng.choice([0, 1, 1, 1, 2, 4])
            peeked = first.peek(key, cost)
            decision = first.hit(key, cost)
            assert second.allow(key, cost) == decision.allowed == peeked.allowed, f"GOBLIN_SEED={SEED}"
            if not decision:
                assert peeked == decision
            elif cost == 0:
                assert peeked.remaining == decision.remaining
            else:
                assert peeked.remaining == decision.remaining + cost and peeked.retry_after == 0.0
            step = rng.choice([0, 0, 1, 10**8, 333_333_333, 10**9, 2 * 10**9])
            for made in rigs:
                made.advance_ns(step)


def test_hit_costs(algorithm, rig):
    limiter = RateLimiter("10/minute", algorithm=algorithm, store=rig.store)
    assert limiter.hit("k", 4).remaining == 6 and limiter.hit("k", cost=6).remaining == 0
    for method in (limiter.hit, limiter.allow, limiter.peek, limiter.acquire):
        for cost, error in (
            (-1, ValueError),
            (1.5, TypeError),
            (True, TypeError),
            ("1", TypeError),
            (2**63, OverflowError),
        ):
            with pytest.raises(error, match="cost="):
                method("k", cost)
        with pytest.raises(TypeError):
            method()
        with pytest.raises(TypeError):
            method("k", 1, 2)


def test_peek_spends_nothing_and_makes_no_entry(algorithm, rig):
    limiter = RateLimiter("2/minute; 9/hour", algorithm=algorithm, store=rig.store)
    assert [limiter.peek("k").remaining for _ in range(3)] == [2, 2, 2] and len(rig.store) == 0
    limiter.hit("k")
    assert [limiter.peek("k").remaining for _ in range(3)] == [1, 1, 1]
    limiter.hit("k")
    assert not limiter.peek("k") and limiter.peek("k", 0).allowed


def test_reset_forgets_all_entries_of_the_key_and_no_other(algorithm, rig):
    limiter = RateLimiter("2/minute; 9/hour", algorithm=algorithm, store=rig.store)
    for key in ("a", "b", 5, ("a",)):
        limiter.hit(key, 2)
    assert limiter.reset("a") is True and len(rig.store) == 6
    assert limiter.peek("a").remaining == 2 and limiter.peek("b").remaining == 0
    assert limiter.reset("a") is False
    assert limiter.reset(5) is True and limiter.reset(("a",)) is True and limiter.reset(b"b") is True
    assert len(rig.store) == 0


def test_limiters_share_a_budget_by_store_name_limit_and_algorithm(rig):
    same = [RateLimiter("2/minute", store=rig.store, name="n") for _ in range(2)]
    others = [
        RateLimiter("2/minute", store=rig.store),
        RateLimiter("2/minute", store=rig.store, name="m"),
        RateLimiter("3/minute", store=rig.store, name="n"),
        RateLimiter("2 per 61 seconds", store=rig.store, name="n"),
        RateLimiter("2/minute", store=rig.store, name="n", algorithm="gcra"),
        RateLimiter("2/minute", store=CORE.make().store, name="n"),
    ]
    assert same[0].allow("k") and same[1].allow("k") and not same[0].allow("k") and not same[1].allow("k")
    assert all(other.peek("k").remaining >= 2 for other in others)


def test_several_limits_equal_ones_count_once(algorithm, rig):
    limiter = RateLimiter([Limit(3, 60), "3/minute", Limit(3, 60, burst=3)], algorithm=algorithm, store=rig.store)
    assert [limiter.allow("k") for _ in range(4)] == [True] * 3 + [False]
    assert len(rig.store) == 1


def test_several_limits_refused_by_one_spend_in_none(algorithm, rig):
    limiter = RateLimiter("2/second; 3/minute", algorithm=algorithm, store=rig.store)
    outer = RateLimiter("3/minute", algorithm=algorithm, store=rig.store)  # the second one alone
    assert limiter.hit("k", 2) and not limiter.hit("k")
    assert outer.peek("k").remaining == 1
    rig.advance(3)
    assert limiter.hit("k") and outer.peek("k").remaining == 0


def test_wrong_kind_under_a_limiters_key_raises_and_changes_nothing(algorithm, rig):
    limiter = RateLimiter("2/second; 3/minute", algorithm=algorithm, store=rig.store)
    limiter.hit("k")
    keys = list(rig.store)
    for key in keys:
        rig.store.delete(key)
        (rig.store.gcra if algorithm != "gcra" else rig.store.fixed_window)(key, 9, 60)
        for method in (limiter.hit, limiter.allow, limiter.peek, limiter.acquire):
            with pytest.raises(
                goblin.WrongTypeError, match="^Operation against a key holding the wrong kind of value$"
            ):
                method("k")
        limiter.reset("k")
        assert limiter.hit("k")
    assert set(rig.store) == set(keys)


@pytest.mark.parametrize("method", ["hit", "allow", "peek"])
def test_hits_that_can_never_pass_show_no_memory_of_another_kind(method, algorithm, rig):
    limiter = RateLimiter("2/second; 3/minute", algorithm=algorithm, store=rig.store)
    for key in limiter.hit("k") and list(rig.store):
        rig.store.delete(key)
        (rig.store.gcra if algorithm != "gcra" else rig.store.fixed_window)(key, 9, 60)
    for _ in range(3):
        told = getattr(limiter, method)("k", 4)
        assert not told
        if method != "allow":
            assert told.retry_after == inf and 0 <= told.remaining <= 3
            assert told.reset_after == inf or told.reset_after <= 60


def test_limit_that_reaches_past_the_end_of_time_raises_when_hit(algorithm):
    rig = CORE.make(2**62)
    limiter = RateLimiter(Limit(1, 2**62 / 10**9 * 1.5), algorithm=algorithm, store=rig.store)
    for method in (limiter.hit, limiter.allow, limiter.peek, limiter.acquire):
        with pytest.raises(ValueError, match="invalid expire time: (seconds|period_ns)="):
            method("k")
    assert len(rig.store) == 0


# refund


def test_refund_gives_back_once_and_for_the_decisions_own_object(algorithm, rig):
    limiter = RateLimiter("5/minute; 9/hour", algorithm=algorithm, store=rig.store)
    decision, other = limiter.hit("k", 2), limiter.hit("k", 3)
    assert limiter.peek("k").remaining == 0
    assert limiter.refund(decision) is True and limiter.peek("k").remaining == 2
    assert limiter.refund(decision) is False and limiter.peek("k").remaining == 2  # of the other's three nothing
    assert decision.allowed and decision.remaining == 3  # what it says stays
    assert limiter.refund(other) is True and limiter.peek("k").remaining == 5


def test_refund_of_what_spent_nothing_is_false(algorithm, rig):
    limiter = RateLimiter("2/minute", algorithm=algorithm, store=rig.store)
    limiter.hit("k")
    for decision in (limiter.peek("k"), limiter.hit("k", 0), limiter.hit("k", 2), limiter.hit("k", 3)):
        assert limiter.refund(decision) is False
    assert limiter.peek("k").remaining == 1


def test_refund_of_anything_else_raises_typeerror(rig):
    limiter = RateLimiter("2/minute", store=rig.store)
    for thing in (None, True, 5, "k", (1, 2)):
        with pytest.raises(TypeError):
            limiter.refund(thing)
    with pytest.raises(TypeError):
        limiter.refund()


def test_refund_by_another_limiter_gives_nothing_and_takes_nothing_away(rig):
    mine, other = (RateLimiter("2/minute", store=rig.store, name=name) for name in "ab")
    decision = mine.hit("k")
    other.hit("k", 2)
    try:
        given = other.refund(decision)
    except ValueError:
        given = False
    assert given is False and other.peek("k").remaining == 0
    assert mine.refund(decision) is True and mine.peek("k").remaining == 2


@pytest.mark.parametrize(("algorithm", "given"), [("fixed-window", False), ("sliding-window", True), ("gcra", False)])
def test_refund_after_the_period_gives_only_what_still_weighs(algorithm, given, rig):
    limiter = RateLimiter("6/minute", algorithm=algorithm, store=rig.store)
    decision = limiter.hit("k", 6)
    rig.advance(60)
    later = limiter.hit("k", 1)
    before = limiter.peek("k").remaining
    assert limiter.refund(decision) is given
    # A sliding window's six of the minute before still weighed five.
    assert limiter.peek("k").remaining == before + (5 if given else 0)
    assert limiter.refund(later) is True


def test_refund_gcra_is_the_cost_less_the_time_since(rig):
    limiter = RateLimiter("6/minute", algorithm="gcra", store=rig.store)
    decisions = [limiter.hit("k") for _ in range(6)]
    rig.advance(4)
    assert limiter.refund(decisions[5]) is True  # of 10 s, 6 are left
    assert limiter.hit("k").allowed and limiter.hit("k").retry_after == 10.0
    rig.advance(6)
    assert limiter.refund(decisions[4]) is False  # ten seconds on there is nothing left


def test_refund_goes_to_the_store_that_was_hit(rig):
    """Also where the default store has been replaced in between."""
    other = CORE.make()
    limiter = RateLimiter("2/minute")
    before = goblin.set_default_store(rig.store)
    try:
        decision = limiter.hit("k", 2)
        goblin.set_default_store(other.store)
        limiter.hit("k", 2)
        assert limiter.refund(decision) is True
        assert not limiter.peek("k")
        goblin.set_default_store(rig.store)
        assert limiter.peek("k").remaining == 2
    finally:
        goblin.set_default_store(before)


def test_refund_of_one_decision_by_16_threads_gives_back_once(algorithm):
    limiter = RateLimiter("100000/hour; 200000/day", algorithm=algorithm, store=CORE.make().store)
    limiter.hit("k", 50_000)  # enough for all of them to take from
    for _ in range(20):
        decision, given = limiter.hit("k", 7), []
        run_threads(*[lambda d=decision, g=given: g.append(limiter.refund(d))] * 16)
        assert sorted(given) == [False] * 15 + [True]
    assert limiter.peek("k").remaining == 50_000


# The default store


@pytest.fixture
def default():
    """A fresh default store on a manual clock; the one before comes back."""
    rig = CORE.make()
    before = goblin.set_default_store(rig.store)
    yield rig
    goblin.set_default_store(before)


def test_default_store_is_one_per_process_and_looked_up_at_every_call(default):
    limiter, other = RateLimiter("2/minute"), RateLimiter("2/minute")
    assert goblin.default_store() is default.store and limiter.store is None
    assert limiter.allow("k") and other.allow("k") and not limiter.allow("k")
    fresh = CORE.make()
    assert goblin.set_default_store(fresh.store) is default.store
    assert limiter.allow("k") and other.hit("k") and not limiter.peek("k") and limiter.reset("k")
    assert goblin.set_default_store(default.store) is fresh.store
    assert not limiter.allow("k")


def test_default_store_is_made_when_first_asked_for(default):
    goblin.set_default_store(None)
    made = goblin.default_store()
    assert type(made) is goblin.Counters and goblin.default_store() is made
    assert RateLimiter("1/minute").allow("k") and len(made) == 1


@pytest.mark.parametrize("thing", [5, "store", object(), {}, goblin.Counters])
def test_default_store_of_another_type_is_refused(thing, default):
    with pytest.raises(TypeError, match="store"):
        goblin.set_default_store(thing)
    assert goblin.default_store() is default.store


def test_limiters_own_store_is_kept(default):
    rig = CORE.make()
    limiter = RateLimiter("1/minute", store=rig.store)
    assert limiter.allow("k") and len(default.store) == 0 and limiter.store is rig.store
    assert bool(limiter.store) or True


# Any store with the five verbs


class Elsewhere:
    """The Store protocol and nothing else, as a store in another process would have it."""

    def __init__(self, store):
        self._counters, self.calls = store, []

    def decide(self, entries, cost=1, mode="hit", *, max_wait_ns=None):
        self.calls.append((list(entries), cost, mode))
        return self._counters.decide(entries, cost, mode, max_wait_ns=max_wait_ns)

    def refund(self, stamps, cost):
        return self._counters.refund(stamps, cost)

    def unreserve(self, stamps):
        self._counters.unreserve(stamps)

    def delete(self, *keys):
        return self._counters.delete(*keys)

    def now_ns(self):
        return self._counters.now_ns()


def test_store_of_another_kind_is_asked_through_the_protocol_and_decides_the_same(algorithm):
    rng = random.Random(SEED)
    here, there = CORE.make(), CORE.make()
    text = "3/second; 5 per 2 seconds"
    elsewhere = Elsewhere(there.store)
    pair = [RateLimiter(text, algorithm=algorithm, store=store, name="n") for store in (here.store, elsewhere)]
    held = []
    for _ in range(400):
        key, cost = rng.choice(["a", b"b", 5, ("a", 1)]), rng.choice([0, 1, 1, 2, 4])
        method = rng.choice(["hit", "hit", "hit", "allow", "peek", "reset", "refund"])
        if method == "refund" and held:
            decisions = held.pop(rng.randrange(len(held)))
            replies = [limiter.refund(decision) for limiter, decision in zip(pair, decisions, strict=True)]
        else:
            arguments = (key,) if method == "reset" else (key, cost)
            replies = [getattr(limiter, "hit" if method == "refund" else method)(*arguments) for limiter in pair]
            if method == "hit":
                held.append(replies)
        assert replies[0] == replies[1] and type(replies[0]) is type(replies[1]), f"GOBLIN_SEED={SEED}: {method}"
        assert set(here.store) == set(there.store)
        step = rng.choice([0, 0, 1, 10**8, 333_333_333, 10**9])
        here.advance_ns(step)
        there.advance_ns(step)
    entries, _, mode = elsewhere.calls[0]
    assert [quota for _, quota in entries] == [(algorithm, 3, 10**9, None), (algorithm, 5, 2 * 10**9, None)]
    assert mode in ("hit", "peek") and all(type(key) is bytes for key, _ in entries)


@pytest.mark.parametrize("key", [None, "{who}"])
def test_store_of_another_kind_limits_a_decorated_function(key, algorithm):
    ran, elsewhere = [], Elsewhere(CORE.make().store)

    @goblin.rate_limit("2/minute", algorithm=algorithm, store=elsewhere, key=key)
    def limited(who):
        ran.append(who)

    limited("ann"), limited("ann")
    with pytest.raises(goblin.RateLimitExceeded) as caught:
        limited("ann")
    decision = caught.value.decision
    assert not decision and decision.remaining == 0 and caught.value.retry_after > 0
    if key:
        limited("bob")
    assert ran == ["ann", "ann", *(["bob"] if key else [])]
    assert all(mode == "hit" for _, _, mode in elsewhere.calls)


def test_store_subclass_with_a_decide_of_its_own_is_asked_through_it():
    class Counting(goblin.Counters):
        decided = 0

        def decide(self, *args, **kwargs):
            self.decided += 1
            return super().decide(*args, **kwargs)

    store = Counting(clock=goblin.ManualClock())
    limiter = RateLimiter("2/minute", store=store)
    assert limiter.allow("k") and limiter.hit("k") and not limiter.peek("k")
    assert store.decided == 3
    assert RateLimiter("2/minute", store=type("Plain", (goblin.Counters,), {})()).allow("k")


@pytest.mark.parametrize("missing", ["decide", "refund", "unreserve", "delete", "now_ns"])
def test_store_that_lacks_a_verb_is_refused_and_the_verb_named(missing):
    verbs = {name: verb for name, verb in vars(Elsewhere).items() if name != missing}
    lame = type("Lame", (), verbs)(None)
    with pytest.raises(TypeError, match=f"Lame.*{missing}"):
        RateLimiter("1/minute", store=lame)


# Threads


@pytest.mark.parametrize("limits", ["5000/hour", "5000/hour; 6000/day"])
@pytest.mark.parametrize("method", ["allow", "hit"])
def test_16_threads_on_one_limiter_admit_exactly_the_limit(limits, method, algorithm):
    limiter = RateLimiter(limits, algorithm=algorithm, store=CORE.make().store)
    passed = []

    def work():
        passed.append(sum(bool(getattr(limiter, method)("k")) for _ in range(500)))

    run_threads(*[work] * 16)
    assert sum(passed) == 5_000
    assert limiter.peek("k").remaining == 0


def test_16_threads_that_hit_and_refund_leave_what_was_not_refunded(algorithm):
    rig = CORE.make()
    limiter = RateLimiter("1000000/hour; 1000001/day", algorithm=algorithm, store=rig.store)

    def work():
        for number in range(300):
            decision = limiter.hit("k")
            if number % 3:
                assert limiter.refund(decision) is True

    run_threads(*[work] * 16)
    assert limiter.peek("k").remaining == 1_000_000 - 16 * 100
    rig.store._check()
