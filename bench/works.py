"""What is measured: three situations, each for the same loops over goblin, the empty methods and a dict.

A situation is a generator that yields, round after round, the arguments (store, keys) of a loop. The loops are written
out, with the call as a user would write it, so that all pay the same for looping and for looking the method up.
"""

import functools
import random
from typing import Callable, Iterator, NamedTuple

from floor import load_empty

import goblin

SEED = 20_240_229
LIVE = 1_000_000
# Far beyond any run: in these works no window ends.
SECONDS = 3_600
BOUND = 10**12


def increx_loop(store, keys):
    for key in keys:
        store.increx(key, SECONDS)


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


@functools.cache
def live_keys():
    """A million strings, and the same objects in random order. They persist, as a program's own keys would, so their
    hash is computed once; in random order, because in the order of their making the caches would do all the work."""
    keys = [f"rate:user{number:07}" for number in range(LIVE)]
    shuffled = keys.copy()
    random.Random(SEED).shuffle(shuffled)
    return keys, shuffled


def rotation(new_store, fill, calls=32_000):
    """64 live keys in rotation: everything sits in the first cache; the cost of a call in a tight loop."""
    keys = [f"rate:user{number}" for number in range(64)]
    store = new_store()
    fill(store, keys)
    while True:
        yield store, keys * (calls // len(keys))


def random_order(new_store, fill, calls=100_000):
    """random order over 1M live keys: the cost of a call when the memory has to be fetched."""
    keys, shuffled = live_keys()
    store = new_store()
    fill(store, keys)
    while True:
        for start in range(0, LIVE, calls):
            yield store, shuffled[start : start + calls]


def creating(new_store, fill, calls=200_000):
    """creating: every call makes a counter, in a store that starts empty; new strings, whose hash is not yet known."""
    start = 0
    while True:
        yield new_store(), [f"rate:user{number:09}" for number in range(start, start + calls)]
        start += calls


class Contender(NamedTuple):
    name: str
    new_store: Callable
    loop: Callable


class Work(NamedTuple):
    command: str
    situation: Callable
    contenders: list

    @property
    def name(self):
        return f"{self.command}, {self.situation.__doc__.split(':')[0]}"

    def rounds(self, contender) -> Iterator:
        """Endless arguments for `contender.loop`."""
        # A refused call makes no counter: the counters it is refused on are made by admitted ones.
        fill = incrbound_loop if contender.loop is refused_loop else contender.loop
        return self.situation(contender.new_store, fill)


def _work(command, situation, loop):
    contenders = [
        Contender("goblin", goblin.Counters, loop),
        Contender("empty", load_empty(), loop),
        Contender("dict", dict, dict_loop),
    ]
    return Work(command, situation, contenders)


WORKS = [
    _work("increx", rotation, increx_loop),
    _work("increx", random_order, increx_loop),
    _work("increx", creating, increx_loop),
    _work("incrbound", rotation, incrbound_loop),
    _work("incrbound refused", rotation, refused_loop),
    _work("incrbound", random_order, incrbound_loop),
    _work("incrbound", creating, incrbound_loop),
]
