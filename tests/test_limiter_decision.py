"""`Decision`: what it says, that it is a value, and the HTTP fields that it makes."""

import copy
import math
import pickle
import random
import time

import pytest

import goblin
from engines import CORE
from goblin import Decision, Limit, RateLimiter

SECOND = 10**9


@pytest.fixture
def rig():
    return CORE.make()


def limiter_on(rig, limits, algorithm="fixed-window", **options):
    return RateLimiter(limits, algorithm=algorithm, store=rig.store, **options)


def test_decision_of_a_hit_that_passed(rig):
    decision = limiter_on(rig, "5/minute").hit("ann", 2)
    assert decision and decision.allowed is True and bool(decision) is True
    assert (decision.limit, decision.key, decision.cost) == (Limit(5, 60), "ann", 2)
    assert (decision.remaining, decision.retry_after, decision.reset_after) == (3, 0.0, 60.0)
    assert type(decision.retry_after) is type(decision.reset_after) is float and type(decision.remaining) is int


def test_decision_of_a_hit_that_was_refused(rig):
    limiter = limiter_on(rig, "5/minute")
    limiter.hit("ann", 4)
    rig.advance(45)
    decision = limiter.hit("ann", 2)
    assert not decision and decision.allowed is False
    assert (decision.remaining, decision.retry_after, decision.reset_after, decision.cost) == (1, 15.0, 15.0, 2)


@pytest.mark.parametrize("algorithm", ["fixed-window", "sliding-window", "gcra"])
def test_decision_of_what_can_never_pass(rig, algorithm):
    limiter = limiter_on(rig, "5/minute", algorithm)
    decision = limiter.hit("ann", 6)
    assert not decision and decision.retry_after == math.inf and decision.remaining == 5 and decision.reset_after == 0.0
    zero = limiter_on(rig, "0/minute", algorithm).hit("ann")
    assert not zero and zero.retry_after == math.inf and zero.remaining == 0
    assert len(rig.store) == 0


def test_decision_of_a_count_without_an_end(rig):
    limiter = limiter_on(rig, Limit(2, None))
    decision = limiter.hit("ann", 2)
    assert decision and decision.reset_after == math.inf and decision.remaining == 0
    rig.advance(10**6)
    refused = limiter.hit("ann")
    assert not refused and refused.retry_after == refused.reset_after == math.inf


def test_decision_of_cost_zero_looks_and_is_allowed(rig):
    limiter = limiter_on(rig, "1/minute")
    assert limiter.hit("ann", 0).remaining == 1 and len(rig.store) == 0
    limiter.hit("ann")
    assert limiter.hit("ann", 0).allowed and limiter.hit("ann", 0).remaining == 0


@pytest.mark.parametrize(
    ("algorithm", "reset_after"),
    # sliding: the three weigh less than one as soon as less than a third of their window is left, at 60 + 40 s.
    [("fixed-window", 55.0), ("sliding-window", 95.0), ("gcra", 31.0)],
)
def test_decision_reset_after_is_when_a_hit_of_the_whole_quota_would_pass(rig, algorithm, reset_after):
    limiter = limiter_on(rig, "5/minute", algorithm)
    limiter.hit("ann", 3)
    rig.advance(5)
    decision = limiter.peek("ann")
    assert decision.reset_after == reset_after
    rig.advance_ns(round(decision.reset_after * SECOND) - 1)
    assert not limiter.peek("ann", 5)
    rig.advance_ns(1)
    assert limiter.peek("ann", 5) and limiter.peek("ann").reset_after == 0.0


