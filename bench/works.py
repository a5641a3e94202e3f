"""What is measured beside the floor: situations, each for the same loops over goblin, the empty methods and a dict.

A situation is a generator that yields, round after round, the arguments (store, keys) of a loop. The loops are written
out, with the call as a user would write it, so that all pay the same for looping and for looking the method up.
`targets.py` says which ratios between them are aimed at.
"""

import functools
import random
import time
from typing import Any, Callable, Iterator, NamedTuple

from floor import load_empty

import goblin

SEED = 20_240_229
# Far beyond any run: in these works no window ends.
SECONDS = 3_600
BOUND = 10**12
PLENTY = 10**9  # a limit that no run reaches

# ---- loops ----------------------------------------------------------------------------------------------------------


def increx_loop(store, keys):
    for key in keys:
        store.increx(key, SECONDS)


def exact_increx_loop(store, keys):
    # Deadlines this near are never judged by the coarse clock alone: each call reads the exact one. It has looked at
    # the coarse one before, some 5 ns, and makes a new counter every 90 ms.
    for key in keys:
        store.pincrex(key, 90)


def incrbound_loop(store, keys):
    for key in keys:
        store.incrbound(key, 1, BOUND)


def refused_loop(store, keys):
    # Counters start at 1 here, so one more is always above 0.
    for key in keys:
        store.incrbound(key, 1, 0)


def dict_loop(store, keys):
    for key in keys:
        store[key] = store.get(key, 0) + 1


def tuples_loop(store, keys):
    now = time.monotonic
    for key in keys:
        store[key] = (1, now() + SECONDS)


def bare_loop(store, keys):
    for key in keys:
        pass


def formatted_increx_loop(store, keys):
    for key in keys:
        store.increx(f"rate:{key}", SECONDS)


def formatted_loop(store, keys):
    for key in keys:
        f"rate:{key}"


def fixed_window_loop(store, keys):
    for key in keys:
        store.fixed_window(key, PLENTY, SECONDS)


def sliding_window_loop(store, keys):
    for key in keys:
        store.sliding_window(key, PLENTY, SECONDS)


def gcra_loop(store, keys):
    for key in keys:
        store.gcra(key, PLENTY, SECONDS)


