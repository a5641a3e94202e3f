"""Counters: arguments in, one rule on one record, result out.

Every command reads the same way: convert the arguments; begin() takes the lock, reads the clock and finds the record;
a rule of _rules.pxd works on the state; finish() keeps the new state and lets go of the lock; then the result or the
exception is made. No Python object is created or dropped between begin() and finish().
"""
import heapq
import os
from collections import namedtuple
from operator import itemgetter

cimport cython
from cpython.datetime cimport import_datetime
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.pythread cimport PyThread_get_thread_ident
from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t

from goblin import errors
from goblin cimport _rules as rules
from goblin._args cimport (
    NS_PER_MS, NS_PER_SECOND, Duration, Key, as_duration, as_expiry, as_int64, as_key, as_keys, as_pattern, as_quota,
    as_value, count_of, gob_hash_buffer, gob_hash_bytes, gob_hash_str, judge_expiry, raise_bad_expiry,
)
from goblin._clock cimport NO_COARSE, ManualClock
from goblin._decide cimport decide_entries, refund_stamps
from goblin._reservations cimport forget_everything, forget_given_up, unreserve_stamps
from goblin._rules cimport (
    BAD_TIME, COUNTER, EXPIRE_GT, EXPIRE_LT, EXPIRE_NX, EXPIRE_XX, GCRA, NEVER, NO_ROOM, OK, OVERFLOW, REFUSED,
    SLIDING_WINDOW, WRONG_KIND, Quota, State, Status, Verdict,
)
from goblin._scan cimport scan
from goblin._step cimport (
    GOB_SHARDS, LEAST_MARGIN_NS, MARGIN_TICKS, Slot, Span, Step, Store, add_to_span, asks_again, begin, begin_coarse,
    begin_span, empty_span, finish, finish_verdict, gob_defer_refcount, gob_load, gob_lock, gob_lock_acquire,
    gob_lock_release, keep, keep_several, leave, leave_span, lock, lock_all, look_up, read_clock, unlock, unlock_all,
)
from goblin._store cimport bound_store, count_entries, free_store, in_use, init_store
from goblin._table cimport (
    GOB_DEBUGGING, GOB_NO_DEADLINE, GOB_UNLIKELY, gob_coarse_tick_ns, gob_debug_allocations, gob_debug_fail,
    gob_debug_force_hash, gob_table_check, gob_table_clear, gob_table_sweep_all,
)

import_datetime()


cdef int assert_one_hash_for_one_key() except -1:
    """That a str and its UTF-8 bytes have one hash is CPython's implementation detail, and the ground we stand on."""
    cdef bytes data
    cdef str text
    for text in ("", "k", "a\0b", "rate:user42", "k" * 100):
        data = text.encode()
        if not gob_hash_str(text) == gob_hash_bytes(data) == gob_hash_buffer(data, len(data)) == hash(text):
            raise ImportError("goblin needs a CPython whose str and bytes of the same ASCII text hash alike")
    return 0


assert_one_hash_for_one_key()


Stats = namedtuple("Stats", ["keys", "slots", "memory_bytes", "expired", "evicted"])
Stats.__module__ = "goblin"
Stats.__doc__ = """What a store holds at one moment, as `Counters.stats()` returns it.

keys: entries stored, expired ones not yet reclaimed included; slots: entries that fit without allocating more;
memory_bytes: all the map's allocations together; expired: expired entries reclaimed since the store was made; evicted:
live entries that have made room in a full store.
"""


# ---- forks -----------------------------------------------------------------------------------------------------------
#
# On free-threaded builds another thread may hold a shard's lock at the moment of a fork, and in the child nobody would
# ever release it. So the forking thread takes all locks of all stores first. (Under the GIL it has them by having it.)
# Between that and the release other hooks of Python's run, and so may its collector: a store made or freed by it then
# finds the list already locked.

cdef enum:
    # An object whose references are not counted at once is freed by the collector only, and that runs seldom: whoever
    # makes stores by the thousand, as tests do, would fill the memory with dropped ones.
    FEW_STORES = 32

cdef gob_lock stores_lock  # guards the list of stores; taken before any shard's lock
cdef Store *newest_store = NULL
cdef uint64_t store_count = 0
cdef unsigned long forking_thread = 0  # who holds all locks for a fork; 0: nobody. Only that thread sets it to its own number


cdef inline bint lock_stores() noexcept:
    """Whether the lock had to be taken, and is to be given back."""
    if forking_thread == <unsigned long>PyThread_get_thread_ident():
        return False
    gob_lock_acquire(&stores_lock)
    return True


cdef uint64_t enlist(Store *store) noexcept:
    """How many stores there are now."""
    global newest_store, store_count
    cdef bint locked = lock_stores()
    cdef uint64_t count
    store.next_store = newest_store
    if newest_store != NULL:
        newest_store.previous_store = store
    newest_store = store
    store_count += 1
    count = store_count
    if locked:
        gob_lock_release(&stores_lock)
    return count


cdef void strike_off(Store *store) noexcept:
    """Also of a store that was never on it."""
    global newest_store, store_count
    cdef bint locked = lock_stores()
    if store.previous_store != NULL or newest_store == store:
        store_count -= 1
    if store.next_store != NULL:
        store.next_store.previous_store = store.previous_store
    if store.previous_store != NULL:
        store.previous_store.next_store = store.next_store
    elif newest_store == store:
        newest_store = store.next_store
    if locked:
        gob_lock_release(&stores_lock)