def test_decision_seconds_turned_back_to_nanoseconds_are_never_short(rig):
    rng = random.Random(11)
    waits = [1, 2, 3, 10**8, 10**9 - 1, 10**9, 2**53 - 1, 2**53, 2**53 + 1, 2**60 + 1, 2**62 - 1]
    waits += [rng.randrange(1, 2 ** rng.randrange(2, 62)) for _ in range(500)]
    for wait_ns in waits:
        rig = CORE.make()
        limiter = limiter_on(rig, Limit.parse(f"1 per {wait_ns}ns"))
        limiter.hit("k")
        refused = limiter.hit("k")
        for seconds in (refused.retry_after, refused.reset_after):
            rig.clock.advance(seconds)
            assert rig.clock.now_ns >= wait_ns, seconds
            # and not late either: the next smaller float would be short, or is the same nanosecond
            assert rig.clock.now_ns - wait_ns <= max(0, wait_ns >> 52)
            rig.clock.advance_ns(-rig.clock.now_ns)


def test_decision_of_several_limits_is_of_the_one_that_decides(rig):
    limiter = limiter_on(rig, "3/second; 5/minute; 100/hour")
    first = limiter.hit("ann")
    assert (first.limit, first.remaining, first.reset_after) == (Limit(3, 1), 2, 1.0)
    limiter.hit("ann", 2)
    refused = limiter.hit("ann")
    assert (refused.limit, refused.remaining, refused.retry_after) == (Limit(3, 1), 0, 1.0)
    rig.advance(1)
    last = limiter.hit("ann", 2)
    assert (last.limit, last.remaining, last.reset_after) == (Limit(5, 60), 0, 59.0)
    refused = limiter.hit("ann")
    assert (refused.limit, refused.remaining, refused.retry_after) == (Limit(5, 60), 0, 59.0)
    assert limiter.hit("ann", 4).retry_after == math.inf and limiter.hit("ann", 4).limit == Limit(3, 1)


# A value


@pytest.fixture
def decisions(rig):
    """Of every sort: passed, refused, never, without an end."""
    made = []
    for algorithm in ("fixed-window", "sliding-window", "gcra"):
        limiter = limiter_on(rig, "2/minute; 5/hour", algorithm, name="n")
        made += [limiter.hit(("u", 1)) for _ in range(3)] + [limiter.hit(b"k", 3), limiter.peek("p")]
    return [*made, limiter_on(rig, Limit(1, None)).hit(7)]


def test_decision_is_immutable(decisions):
    names = ["limit", "key", "cost", "remaining", "allowed", "retry_after", "reset_after", "algorithm", "name", "new"]
    for decision in decisions:
        before = repr(decision), hash(decision)
        for name in names:
            with pytest.raises(AttributeError):
                setattr(decision, name, 1)
            with pytest.raises((AttributeError, TypeError)):
                delattr(decision, name)
        assert (repr(decision), hash(decision)) == before and not hasattr(decision, "__dict__")


def test_decision_is_made_by_limiters_only():
    for arguments in ((), (1,), (Limit(1, 1), "k")):
        with pytest.raises(TypeError):
            Decision(*arguments)
    with pytest.raises(TypeError):
        type("Mine", (Decision,), {})


def test_decisions_are_compared_by_what_they_say(decisions):
    rig = CORE.make()
    limiter = limiter_on(rig, "2/minute")
    first, other_key, second = limiter.hit("a"), limiter.hit("b"), limiter.hit("a")
    again = limiter_on(CORE.make(), "2/minute").hit("a")
    assert first == again and hash(first) == hash(again) and not first != again
    assert first != other_key and first != second and first != True and first != 1 and first is not None  # noqa: E712
    assert limiter.peek("c") != limiter.hit("c")
    with pytest.raises(TypeError):
        first < second
    assert len({*decisions, *[copy.copy(decision) for decision in decisions]}) == len(set(decisions))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_decision_pickles_without_the_right_to_refund(protocol):
    limiter = limiter_on(CORE.make(), "5/minute; 9/hour")
    decision = limiter.hit("ann", 2)
    loaded = pickle.loads(pickle.dumps(decision, protocol))
    assert loaded == decision and hash(loaded) == hash(decision) and repr(loaded) == repr(decision)
    assert loaded.headers() == decision.headers() and loaded.limit == Limit(5, 60)
    assert limiter.refund(loaded) is False and limiter.peek("ann").remaining == 3
    assert limiter.refund(decision) is True and limiter.peek("ann").remaining == 5