def gcra_live_loop(store, keys):
    # Ahead of time by a tenth of the period: at this rate a bucket with one hit is full, and its entry gone, in 4 us.
    for key in keys:
        store.gcra(key, PLENTY, SECONDS, PLENTY // 10)


# A refused call makes no counter: the counters it is refused on are made by admitted ones.
FILLED_BY = {refused_loop: incrbound_loop, gcra_loop: gcra_live_loop}


def allow_loop(limiter, keys):
    for key in keys:
        limiter.allow(key)


def hit_loop(limiter, keys):
    for key in keys:
        limiter.hit(key)


def call_loop(function, keys):
    for key in keys:
        function(key)


# ---- situations -----------------------------------------------------------------------------------------------------


def rotation(new_store, fill, calls=32_000, key="rate:user{}"):
    """64 live keys in rotation: everything sits in the first cache; the cost of a call in a tight loop."""
    keys = [key.format(number) for number in range(64)]
    store = new_store()
    fill(store, keys)
    while True:
        yield store, keys * (calls // len(keys))


@functools.lru_cache(maxsize=1)
def live_keys(live):
    """So many strings, and the same objects in random order. They persist, as a program's own keys would, so their
    hash is computed once; in random order, because in the order of their making the caches would do all the work."""
    keys = [f"rate:user{number:07}" for number in range(live)]
    shuffled = keys.copy()
    random.Random(SEED).shuffle(shuffled)
    return keys, shuffled


def random_order(new_store, fill, live, calls=100_000):
    """random order over {live:,} live keys: the cost of a call when the memory has to be fetched."""
    keys, shuffled = live_keys(live)
    store = new_store()
    fill(store, keys)
    shuffled = shuffled * -(-calls // live)
    while True:
        for start in range(0, len(shuffled) - calls + 1, calls):
            yield store, shuffled[start : start + calls]


def creating(new_store, fill, calls):
    """creating {calls:,}: every call makes a counter, in a store that starts empty; new strings, not yet hashed."""
    start = 0
    while True:
        yield new_store(), [f"rate:user{number:09}" for number in range(start, start + calls)]
        start += calls


# ---- works ----------------------------------------------------------------------------------------------------------


class Contender(NamedTuple):
    name: str
    new_store: Callable
    loop: Callable
    about: dict = {}  # what its situation is told beside


class Work(NamedTuple):
    command: str
    situation: Callable
    contenders: list
    about: dict = {}
    share: int = 1  # of the rounds: 1 of so many, for what takes long
    headline: bool = True  # also in pytest-benchmark's tables

    @property
    def name(self):
        what, _, _ = self.situation.__doc__.partition(": ")
        return f"{self.command}, {what.format(**self.about)}"

    def rounds(self, contender) -> Iterator:
        """Endless arguments for `contender.loop`."""
        fill = FILLED_BY.get(contender.loop, contender.loop)
        return self.situation(contender.new_store, fill, **self.about, **contender.about)


def trio(loop):
    return [
        Contender("goblin", goblin.Counters, loop),
        Contender("empty", load_empty(), loop),
        Contender("dict", dict, dict_loop),
    ]


def formatted():
    """P3 needs all of these in the same rounds."""
    short = {"key": "user{}"}
    return [
        Contender("loop alone", dict, bare_loop),
        Contender("goblin, f-string", goblin.Counters, formatted_increx_loop, short),
        Contender("f-string alone", dict, formatted_loop, short),
    ]


def new_limiter():
    return goblin.RateLimiter(goblin.Limit(PLENTY, SECONDS), store=goblin.Counters())


def function(user):
    pass


def decorated():
    return goblin.rate_limit(goblin.Limit(PLENTY, SECONDS), store=goblin.Counters())(function)


def decorated_by_key():
    return goblin.rate_limit(goblin.Limit(PLENTY, SECONDS), key="{user}", store=goblin.Counters())(function)


def limits():
    """The limits beside increx, and the decorated call beside the bare one and, where installed, `ratelimit`'s."""
    contenders = [
        Contender("increx", goblin.Counters, increx_loop),
        Contender("increx, exact clock", goblin.Counters, exact_increx_loop),
        Contender("fixed_window", goblin.Counters, fixed_window_loop),
        Contender("sliding_window", goblin.Counters, sliding_window_loop),
        Contender("gcra", goblin.Counters, gcra_loop),
        Contender("RateLimiter.allow", new_limiter, allow_loop),
        Contender("RateLimiter.hit", new_limiter, hit_loop),
        Contender("bare function", lambda: function, call_loop),
        Contender("decorated function", decorated, call_loop),
        Contender("decorated, key={user}", decorated_by_key, call_loop),
    ]
    try:
        import ratelimit
    except ImportError:
        return contenders
    decorate: Any = ratelimit.limits(calls=PLENTY, period=SECONDS)
    return [*contenders, Contender("decorated by ratelimit", lambda: decorate(function), call_loop)]


# Some random orders are there for the curve of cost against number of keys, not for a target.
LIVE = [1_000, 10_000, 100_000, 1_000_000, 5_000_000]


def all_works(small=False):
    """Small: tiny sizes, and every name stays."""
    scale = 100 if small else 1

    def sized(work):
        return work._replace(about={name: max(64, value // scale) for name, value in work.about.items()})

    works = [
        Work("increx", rotation, trio(increx_loop) + formatted()),
        Work("incrbound", rotation, trio(incrbound_loop)),
        Work("incrbound refused", rotation, trio(refused_loop)),
        Work("limits", rotation, limits()),
        *(
            Work("increx", random_order, trio(increx_loop), {"live": live}, 1 if live < 10**6 else 2, live == 10**6)
            for live in LIVE
        ),
        Work("incrbound", random_order, trio(incrbound_loop), {"live": 1_000_000}, 4),
        Work(
            "increx", creating, [*trio(increx_loop), Contender("dict of tuples", dict, tuples_loop)],
            {"calls": 1_000_000}, 4, False,
        ),
        Work("incrbound", creating, trio(incrbound_loop), {"calls": 200_000}, 2),
    ]  # fmt: skip
    names = {work.name: sized(work) for work in works}
    return names


WORKS = [work for work in all_works().values() if work.headline]