def _lock_all_stores():
    global forking_thread
    cdef Store *store
    gob_lock_acquire(&stores_lock)
    store = newest_store
    while store != NULL:
        gob_lock_acquire(&store.notes)
        lock_all(store)
        store.held_for_fork = True
        store = store.next_store
    forking_thread = <unsigned long>PyThread_get_thread_ident()


def _unlock_all_stores():
    global forking_thread
    cdef Store *store = newest_store
    while store != NULL:
        if store.held_for_fork:
            store.held_for_fork = False
            unlock_all(store)
            gob_lock_release(&store.notes)
        store = store.next_store
    forking_thread = 0
    gob_lock_release(&stores_lock)


if GOB_SHARDS > 1 and hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock_all_stores, after_in_parent=_unlock_all_stores, after_in_child=_unlock_all_stores)


# ---- the margins of the coarse clock: see _step.pxd -----------------------------------------------------------------------

cdef int64_t no_margin_ns = 0
cdef int64_t manual_margin_ns = LEAST_MARGIN_NS
cdef int64_t system_margin_ns = 0 if gob_coarse_tick_ns() == 0 else max(
    <int64_t>LEAST_MARGIN_NS, MARGIN_TICKS * gob_coarse_tick_ns())


def _system_margin_ns():
    """0: this process reads the exact clock only."""
    return gob_load(&system_margin_ns)


cdef int fail(Status status, str name=None, object value=None, lowest=None) except -1:
    """Raise what a Status stands for; name and value are those of the time, for BAD_TIME."""
    if status == OVERFLOW:
        raise errors.overflow()
    if status == BAD_TIME:
        raise errors.bad_time(name, value, lowest)
    if status == WRONG_KIND:
        raise errors.WrongTypeError(errors.WRONG_KIND)
    raise errors.no_place(status == NO_ROOM)


# ---- steps that several commands share -------------------------------------------------------------------------------

cdef inline object count_and_arm(Counters self, const Key *k, const Duration *ttl, str name, object time):
    cdef Step step
    cdef Status status
    if GOB_UNLIKELY(not ttl.fits):
        fail(BAD_TIME, name, time)
    begin_coarse(&self.store, k, &step)
    while True:
        status = rules.increx(&step.state, step.now_ns, ttl.ns)
        if not asks_again(&step, status):
            break
    status = finish(k, &step, status)
    if GOB_UNLIKELY(status != OK):
        fail(status, name, time)
    return step.state.value


cdef inline object add_or_subtract(Counters self, object key, object amount, object ex, object px,
                                   Status (*rule)(State *, int64_t) noexcept nogil):
    cdef Key k
    cdef Step step
    cdef Status status
    cdef int64_t amount_value, deadline_ns = GOB_NO_DEADLINE
    cdef Duration ttl
    cdef bint timed
    as_key(key, &k)
    as_int64(amount, "amount", &amount_value)
    timed = as_expiry(ex, px, &ttl)
    if timed:
        judge_expiry(ex, px, &ttl)
    if timed:
        begin(&self.store, &k, &step)
    else:
        begin_coarse(&self.store, &k, &step)
    while True:
        status = rules.deadline_after(step.now_ns, ttl.ns, &deadline_ns) if timed else OK
        if status == OK:
            status = rule(&step.state, amount_value)
            if timed and status == OK:
                rules.set_deadline(&step.state, deadline_ns)
        if not asks_again(&step, status):
            break
    status = finish(&k, &step, status)
    if GOB_UNLIKELY(status != OK):
        if status == BAD_TIME:
            raise_bad_expiry(ex, px)
        fail(status)
    return step.state.value


cdef object set_ttl(Counters self, const Key *k, const Duration *ttl, str name, object time,
                    bint nx, bint xx, bint gt, bint lt):
    cdef Step step
    cdef Status status
    cdef int flags = nx * EXPIRE_NX | xx * EXPIRE_XX | gt * EXPIRE_GT | lt * EXPIRE_LT
    if nx and (xx or gt or lt):
        raise errors.conflict("nx", "xx" if xx else "gt" if gt else "lt")
    if gt and lt:
        raise errors.conflict("gt", "lt")
    if not ttl.fits:
        fail(BAD_TIME, name, time)
    begin(&self.store, k, &step)
    status = finish(k, &step, rules.expire(&step.state, step.now_ns, ttl.ns, flags))
    if status != OK and status != REFUSED:
        fail(status, name, time)
    return status == OK


cdef int64_t ms_left(Counters self, object key) except? -3:
    cdef Key k
    cdef Step step
    as_key(key, &k)
    begin(&self.store, &k, &step)
    leave(&step)
    return rules.left_ms(&step.state, step.now_ns) if step.state.exists else -2


# ---- several keys in one step ----------------------------------------------------------------------------------------

cdef inline void begin_keys(Store *store, const Key *keys, Py_ssize_t count, Span *span) noexcept nogil:
    cdef Py_ssize_t i
    span[0] = empty_span()
    for i in range(count):
        add_to_span(store, &keys[i], span)
    begin_span(store, span)


cdef int forget(Counters self, keys) except -1:
    """Entries are about to be removed or replaced: notes about their reservations go with them."""
    for key in keys:
        forget_given_up(&self.store, self.given_up, key)
    return 0


cdef int store_several(Counters self, const Slot *slots, Py_ssize_t count) except -1:
    cdef Span span = empty_span()
    cdef Status status
    cdef Py_ssize_t i
    for i in range(count):
        add_to_span(&self.store, &slots[i].key, &span)
    begin_span(&self.store, &span)
    status = keep_several(&self.store, slots, count, &span)
    leave_span(&self.store, &span)
    if status != OK:
        fail(status)
    return 0