@pytest.mark.parametrize("copier", [copy.copy, copy.deepcopy, lambda decision: copy.deepcopy([decision])[0]])
def test_decision_copies_without_the_right_to_refund(copier):
    limiter = limiter_on(CORE.make(), "5/minute")
    decision = limiter.hit("ann", 2)
    twin = copier(decision)
    assert twin == decision and twin is not decision
    assert limiter.refund(twin) is False and limiter.refund(decision) is True
    assert decision == twin  # having been refunded is no part of it either


def test_decisions_of_every_sort_pickle(decisions):
    for decision in decisions:
        assert pickle.loads(pickle.dumps(decision)) == decision == copy.deepcopy(decision)


def test_decision_repr_can_be_read(rig):
    limiter = limiter_on(rig, "1/minute")
    shown = [repr(limiter.hit("ann")), repr(limiter.hit("ann")), repr(limiter.hit("ann", 2))]
    assert "allowed" in shown[0] and "0 remaining" in shown[0]
    assert "refused" in shown[1] and "60" in shown[1]
    assert "refused" in shown[2] and "inf" not in shown[2]
    assert all("'ann'" in text and "1/minute" in text for text in shown)


# HTTP fields


def after(limits, algorithm, hits, wait=0, cost=1, **options):
    """The headers of a hit after so many others and a wait."""
    rig = CORE.make()
    limiter = limiter_on(rig, limits, algorithm, **options)
    for _ in range(hits):
        limiter.hit("secret-key")
    rig.advance(wait)
    return limiter.hit("secret-key", cost).headers()


@pytest.mark.parametrize(
    ("case", "policy", "state", "retry_after"),
    [
        (("10/minute", "fixed-window", 0), '"default";q=10;w=60', '"default";r=9;t=60', None),
        (("10/minute", "fixed-window", 0, 0, 0), '"default";q=10;w=60', '"default";r=10;t=0', None),
        (("10/minute", "fixed-window", 10, 12.5), '"default";q=10;w=60', '"default";r=0;t=48', "48"),
        (("10/minute", "fixed-window", 10, 59.999), '"default";q=10;w=60', '"default";r=0;t=1', "1"),
        (("10/minute", "fixed-window", 8, 30, 3), '"default";q=10;w=60', '"default";r=2;t=30', "30"),
        (("10/minute", "sliding-window", 10), '"default";q=10;w=60', '"default";r=0;t=60', "60"),
        (("5 per 500ms", "fixed-window", 5), '"default";q=5;w=1', '"default";r=0;t=1', "1"),
        (("5 per 1500ms", "fixed-window", 0), '"default";q=5;w=2', '"default";r=4;t=2', None),
        # gcra: q is the burst, w is burst x period / limit
        (("10/minute", "gcra", 10), '"default";q=10;w=60', '"default";r=0;t=6', "6"),
        (("10/minute burst 20", "gcra", 0), '"default";q=20;w=120', '"default";r=19;t=6', None),
        (("7/minute burst 2", "gcra", 2), '"default";q=2;w=18', '"default";r=0;t=9', "9"),
        # never: neither Retry-After nor t
        (("10/minute", "fixed-window", 3, 0, 11), '"default";q=10;w=60', '"default";r=7', None),
        (("10/minute burst 3", "gcra", 0, 0, 4), '"default";q=3;w=18', '"default";r=3', None),
        (("0/minute", "fixed-window", 0), '"default";q=0;w=60', '"default";r=0', None),
        # without an end: no w
        ((Limit(2, None), "fixed-window", 0), '"default";q=2', '"default";r=1', None),
        ((Limit(2, None), "fixed-window", 2), '"default";q=2', '"default";r=0', None),
        # the deciding policy only
        (("3/second; 10/hour", "fixed-window", 0), '"default";q=3;w=1', '"default";r=2;t=1', None),
        (("3/second; 2/hour", "fixed-window", 2), '"default";q=2;w=3600', '"default";r=0;t=3600', "3600"),
    ],
)
def test_headers(case, policy, state, retry_after):
    expected = {"RateLimit-Policy": policy, "RateLimit": state}
    if retry_after is not None:
        expected["Retry-After"] = retry_after
    assert after(*case) == expected


