"""Decision, and the way of a hit through a RateLimiter: key encoded, limits judged in one step, Decision made.

The cold half of RateLimiter, its arguments and its waiting, is in limiter.py.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_Check
from libc.math cimport INFINITY, nextafter
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from goblin import errors
from goblin._args cimport as_int64, gob_hash_buffer, gob_seconds_to_ns
from goblin._core cimport Counters
from goblin._decide cimport ADMIT, HIT, PEEK, Mode, Outcome, decide, give_back, mark_of
from goblin._keys cimport exact_part
from goblin._reservations cimport skip_told
from goblin._rules cimport (
    BAD_TIME, COUNTER, FOREVER, GCRA, NEVER, NO_ROOM, OK, SLIDING_WINDOW, WRONG_KIND, Quota, State, Status,
    horizon_of,
)
from goblin._step cimport Slot
from goblin._table cimport GOB_KEY_MAX
from goblin.store import check_store

cdef enum:
    FEW_LIMITS = 4      # that many limits, with keys that fit below, need no allocation
    FEW_BYTES = 512


# ---- the default store -----------------------------------------------------------------------------------------------

cdef list default_box = [None]  # in a list, since a C variable of Python's must not be replaced while another thread reads it

DEFAULT_MAX_KEYS = 1_000_000  # some 100 MB of limiters' keys: a flood of them must not take a process down


def default_store():
    """The store that limiters and decorators use where none was named: one per process, made at first use.

    So a limit on it applies per process: with four worker processes up to four times as much passes in all. It holds
    at most 1,000,000 keys, and evicts when it is full.

    >>> goblin.default_store() is goblin.default_store()
    True
    """
    store = default_box[0]
    if store is None:
        made = Counters(max_keys=DEFAULT_MAX_KEYS, on_full="evict")
        # Two threads that come first at once must not count in two stores. No lock: a fork might find it held.
        with cython.critical_section(default_box):
            store = default_box[0]
            if store is None:
                store = default_box[0] = made
    return store


def set_default_store(store):
    """Put another store under the default, or with None let a new one be made; returns the one before, or None.

    store: a `Counters`, or anything with the five verbs of the Store protocol. Limiters look it up at every call.

    >>> before = goblin.set_default_store(goblin.Counters())
    """
    if store is not None:
        check_store(store)
    with cython.critical_section(default_box):
        before = default_box[0]
        default_box[0] = store
    return before


cdef inline bint is_core(object store):
    """Whether the C way may be taken: a Counters whose decide() nobody has overridden."""
    return type(store) is Counters or (isinstance(store, Counters) and type(store).decide is Counters.decide)


# ---- seconds ---------------------------------------------------------------------------------------------------------

cdef object seconds_of(int64_t ns):
    """As a float, rounded up so that turned back to nanoseconds it is never short. FOREVER: inf."""
    cdef double seconds = <double>ns / 1e9
    cdef int64_t back
    if ns == FOREVER:
        return INFINITY
    while gob_seconds_to_ns(seconds, &back) and back < ns:
        seconds = nextafter(seconds, INFINITY)
    return seconds


# ---- what a hit got --------------------------------------------------------------------------------------------------

@cython.final
@cython.freelist(16)
cdef class Decision:
    """What a hit on a limiter got; truthy when it was allowed. Immutable, comparable, picklable.

    limit: the `Limit` that decided: of several the one with the longest wait, or the least left. remaining: how many
    hits of cost 1 would still pass. key and cost are the hit's, algorithm and name its limiter's. The right to refund
    lives in the one object that `hit` or `acquire` returned: it is not compared, pickled or copied.
    """
    cdef readonly object limit
    cdef readonly object key
    cdef readonly int64_t cost
    cdef readonly int64_t remaining
    cdef readonly str algorithm
    cdef readonly str name
    cdef int64_t wait_ns   # 0: allowed; FOREVER: never
    cdef int64_t reset_ns  # FOREVER: never
    # The right to refund: who and where; what is known of the hit, an int for one limit or a tuple; None once used.
    cdef object limiter
    cdef object store
    cdef object marks

    def __init__(self):
        raise TypeError("a Decision is made by a RateLimiter")

    @property
    def allowed(self):
        """Whether the hit passed."""
        return self.wait_ns == 0

    @property
    def retry_after(self):
        """Seconds until the same hit can pass: 0.0 when allowed, inf for never. Rounded up, so never too early."""
        return seconds_of(self.wait_ns)

    @property
    def reset_after(self):
        """Seconds until a hit of the whole quota of `limit` would pass; inf for never."""
        return seconds_of(self.reset_ns)

    def headers(self, *, legacy=False):
        """HTTP fields as a dict: RateLimit-Policy and RateLimit (draft-ietf-httpapi-ratelimit-headers-11).

        On a refusal also Retry-After, in whole seconds, rounded up, at least 1, unless the hit can never pass. Only
        the deciding limit, named by the limiter's name or "default"; never the key. `legacy`: the X-RateLimit-* trio
        as well, its Reset in epoch seconds.

        >>> goblin.RateLimiter("5/minute", store=goblin.Counters()).hit("ann").headers()["RateLimit-Policy"]
        '"default";q=5;w=60'
        """
        from goblin.limiter import decision_headers

        return decision_headers(self, legacy)

    def __bool__(self):
        return self.wait_ns == 0

    cdef tuple fields(self):
        return (self.limit, self.key, self.cost, self.remaining, self.algorithm, self.name, self.wait_ns, self.reset_ns)

    def __eq__(self, other):
        if not isinstance(other, Decision):
            return NotImplemented
        return self.fields() == (<Decision>other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __reduce__(self):
        return restore_decision, self.fields()

    def __copy__(self):
        return restore_decision(*self.fields())

    def __deepcopy__(self, memo):
        return restore_decision(*self.fields())

    def __repr__(self):
        if self.wait_ns == 0:
            what = f"allowed, {self.remaining} remaining"
        elif self.wait_ns == FOREVER:
            what = "refused for good"
        else:
            what = f"refused, retry after {errors.seconds_text(self.retry_after)} s"
        return f"<goblin.Decision: {what}, limit {str(self.limit)!r}, key {self.key!r}>"


def restore_decision(limit, key, int64_t cost, int64_t remaining, str algorithm, str name, int64_t wait_ns,
                     int64_t reset_ns):
    """A Decision of these fields, without the right to refund: for pickle and copy."""
    cdef Decision decision = Decision.__new__(Decision)
    decision.limit, decision.key, decision.cost, decision.remaining = limit, key, cost, remaining
    decision.algorithm, decision.name, decision.wait_ns, decision.reset_ns = algorithm, name, wait_ns, reset_ns
    return decision


RETRY_UNKNOWN_NS = 1_000_000_000  # what a refusal says that no store has judged: Retry-After has whole seconds


# ---- the limiter -----------------------------------------------------------------------------------------------------

cdef class LimiterCore:
    """The hot half of RateLimiter."""
    cdef readonly tuple limits      # of Limit, equal ones once
    cdef readonly str algorithm
    cdef readonly str name
    cdef readonly object store      # None: the default store, looked up at every call
    cdef object fallback            # what `on_error` says instead of "raise": "allow", "deny", a Counters; else None
    cdef Py_ssize_t count
    cdef Quota *quotas
    cdef tuple prefixes             # what the keys begin with, a bytes object per limit, up to and with the brace
    cdef Py_ssize_t prefix_bytes    # of all together

    def __dealloc__(self):
        PyMem_Free(self.quotas)

    def _set_up(self, tuple limits not None, str algorithm not None, store, str name not None, tuple prefixes not None,
                fallback):
        """Once, by RateLimiter.__init__, with arguments already judged."""
        cdef Py_ssize_t i
        cdef int kind = GCRA if algorithm == "gcra" else SLIDING_WINDOW if algorithm == "sliding-window" else COUNTER
        cdef Quota *quotas
        if self.quotas != NULL:
            raise TypeError("a RateLimiter is set up once")
        quotas = <Quota *>PyMem_Malloc(len(limits) * sizeof(Quota))
        if quotas == NULL:
            raise MemoryError()
        for i in range(len(limits)):
            quotas[i].kind = kind
            quotas[i].amount = limits[i].amount
            quotas[i].period_ns = limits[i].period_ns or 0
            quotas[i].burst = limits[i].amount if limits[i].burst is None else limits[i].burst
            quotas[i].horizon_ns = horizon_of(&quotas[i])
        self.limits, self.algorithm, self.store, self.name, self.prefixes = limits, algorithm, store, name, prefixes
        self.prefix_bytes = sum([len(prefix) for prefix in prefixes])
        self.fallback = fallback
        self.count = len(limits)
        self.quotas = quotas

    @property
    def on_error(self):
        """What becomes of a hit when the store cannot be asked: "raise", "allow", "deny", or a local `Counters`."""
        return "raise" if self.fallback is None else self.fallback

    def hit(self, key, cost=1):
        """A hit of `cost` on every limit, all or nothing in one step: its `Decision`.

        key: str, bytes, int, or a tuple of those. cost: an integer >= 0; 0 only looks and is always allowed.

        >>> limiter = goblin.RateLimiter("2/minute")
        >>> [limiter.hit("ann").remaining for hit in range(2)], limiter.hit("ann").allowed
        ([1, 0], False)
        """
        if self.fallback is not None:
            return self._guarded(key, cost, HIT)
        return self._decide(default_store() if self.store is None else self.store, key, cost, HIT)

    def allow(self, key, cost=1):
        """`hit` as a bool, without making a Decision.

        >>> goblin.RateLimiter("1/minute", store=goblin.Counters()).allow("ann")
        True
        """
        cdef Outcome outcome
        cdef int64_t cost_value
        if self.fallback is not None:
            return bool(self._guarded(key, cost, HIT))
        store = default_store() if self.store is None else self.store
        if not is_core(store):
            return bool(self._decide_elsewhere(store, key, cost, "hit"))
        as_cost(cost, &cost_value)
        self._step(<Counters>store, key, cost_value, ADMIT, &outcome)
        return outcome.verdict.result >= 0

    def _refusal(self, key, cost=1):
        """A hit: None where it passes, its Decision where not. For decorators, which need no more."""
        cdef Outcome outcome
        cdef int64_t cost_value
        if self.fallback is not None:
            decision = self._guarded(key, cost, HIT)
            return None if decision else decision
        store = default_store() if self.store is None else self.store
        if not is_core(store):
            decision = self._decide_elsewhere(store, key, cost, "hit")
            return None if decision else decision
        as_cost(cost, &cost_value)
        self._step(<Counters>store, key, cost_value, ADMIT, &outcome)
        return None if outcome.verdict.result >= 0 else self._decided(key, cost_value, &outcome)

    def peek(self, key, cost=1):
        """What a hit of `cost` would get now; nothing is spent, and `remaining` is as it is now.

        >>> goblin.RateLimiter("5/minute", store=goblin.Counters()).peek("ann").remaining
        5
        """
        if self.fallback is not None:
            return self._guarded(key, cost, PEEK)
        return self._decide(default_store() if self.store is None else self.store, key, cost, PEEK)

    def reset(self, key):
        """Forget all of the key's entries, in one step; whether there were any.

        >>> goblin.RateLimiter("5/minute", store=goblin.Counters()).reset("ann")
        False
        """
        store = default_store() if self.store is None else self.store
        keys = self._keys(key)
        if isinstance(self.fallback, Counters) and self.fallback is not store:
            self.fallback.delete(*keys)
        return store.delete(*keys) > 0

    def refund(self, Decision decision not None):
        """Give back what the hit of this decision still weighs; True if anything was. Once, and for its own object.

        >>> limiter = goblin.RateLimiter("5/minute", store=goblin.Counters())
        >>> hit = limiter.hit("ann")
        >>> limiter.refund(hit), limiter.refund(hit), limiter.peek("ann").remaining
        (True, False, 5)
        """
        store, marks = self._take_right(decision)
        return marks is not None and self._give_back(store, marks, decision)

    def _take_right(self, Decision decision not None):
        """(store, what is known of the hit) of a decision that may be refunded, once; (None, None) from then on."""
        if decision.limiter is not self and decision.limiter is not None:
            raise ValueError("the decision was made by another limiter")
        with cython.critical_section(decision):  # of two threads one has the right
            marks, store = decision.marks, decision.store
            decision.limiter = decision.store = decision.marks = None
        return store, marks

    def _give_back(self, store, marks, Decision decision not None):
        if not is_core(store):
            return bool(store.refund(marks, decision.cost))
        return self._refund_core(<Counters>store, decision, marks)

    # ---- a store that cannot be asked

    cdef object _guarded(self, object key, object cost, Mode mode):
        """A hit or peek that does what `on_error` says."""
        cdef int64_t cost_value
        as_cost(cost, &cost_value)  # once: see _decide_elsewhere
        try:
            return self._decide(default_store() if self.store is None else self.store, key, cost_value, mode)
        except (errors.StoreError, errors.CapacityError):
            return self._instead(key, cost_value, mode == HIT)

    def _instead(self, key, int64_t cost, bint spend):
        """The Decision of a hit or peek that the store could not judge, where `on_error` is not "raise"."""
        if isinstance(self.fallback, Counters):
            return self._decide(self.fallback, key, cost, HIT if spend else PEEK)
        # Nothing is known: nothing that remains, and no time at which it comes back.
        wait_ns = 0 if self.fallback == "allow" else RETRY_UNKNOWN_NS
        return restore_decision(self.limits[0], key, cost, 0, self.algorithm, self.name, wait_ns, FOREVER)

    cdef object _decide(self, object store, object key, object cost, Mode mode):
        cdef Outcome outcome
        cdef int64_t cost_value
        cdef Decision decision
        if not is_core(store):
            return self._decide_elsewhere(store, key, cost, "hit" if mode == HIT else "peek")
        as_cost(cost, &cost_value)
        marks = self._step(<Counters>store, key, cost_value, mode, &outcome)
        decision = self._decided(key, cost_value, &outcome)
        if outcome.spent:
            decision.limiter = self
            decision.store = store
            decision.marks = marks
        return decision

    cdef Decision _decided(self, object key, int64_t cost, const Outcome *outcome):
        cdef Decision decision = Decision.__new__(Decision)
        decision.limit = self.limits[outcome.index]
        decision.key = key
        decision.cost = cost
        decision.algorithm = self.algorithm
        decision.name = self.name
        decision.remaining = outcome.verdict.remaining
        decision.reset_ns = outcome.reset_ns
        if outcome.verdict.result >= 0:
            decision.wait_ns = 0
        else:
            decision.wait_ns = FOREVER if outcome.verdict.result == NEVER else -outcome.verdict.result
        return decision

    cdef object _step(self, Counters store, object key, int64_t cost, Mode mode, Outcome *outcome):
        """Build the keys in place, decide; returns the marks of a HIT that was spent."""
        cdef Slot few_slots[FEW_LIMITS]
        cdef State few_before[FEW_LIMITS]
        cdef char few_bytes[FEW_BYTES]
        cdef Slot *slots = few_slots
        cdef State *before = few_before
        cdef char *buffer = few_bytes
        cdef Py_ssize_t length
        cdef const char *data
        cdef Status status
        cdef bytes part = None
        marks = None
        if PyUnicode_Check(key):
            data = PyUnicode_AsUTF8AndSize(key, &length)
        else:
            part = exact_part(key)
            data, length = PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part)
        if self.count > FEW_LIMITS or self.prefix_bytes + self.count * (length + 2) > FEW_BYTES:
            slots = <Slot *>PyMem_Malloc(self.count * sizeof(Slot))
            before = <State *>PyMem_Malloc(self.count * sizeof(State))
            buffer = <char *>PyMem_Malloc(self.prefix_bytes + self.count * (length + 2))
        try:
            if slots == NULL or before == NULL or buffer == NULL:
                raise MemoryError()
            self._fill(slots, buffer, part is None, data, length)
            status = decide(&store.store, slots, self.quotas, before, self.count, cost, mode, 0, outcome)
            if status != OK:
                self._fail(status, outcome.index)
            if mode == HIT and outcome.spent:
                if self.count == 1:
                    marks = mark_of(self.quotas, slots, outcome)
                else:
                    marks = tuple([mark_of(&self.quotas[i], &slots[i], outcome) for i in range(self.count)])
        finally:
            if slots != few_slots:
                PyMem_Free(slots)
                PyMem_Free(before)
                PyMem_Free(buffer)
        return marks

    cdef int _fill(self, Slot *slots, char *buffer, bint is_text, const char *data, Py_ssize_t length) except -1:
        """The limits' keys: prefix, form, key, closing brace."""
        cdef Py_ssize_t i, prefix_length, total
        cdef object prefix
        for i in range(self.count):
            prefix = self.prefixes[i]
            prefix_length = PyBytes_GET_SIZE(prefix)
            total = prefix_length + is_text + length + 1
            if total > GOB_KEY_MAX:
                raise errors.key_too_long(total)
            memcpy(buffer, PyBytes_AS_STRING(prefix), prefix_length)
            if is_text:
                buffer[prefix_length] = b"="
            memcpy(buffer + prefix_length + is_text, data, length)
            buffer[total - 1] = b"}"
            slots[i].key.data = buffer
            slots[i].key.length = total
            slots[i].key.hash = gob_hash_buffer(buffer, total)
            buffer += total
        return 0

    cdef int _fail(self, Status status, Py_ssize_t index) except -1:
        if status == WRONG_KIND:
            raise errors.WrongTypeError(errors.WRONG_KIND)
        if status == BAD_TIME:
            raise errors.bad_time("seconds", self.limits[index].seconds, 0)
        raise errors.no_place(status == NO_ROOM)

    cdef bint _refund_core(self, Counters store, Decision decision, object marks) except -1:
        cdef list keys = self._keys(decision.key)
        cdef Py_ssize_t i
        cdef Slot *slots = <Slot *>PyMem_Malloc(self.count * sizeof(Slot))
        cdef int64_t *marks_ns = <int64_t *>PyMem_Malloc(self.count * sizeof(int64_t))
        try:
            if slots == NULL or marks_ns == NULL:
                raise MemoryError()
            for i in range(self.count):
                marks_ns[i] = marks if self.count == 1 else (<tuple>marks)[i]
                slots[i].key.data = PyBytes_AS_STRING(keys[i])
                slots[i].key.length = PyBytes_GET_SIZE(keys[i])
                slots[i].key.hash = gob_hash_buffer(slots[i].key.data, PyBytes_GET_SIZE(keys[i]))
            skip_told(&store.store, store.told, keys, self.quotas, marks_ns)
            return give_back(&store.store, slots, self.quotas, marks_ns, self.count, decision.cost)
        finally:
            PyMem_Free(slots)
            PyMem_Free(marks_ns)

    # ---- for other stores, and for the cold half

    def _keys(self, key):
        """The keys of the entries, one a limit, as bytes."""
        cdef bytes part = b"=" + str.encode(key) if PyUnicode_Check(key) else exact_part(key)
        return [prefix + part + b"}" for prefix in self.prefixes]

    def _entries(self, key):
        """(key, quota) pairs, as the Store protocol's decide() takes them."""
        return [
            (entry_key, (self.algorithm, limit.amount, limit.period_ns, limit.burst))
            for entry_key, limit in zip(self._keys(key), self.limits)
        ]

    cdef object _decide_elsewhere(self, object store, object key, object cost, str mode):
        cdef int64_t cost_value
        entries = self._entries(key)
        as_cost(cost, &cost_value)  # once: a second __index__ could raise after the hit was spent
        return self._decision(store, key, cost_value, store.decide(entries, cost_value, mode))

    def _decision(self, store, key, cost, tuple outcome not None):
        """A Decision of what the Store protocol's decide() returned."""
        cdef Decision decision
        cdef int64_t cost_value
        verdict, remaining, reset_ns, index, _at_ns, stamps = outcome
        as_cost(cost, &cost_value)
        if verdict >= 0 or stamps is not None:
            wait_ns = 0  # a reservation counts as allowed: whoever made it waits
        else:
            wait_ns = FOREVER if verdict == NEVER else -verdict
        decision = restore_decision(self.limits[index], key, cost_value, remaining, self.algorithm, self.name,
                                    wait_ns, FOREVER if reset_ns < 0 else reset_ns)
        if stamps is not None:
            decision.limiter = self
            decision.store = store
            if is_core(store):
                decision.marks = stamps[0][2] if self.count == 1 else tuple([stamp[2] for stamp in stamps])
            else:
                decision.marks = stamps
        return decision


cdef int as_cost(object cost, int64_t *out) except -1:
    as_int64(cost, "cost", out)
    if out[0] < 0:
        raise errors.below("cost", cost, 0)
    return 0