cdef inline object spend(Counters self, int kind, object key, object limit, object seconds, object cost, object burst):
    """One hit on one limit: what fixed_window, sliding_window and gcra share."""
    cdef Key k
    cdef Step step
    cdef Quota quota
    cdef Verdict verdict
    cdef Status status
    cdef int64_t cost_value
    as_key(key, &k)
    as_quota(kind, limit, seconds, cost, burst, &quota, &cost_value)
    if kind == COUNTER:
        begin_coarse(&self.store, &k, &step)
    else:  # these reckon with the time itself
        begin(&self.store, &k, &step)
    while True:
        status = rules.judge(&step.state, step.now_ns, &quota, cost_value, &verdict)
        if not asks_again(&step, status):
            break
    status = finish_verdict(&k, &step, status, verdict.result < 0 and verdict.result != NEVER)
    if status != OK and status != REFUSED:
        fail(status, "seconds", seconds, 0)
    return verdict.result


# ---- the store -------------------------------------------------------------------------------------------------------

@cython.no_gc_clear  # `clock` must outlive every step; and each possible cycle runs through some object's dict as well
cdef class Counters:
    """Counters(*, clock=None, max_keys=None, on_full='raise')
--

An in-process store of int64 counters, each with an optional deadline on the monotonic clock.

    clock: None for the system's monotonic clock, or a ManualClock. On Linux that is CLOCK_MONOTONIC: time asleep does
    not count. max_keys: at most so many entries, >= 1; None: as many as memory holds. on_full: when a full store needs
    room for a new key and finds no expired entry near, "raise" CapacityError, or "evict" one with a TTL: of a sample of
    16 the one that has consumed least, never one that last refused before one that did not.

    Keys are str or bytes ("k" and b"k" are one counter), at most 65,535 bytes. Numbers are int or have `__index__`;
    outside int64: OverflowError; bool, float, str and the like: TypeError. Times are such numbers or a timedelta in
    whole milliseconds; a deadline more than about 292 years ahead: ValueError. `seconds` and `milliseconds` arm a TTL
    only when none is running; `ex` and `px` set it on every call. Integer arguments and these errors are the same for
    every method. A call that raises has changed nothing.

    Every method is one atomic step with respect to all other threads and, unless its own text says otherwise, takes
    constant time.

    >>> counters = goblin.Counters()
    >>> counters.increx("rate:user42", 60)
    1
    """

    def __cinit__(self):
        self.clock = None
        self.given_up = {}
        self.told = {}
        if not init_store(&self.store):
            raise MemoryError()
        self.store.margin_ns = &system_margin_ns
        if GOB_SHARDS > 1 and enlist(&self.store) <= FEW_STORES:
            gob_defer_refcount(self)

    def __init__(self, *, clock=None, max_keys=None, on_full="raise"):
        cdef int64_t most = 0
        cdef uint64_t bound
        if clock is not None and not isinstance(clock, ManualClock):
            raise TypeError(f"clock must be None or a goblin.ManualClock, not {errors._type_name(type(clock))}")
        if max_keys is not None:
            as_int64(max_keys, "max_keys", &most)
            if most < 1:
                raise errors.below("max_keys", max_keys, 1)
        bound = <uint64_t>most
        if type(on_full) is not str or on_full not in ("raise", "evict"):
            raise ValueError(f"on_full={errors._shown(on_full)} (allowed: 'raise', 'evict')")
        if max_keys is None:
            bound = UINT64_MAX
        if self.initialised:
            if clock is not self.clock or bound != self.max_keys or (on_full == "evict") != self.store.evicts:
                raise ValueError("a store keeps its clock, max_keys and on_full: __init__ was called again with others")
            return
        if clock is not None:
            if in_use(&self.store):
                raise ValueError("clock: that of a store in use cannot be changed")
            self.clock = clock
            self.store.manual_ns = &(<ManualClock>clock).reading_ns
            self.store.margin_ns = &no_margin_ns
            if (<ManualClock>clock).lag_ns != NO_COARSE:
                self.store.margin_ns = &manual_margin_ns
                self.store.coarse_lag_ns = (<ManualClock>clock).lag_ns
        bound_store(&self.store, bound)
        self.max_keys = bound
        self.store.evicts = on_full == "evict"
        self.initialised = True

    def __dealloc__(self):
        if GOB_SHARDS > 1:
            strike_off(&self.store)
        free_store(&self.store)

    def __reduce__(self):
        raise TypeError(
            f"{errors._type_name(type(self))} cannot be copied or pickled; its contents can: see items()")

    def __bool__(self):
        return True  # a store is not its contents

    def __repr__(self):
        count = len(self)
        return f"<goblin.{errors._type_name(type(self))}: {count} key{'' if count == 1 else 's'}>"

    # ---- the two headline commands, and their kin

    def increx(self, key, seconds):
        """Add one and return the new value; the first hit opens a window of `seconds`: the fixed-window rate limiter.

        The TTL is armed when the result is 1 and no TTL is running; a running one is never touched. A non-positive
        `seconds` that would be armed removes the key at once (the reply is still 1). At 2**63-1: OverflowError.
        Source: GOBLIN.INCREX.

        >>> [counters.increx("login:ann", 60) <= 2 for attempt in range(3)]
        [True, True, False]
        """
        cdef Key k
        cdef Duration ttl
        as_key(key, &k)
        as_duration(seconds, "seconds", NS_PER_SECOND, &ttl)
        return count_and_arm(self, &k, &ttl, "seconds", seconds)

    def pincrex(self, key, milliseconds):
        """`increx` with the window in milliseconds.

        >>> counters.pincrex("burst:ann", 250)
        1
        """
        cdef Key k
        cdef Duration ttl
        as_key(key, &k)
        as_duration(milliseconds, "milliseconds", NS_PER_MS, &ttl)
        return count_and_arm(self, &k, &ttl, "milliseconds", milliseconds)

    def incrbound(self, key, delta, max, *, seconds=None):
        """Add `delta` if the exact sum is at most `max`, and return the new value; else -1, and nothing has changed.

        An absent key counts as 0. A negative `delta` gives back. Any TTL is kept; `seconds` arms one when none is
        running (an admitted call only), which makes a quota with a period. An admitted result can be -1 itself where
        values may be negative: compare with -1, never by truth. A sum below -2**63: OverflowError.
        Source: GOBLIN.INCRBOUND.

        >>> [counters.incrbound("seats", 2, 5) for reservation in range(3)]
        [2, 4, -1]
        """
        cdef Key k
        cdef Step step
        cdef Status status
        cdef int64_t delta_value, bound, deadline_ns = GOB_NO_DEADLINE
        cdef Duration ttl
        as_key(key, &k)
        as_int64(delta, "delta", &delta_value)
        as_int64(max, "max", &bound)
        ttl.ns = 0
        if seconds is not None:
            as_duration(seconds, "seconds", NS_PER_SECOND, &ttl)
            if not ttl.fits:
                fail(BAD_TIME, "seconds", seconds)
        begin_coarse(&self.store, &k, &step)
        while True:
            status = OK if seconds is None else rules.deadline_after(step.now_ns, ttl.ns, &deadline_ns)
            if status == OK:
                status = rules.add_within(&step.state, delta_value, bound)
                if status == OK:
                    rules.arm_if_idle(&step.state, deadline_ns)
            if not asks_again(&step, status):
                break
        status = finish_verdict(&k, &step, status, status == REFUSED)
        if status == OK:
            return step.state.value
        if status == REFUSED:
            return -1
        fail(status, "seconds", seconds)

    def decrpos(self, key):
        """Take one unit if the value is positive and return what is left; else -1, and nothing has changed.

        At 0 the key stays, with its TTL. Source: GOBLIN.DECRPOS.

        >>> counters.set("stock", 1)
        True
        >>> counters.decrpos("stock"), counters.decrpos("stock")
        (0, -1)
        """
        cdef Key k
        cdef Step step
        cdef Status status
        as_key(key, &k)
        begin_coarse(&self.store, &k, &step)
        while True:
            status = rules.take_one(&step.state)
            if not asks_again(&step, status):
                break
        status = finish_verdict(&k, &step, status, status == REFUSED)
        if status == OK:
            return step.state.value
        if status == REFUSED:
            return -1
        fail(status)

    # ---- the INCR family

    def incr(self, key, amount=1, *, ex=None, px=None):
        """Add `amount` and return the new value. An absent key counts as 0.

        The TTL is kept, unless `ex` (seconds) or `px` (milliseconds), both positive, set it. A sum outside int64:
        OverflowError. Source: INCR, INCRBY.

        >>> counters.incr("hits"), counters.incr("hits", 10)
        (1, 11)
        """
        return add_or_subtract(self, key, amount, ex, px, rules.add)

    def incrby(self, key, amount=1, *, ex=None, px=None):
        """The same as `incr`. Source: INCRBY.

        >>> counters.incrby("score", 5)
        5
        """
        return add_or_subtract(self, key, amount, ex, px, rules.add)

    def decr(self, key, amount=1, *, ex=None, px=None):
        """Subtract `amount`; otherwise as `incr`. An amount of -2**63 always overflows. Source: DECR, DECRBY.

        >>> counters.decr("lives")
        -1
        """
        return add_or_subtract(self, key, amount, ex, px, rules.subtract)

    def decrby(self, key, amount=1, *, ex=None, px=None):
        """The same as `decr`. Source: DECRBY.

        >>> counters.decrby("budget", 5)
        -5
        """
        return add_or_subtract(self, key, amount, ex, px, rules.subtract)

    # ---- rate limits: >= 0 is what remains after this hit, < 0 minus the nanoseconds until it can pass, or NEVER

    def fixed_window(self, key, limit, seconds, cost=1):
        """A hit of `cost` on a window of `seconds` that runs from its first hit and admits `limit`.

        Returns what remains (>= 0), or minus the nanoseconds until the same hit can pass, or `goblin.NEVER`: compare
        with 0, never by truth. The entry is an ordinary counter. A refused hit changes nothing; cost 0 only looks.
        limit, cost: integers >= 0; seconds: an int, a float (to the nearest nanosecond) or a timedelta, > 0, or None
        for a count that never ends. Errors as for every method; a key of another algorithm: WrongTypeError.

        >>> [counters.fixed_window("api:ann", 2, 60) >= 0 for hit in range(3)]
        [True, True, False]
        """
        return spend(self, COUNTER, key, limit, seconds, cost, None)

    def sliding_window(self, key, limit, seconds, cost=1):
        """A hit on a sliding-window counter: the previous window counts by the part of it still within `seconds`.

        Results and arguments as for `fixed_window`; limit at most 2**31-1; `seconds` is never None.

        >>> [counters.sliding_window("api:bob", 2, 60) >= 0 for hit in range(3)]
        [True, True, False]
        """
        return spend(self, SLIDING_WINDOW, key, limit, seconds, cost, None)

    def gcra(self, key, limit, seconds, cost=1, *, burst=None):
        """A hit on a token bucket that holds `burst` (default: `limit`) and refills `limit` every `seconds`, smoothly.

        Never more than burst + limit x t / seconds in any stretch of t seconds. Results and arguments as for
        `fixed_window`; burst: an integer >= 1; `seconds` is never None.

        >>> [counters.gcra("api:eve", 60, 60, burst=2) >= 0 for hit in range(3)]
        [True, True, False]
        """
        return spend(self, GCRA, key, limit, seconds, cost, burst)

    def type(self, key):
        """What the entry is: "counter", "sliding-window", "gcra", or None where the key is absent. Source: TYPE.

        >>> remaining = counters.gcra("api:eve", 5, 60)
        >>> counters.type("api:eve"), counters.type("absent")
        ('gcra', None)
        """
        cdef Key k
        cdef Step step
        as_key(key, &k)
        begin(&self.store, &k, &step)
        leave(&step)
        if not step.state.exists:
            return None
        return "counter" if step.state.kind == COUNTER else "gcra" if step.state.kind == GCRA else "sliding-window"

    # ---- the Store protocol: what RateLimiter and the decorators use (see store.py)

    def decide(self, entries, cost=1, mode="hit", *, max_wait_ns=None):
        """One hit of `cost` on several limits, all or nothing in one step.

        entries: (key, quota) pairs, a quota being (algorithm, amount, period_ns, burst) with "fixed-window",
        "sliding-window" or "gcra", period_ns None for a count that never ends, burst None for the amount. mode: "hit";
        "peek", which spends nothing; or "reserve" (gcra), which takes the first instant that all admit, if that is at
        most `max_wait_ns` away. Returns (verdict, remaining, reset_ns, index, at_ns, stamps): the verdict as of the
        single calls, the least that remains, the time until the deciding limit's whole quota would pass (-1: never),
        which limit decided, when the hit counts, and a stamp per entry for `refund` and `unreserve`, or None if nothing
        was spent. Cost in proportion to the number of entries.

        >>> counters.decide([("m", ("fixed-window", 2, 60 * 10**9, None)), ("h", ("gcra", 9, 3600 * 10**9, None))])[0]
        1
        """
        return decide_entries(&self.store, self.told, entries, cost, mode, max_wait_ns)

    def refund(self, stamps, cost):
        """Give back what a hit of `cost` still weighs, each limit by itself, in one step. Whether anything was.

        >>> hit = counters.decide([("n", ("fixed-window", 2, None, None))])
        >>> counters.refund(hit[-1], 1), counters.get("n")
        (True, 0)
        """
        return refund_stamps(&self.store, self.told, stamps, cost)

    def unreserve(self, stamps):
        """Give up a reservation: each entry goes back, unless somebody has reserved behind it since.

        >>> entry = [("w", ("gcra", 1, 10**9, None))]
        >>> taken, waits = counters.decide(entry, 1, "reserve"), counters.decide(entry, 1, "reserve")
        >>> counters.unreserve(waits[-1])
        """
        unreserve_stamps(&self.store, self.given_up, self.told, stamps)

    def now_ns(self):
        """The store's clock, nanoseconds: never less than any reading before.

        >>> goblin.Counters(clock=goblin.ManualClock(5)).now_ns()
        5
        """
        cdef int64_t now_ns
        lock(&self.store.shards[0])
        now_ns = read_clock(&self.store.shards[0])
        unlock(&self.store.shards[0])
        return now_ns

    # ---- reading and writing

    def get(self, key, default=None):
        """The value as an int, or `default` where the key is absent. Source: GET.

        >>> counters.get("absent", 0)
        0
        """
        cdef Key k
        cdef Step step
        as_key(key, &k)
        begin_coarse(&self.store, &k, &step)
        asks_again(&step, OK if step.state.kind == COUNTER else WRONG_KIND)
        leave(&step)
        if GOB_UNLIKELY(step.state.kind != COUNTER):
            fail(WRONG_KIND)
        return step.state.value if step.state.exists else default

    def set(self, key, value, *, ex=None, px=None, keepttl=False, nx=False, xx=False, get=False):
        """Set the value: True, or False where `nx` (only if absent) or `xx` (only if present) refused.

        value: an integer, or a str or bytes in canonical base-10 form. `ex` (seconds) or `px` (milliseconds), both
        positive, set a TTL; `keepttl` keeps the running one; otherwise the TTL is dropped. With `get` the reply is the
        old value or None, stored or not. Conflicting options: ValueError. Source: SET.

        >>> counters.set("k", "10", ex=60), counters.set("k", 11, nx=True), counters.set("k", 12, get=True)
        (True, False, 10)
        """
        cdef Key k
        cdef Step step
        cdef State old
        cdef Status status = OK
        cdef int64_t new_value, deadline_ns = GOB_NO_DEADLINE
        cdef Duration ttl
        cdef bint timed, keep_ttl, only_absent, only_present, want_old
        as_key(key, &k)
        as_value(value, "value", &new_value)
        timed = as_expiry(ex, px, &ttl)
        keep_ttl, only_absent, only_present, want_old = keepttl, nx, xx, get
        if only_absent and only_present:
            raise errors.conflict("nx", "xx")
        if timed and keep_ttl:
            raise errors.conflict("keepttl", "px" if ex is None else "ex")
        judge_expiry(ex, px, &ttl)
        if self.given_up:
            forget(self, (key,))
        begin(&self.store, &k, &step)
        old = step.state
        if timed:
            status = rules.deadline_after(step.now_ns, ttl.ns, &deadline_ns)
        if status == OK:
            if (keep_ttl or want_old) and old.kind != COUNTER:
                status = WRONG_KIND
            elif (only_absent and old.exists) or (only_present and not old.exists):
                status = REFUSED
            else:
                rules.put(&step.state, new_value)
                if not keep_ttl:
                    rules.set_deadline(&step.state, deadline_ns)
        status = finish(&k, &step, status)
        if status == BAD_TIME:
            raise_bad_expiry(ex, px)
        if status != OK and status != REFUSED:
            fail(status)
        if want_old:
            return old.value if old.exists else None
        return status == OK

    def getset(self, key, value):
        """Set the value and drop the TTL; returns the old value or None. Source: GETSET.

        >>> counters.getset("page", 0) is None
        True
        """
        cdef Key k
        cdef Step step
        cdef State old
        cdef Status status
        cdef int64_t new_value
        as_key(key, &k)
        as_value(value, "value", &new_value)
        begin(&self.store, &k, &step)
        old = step.state
        rules.put(&step.state, new_value)
        rules.set_deadline(&step.state, GOB_NO_DEADLINE)
        status = finish(&k, &step, OK if old.kind == COUNTER else WRONG_KIND)
        if status != OK:
            fail(status)
        return old.value if old.exists else None

    def getdel(self, key):
        """Remove the key; returns its value or None. Source: GETDEL.

        >>> counters.incr("once"), counters.getdel("once"), counters.getdel("once")
        (1, 1, None)
        """
        cdef Key k
        cdef Step step
        cdef State old
        cdef Status status
        as_key(key, &k)
        begin(&self.store, &k, &step)
        old = step.state
        step.state.exists = False
        status = finish(&k, &step, OK if old.kind == COUNTER else WRONG_KIND)
        if status != OK:
            fail(status)
        return old.value if old.exists else None

    def getex(self, key, *, ex=None, px=None, persist=False):
        """The value or None, and set its TTL to `ex` seconds or `px` milliseconds (positive), or `persist` it.

        Without an option it is `get`. Conflicting options: ValueError. Source: GETEX.

        >>> counters.getex("absent", ex=60) is None
        True
        """
        cdef Key k
        cdef Step step
        cdef Status status = OK
        cdef int64_t deadline_ns = GOB_NO_DEADLINE
        cdef Duration ttl
        cdef bint timed, drop_ttl
        as_key(key, &k)
        timed = as_expiry(ex, px, &ttl)
        drop_ttl = persist
        if timed and drop_ttl:
            raise errors.conflict("persist", "px" if ex is None else "ex")
        judge_expiry(ex, px, &ttl)
        begin(&self.store, &k, &step)
        if timed:
            status = rules.deadline_after(step.now_ns, ttl.ns, &deadline_ns)
        if status == OK and step.state.kind != COUNTER:
            status = WRONG_KIND
        if status == OK and not (step.state.exists and (timed or drop_ttl)):
            status = REFUSED  # nothing to write
        if status == OK:
            rules.set_deadline(&step.state, deadline_ns)
        status = finish(&k, &step, status)
        if status == BAD_TIME:
            raise_bad_expiry(ex, px)
        if status == WRONG_KIND:
            fail(status)
        return step.state.value if step.state.exists else None

    def mget(self, *keys):
        """The values of several keys, or of one iterable of keys, as a list with None for absent ones.

        One atomic step; time in proportion to the number of keys. Source: MGET.

        >>> counters.set("a", 1)
        True
        >>> counters.mget("a", "b"), counters.mget(["a"])
        ([1, None], [1])
        """
        cdef Key *array
        cdef Step step
        cdef Span span
        cdef State *found
        cdef Py_ssize_t i, count
        if len(keys) == 1 and not isinstance(keys[0], (str, bytes)):
            try:
                iterator = iter(keys[0])
            except TypeError:
                raise errors.not_a_key(keys[0]) from None
            keys = tuple(iterator)
        count = len(keys)
        array = as_keys(keys)
        found = <State *>PyMem_Malloc((<size_t>count + 1) * sizeof(State))
        try:
            if found == NULL:
                raise MemoryError()
            begin_keys(&self.store, array, count, &span)
            for i in range(count):
                look_up(&self.store, &array[i], &span, &step)
                found[i] = step.state
            leave_span(&self.store, &span)
            values = [found[i].value if found[i].exists and found[i].kind == COUNTER else None for i in range(count)]
        finally:
            PyMem_Free(found)
            PyMem_Free(array)
        return values

    def mset(self, mapping):
        """Set several counters and drop their TTLs, all or none. Values as for `set`.

        mapping: anything with `items()`. Of one counter under two spellings the last wins. One atomic step; time in
        proportion to the number of keys. Source: MSET.

        >>> counters.mset({"apples": 3, "pears": "5"})
        """
        cdef Slot *slots
        cdef Py_ssize_t i, count
        cdef int64_t value
        cdef list pairs
        try:
            items = mapping.items
        except AttributeError:
            raise TypeError(
                f"mset takes a mapping of keys to values, not {errors._type_name(type(mapping))}") from None
        pairs = [(k, v) for k, v in items()]  # holds the keys that the slots point into
        count = len(pairs)
        slots = <Slot *>PyMem_Malloc((<size_t>count + 1) * sizeof(Slot))
        if slots == NULL:
            raise MemoryError()
        try:
            for i in range(count):
                as_key((<tuple>pairs[i])[0], &slots[i].key)
                as_value((<tuple>pairs[i])[1], "value", &value)
                slots[i].state = rules.absent()
                rules.put(&slots[i].state, value)
            if self.given_up:
                forget(self, [pair[0] for pair in pairs])
            store_several(self, slots, count)
        finally:
            PyMem_Free(slots)

    # ---- keys

    def delete(self, *keys):
        """Remove keys; returns how many were there. One atomic step, in proportion to their number. Source: DEL.

        >>> counters.delete("absent")
        0
        """
        cdef Key *array = as_keys(keys)
        cdef Step step
        cdef Span span
        cdef Py_ssize_t i, removed = 0
        if self.given_up:
            forget(self, keys)
        begin_keys(&self.store, array, len(keys), &span)
        for i in range(len(keys)):
            look_up(&self.store, &array[i], &span, &step)
            removed += step.state.exists
            step.state.exists = False
            keep(&array[i], &step)
        leave_span(&self.store, &span)
        PyMem_Free(array)
        return removed

    def exists(self, *keys):
        """How many of the keys are there, one named twice counted twice. One atomic step. Source: EXISTS.

        >>> counters.exists("absent")
        0
        """
        cdef Key *array = as_keys(keys)
        cdef Step step
        cdef Span span
        cdef Py_ssize_t i, present = 0
        begin_keys(&self.store, array, len(keys), &span)
        for i in range(len(keys)):
            look_up(&self.store, &array[i], &span, &step)
            present += step.state.exists
        leave_span(&self.store, &span)
        PyMem_Free(array)
        return present

    # ---- TTLs

    def expire(self, key, seconds, *, nx=False, xx=False, gt=False, lt=False):
        """Set the TTL: True, or False where a flag refused or the key is absent.

        nx: only if no TTL is running; xx: only if one is; gt, lt: only if the new one is later, earlier (no TTL
        counts as infinite). A non-positive time removes the key. nx with another flag, gt with lt: ValueError.
        Source: EXPIRE.

        >>> counters.incr("session"), counters.expire("session", 60), counters.expire("session", 30, gt=True)
        (1, True, False)
        """
        cdef Key k
        cdef Duration ttl
        as_key(key, &k)
        as_duration(seconds, "seconds", NS_PER_SECOND, &ttl)
        return set_ttl(self, &k, &ttl, "seconds", seconds, nx, xx, gt, lt)

    def pexpire(self, key, milliseconds, *, nx=False, xx=False, gt=False, lt=False):
        """`expire` in milliseconds. Source: PEXPIRE.

        >>> counters.pexpire("absent", 1500)
        False
        """
        cdef Key k
        cdef Duration ttl
        as_key(key, &k)
        as_duration(milliseconds, "milliseconds", NS_PER_MS, &ttl)
        return set_ttl(self, &k, &ttl, "milliseconds", milliseconds, nx, xx, gt, lt)

    def persist(self, key):
        """Drop the TTL: True, or False where there is none. Source: PERSIST.

        >>> counters.persist("absent")
        False
        """
        cdef Key k
        cdef Step step
        cdef Status status = REFUSED
        as_key(key, &k)
        begin(&self.store, &k, &step)
        if step.state.kind != COUNTER:
            status = WRONG_KIND
        elif step.state.exists and step.state.deadline_ns != GOB_NO_DEADLINE:
            rules.set_deadline(&step.state, GOB_NO_DEADLINE)
            status = OK
        status = finish(&k, &step, status)
        if status == WRONG_KIND:
            fail(status)
        return status == OK

    def ttl(self, key):
        """Seconds left, rounded half up; -1 without a TTL, -2 where the key is absent. Source: TTL.

        0 means alive with under half a second left: never test it by truth.

        >>> counters.ttl("absent")
        -2
        """
        cdef int64_t ms = ms_left(self, key)
        return (ms + 500) // 1000 if ms >= 0 else ms

    def pttl(self, key):
        """Milliseconds left, rounded up, so at least 1; -1 without a TTL, -2 where the key is absent. Source: PTTL.

        >>> counters.pttl("absent")
        -2
        """
        return ms_left(self, key)

    # ---- the store as a container

    def __len__(self):
        """Entries stored, expired ones not yet reclaimed included."""
        return <Py_ssize_t>count_entries(&self.store)

    def __contains__(self, key):
        cdef Key k
        cdef Step step
        as_key(key, &k)
        begin_coarse(&self.store, &k, &step)
        leave(&step)
        return step.state.exists

    def __getitem__(self, key):
        cdef Key k
        cdef Step step
        as_key(key, &k)
        begin_coarse(&self.store, &k, &step)
        asks_again(&step, OK if step.state.kind == COUNTER else WRONG_KIND)
        leave(&step)
        if not step.state.exists:
            raise KeyError(key)
        if step.state.kind != COUNTER:
            fail(WRONG_KIND)
        return step.state.value

    def __setitem__(self, key, value):
        # Cython defines the slot along with __delitem__, and would answer with NotImplementedError.
        raise TypeError("item assignment is not supported: use set(), which says what becomes of the TTL")

    def __delitem__(self, key):
        cdef Key k
        cdef Step step
        cdef bint present
        as_key(key, &k)
        if self.given_up:
            forget(self, (key,))
        begin(&self.store, &k, &step)
        present = step.state.exists
        step.state.exists = False
        finish(&k, &step, OK)
        if not present:
            raise KeyError(key)

    def __iter__(self):
        return scan(self, &self.store, None, False)

    def scan_iter(self, match=None):
        """Iterate over the keys that match a glob in Redis' form: ? * [abc] [^abc] [a-z] and \\ to quote.

        match: str or bytes, compared byte by byte; None: every key. A key present from start to end comes exactly
        once, whatever is added or removed meanwhile. Atomic a segment (about 3,200 keys) at a time. Source: SCAN.

        >>> counters.mset({"rate:ann": 1, "rate:bob": 2, "quota:ann": 3})
        >>> sorted(counters.scan_iter("rate:*"))
        ['rate:ann', 'rate:bob']
        """
        return scan(self, &self.store, as_pattern(match), False)

    def items(self):
        """Iterate over (key, value); otherwise as `scan_iter`.

        >>> dict(goblin.Counters().items())
        {}
        """
        return scan(self, &self.store, None, True)

    def most_common(self, n=None):
        """The n counters of highest value as a list of (key, value), highest first; all of them if n is None.

        Ties come in no order. Atomic a segment at a time; time in proportion to the store.

        >>> votes = goblin.Counters()
        >>> votes.mset({"ann": 3, "bob": 5, "eve": 1})
        >>> votes.most_common(2)
        [('bob', 5), ('ann', 3)]
        """
        cdef Py_ssize_t count
        if n is None:
            return sorted(self.items(), key=itemgetter(1), reverse=True)
        count_of(n, "n", &count)
        return heapq.nlargest(count, self.items(), key=itemgetter(1))

    def sweep(self):
        """Reclaim every expired entry now; returns how many. Seldom needed: commands do it as they go.

        Time in proportion to the store, in one step.

        >>> counters.sweep()
        0
        """
        cdef uint64_t removed = 0, count
        cdef uint32_t i
        lock_all(&self.store)
        for i in range(self.store.shard_mask + 1):
            count = gob_table_sweep_all(&self.store.shards[i].table, read_clock(&self.store.shards[i]))
            self.store.shards[i].reclaimed += count
            removed += count
        unlock_all(&self.store)
        return removed

    def clear(self):
        """Remove every key and give the memory back. Time in proportion to the store, in one step. Source: FLUSHALL.

        >>> counters.clear()
        """
        cdef uint32_t i
        forget_everything(&self.store, self.given_up, self.told)
        lock_all(&self.store)
        for i in range(self.store.shard_mask + 1):
            gob_table_clear(&self.store.shards[i].table)
        unlock_all(&self.store)

    def stats(self):
        """What the store holds, as a `Stats` tuple: keys, slots, memory_bytes, expired, evicted.

        >>> goblin.Counters().stats().keys
        0
        """
        cdef uint64_t count = 0, slots = 0, memory_bytes = 0, reclaimed = 0, evicted = 0
        cdef uint32_t i
        lock_all(&self.store)
        for i in range(self.store.shard_mask + 1):
            count += self.store.shards[i].table.count
            slots += self.store.shards[i].table.slots
            memory_bytes += self.store.shards[i].table.bytes
            reclaimed += self.store.shards[i].reclaimed
            evicted += self.store.shards[i].evicted
        unlock_all(&self.store)
        return Stats(count, slots, memory_bytes, reclaimed, evicted)

    def _sliding_counts(self, key, seconds):
        """(previous count, current count, nanoseconds to the end of the current window), in one step; absent: zeros.

        For storages of other libraries, which hand both counts out; a look at the limit itself is `decide(..., "peek")`.
        """
        cdef Key k
        cdef Step step
        cdef Quota quota
        cdef int64_t cost_value, previous = 0, current = 0, end_ns
        as_key(key, &k)
        as_quota(SLIDING_WINDOW, 1, seconds, 0, None, &quota, &cost_value)
        begin(&self.store, &k, &step)
        leave(&step)
        if not step.state.exists:
            return 0, 0, 0
        if step.state.kind != SLIDING_WINDOW:
            fail(WRONG_KIND)
        rules.windows_of(&step.state, step.now_ns, quota.period_ns, &previous, &current, &end_ns)
        return previous, current, end_ns - step.now_ns

    def _check(self):
        """Verify every invariant of the map, for tests. AssertionError: it names the broken one."""
        cdef const char *broken = NULL
        cdef uint32_t i
        lock_all(&self.store)
        for i in range(self.store.shard_mask + 1):
            if broken == NULL:
                broken = gob_table_check(&self.store.shards[i].table)
        unlock_all(&self.store)
        if broken != NULL:
            raise AssertionError((<bytes>broken).decode())

    def _pretend_coarse_lag(self, lag_ns):
        """From here on the system's coarse clock lags by so much more for this store, for tests."""
        as_int64(lag_ns, "lag_ns", &self.store.coarse_lag_ns)


# ---- hooks of debug builds (GOBLIN_DEBUG=1), for tests ---------------------------------------------------------------

def _allocations():
    """How many times the maps of all stores have asked for memory."""
    return gob_debug_allocations()


def _fail_allocation(n):
    """Let the n-th allocation from here on fail, once. 0: none."""
    cdef int64_t number
    as_int64(n, "n", &number)
    gob_debug_fail(number)


def _force_hash(hash):
    """Give this hash to every key from here on. None: its own again; stores filled meanwhile are then to be dropped."""
    cdef int64_t number = 0
    if hash is not None:
        as_int64(hash, "hash", &number)
    gob_debug_force_hash(hash is not None, <uint64_t>number)


if not GOB_DEBUGGING:
    del _allocations, _fail_allocation, _force_hash