def test_headers_are_named_by_the_limiter():
    assert after("10/minute", "fixed-window", 0, name="api")["RateLimit-Policy"] == '"api";q=10;w=60'
    assert after("10/minute", "fixed-window", 0, name="api")["RateLimit"] == '"api";r=9;t=60'


def test_headers_quote_the_name_as_a_structured_string():
    headers = after("10/minute", "fixed-window", 0, name='a "b" \\c')
    assert headers["RateLimit-Policy"] == r'"a \"b\" \\c";q=10;w=60'


@pytest.mark.parametrize("name", ["a\r\nSet-Cookie: x=1", "a\0b", "tab\t", "ä", "日本", "\x7f"])
def test_headers_hold_nothing_that_a_header_may_not_hold(name):
    """A structured field's string is printable ASCII. A limiter of such a name says no, or writes it in another way."""
    try:
        headers = after("10/minute", "fixed-window", 10, name=name)
    except ValueError:
        return
    for value in headers.values():
        assert value.isascii() and value.isprintable()


def test_headers_never_show_the_key():
    for algorithm in ("fixed-window", "sliding-window", "gcra"):
        for cost in (1, 99):
            assert "secret" not in str(after("10/minute", algorithm, 5, cost=cost))


def test_headers_retry_after_is_long_enough():
    """Whole seconds, rounded up: who comes back then is let in; a second earlier is too early."""
    rng = random.Random(3)
    for _ in range(200):
        rig = CORE.make()
        algorithm = rng.choice(["fixed-window", "sliding-window", "gcra"])
        limiter = limiter_on(rig, f"{rng.randrange(1, 9)} per {rng.randrange(1, 10**11)}ns", algorithm)
        for _ in range(12):
            limiter.hit("k")
            rig.advance_ns(rng.randrange(10**6))
        limiter.hit("k", limiter.peek("k").remaining)
        refused = limiter.hit("k")
        seconds = int(refused.headers()["Retry-After"])
        assert seconds >= 1 and seconds - 1 < refused.retry_after <= seconds
        rig.advance(seconds)
        assert limiter.peek("k")


def test_headers_legacy_trio(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    rig = CORE.make()
    limiter = limiter_on(rig, "2/minute")
    trio = [limiter.hit("k").headers(legacy=True) for _ in range(3)]
    for headers, remaining in zip(trio, (1, 0, 0), strict=True):
        assert headers["X-RateLimit-Limit"] == "2"
        assert headers["X-RateLimit-Remaining"] == str(remaining)
        assert headers["X-RateLimit-Reset"] == "1700000060"
        assert headers["RateLimit-Policy"] == '"default";q=2;w=60'
    assert "Retry-After" not in trio[0] and trio[2]["Retry-After"] == "60"
    assert set(trio[2]) - set(limiter.hit("k").headers()) == {
        "X-RateLimit-Limit",
        "X-RateLimit-Remaining",
        "X-RateLimit-Reset",
    }
    never = limiter.hit("k", 3).headers(legacy=True)
    assert never["X-RateLimit-Limit"] == "2" and "X-RateLimit-Reset" not in never


def test_headers_are_strings_and_the_callers_own():
    decision = limiter_on(CORE.make(), "2/minute").hit("k")
    headers = decision.headers()
    assert all(type(name) is type(value) is str for name, value in headers.items())
    headers.clear()
    assert decision.headers()
    with pytest.raises(TypeError):
        decision.headers(True)


def test_decision_is_exported():
    assert goblin.Decision is Decision
