"""One hit on several limits at once, all or nothing in one step; and its undoing."""
from cpython.datetime cimport import_datetime
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t
from libc.string cimport memcmp

from goblin import errors
from goblin cimport _rules as rules
from goblin._args cimport Key, as_int64, as_key
from goblin._reservations cimport note_told, skip_told, state_tuple
from goblin._rules cimport (
    BAD_TIME, COUNTER, FOREVER, GCRA, MOST_IN_WINDOW, NEVER, NO_ROOM, OK, REFUSED, SLIDING_WINDOW, WRONG_KIND, Quota,
    State, Status, Verdict, horizon_of, judge, reset_after,
)
from goblin._step cimport (
    Slot, Span, Step, Store, add_to_span, asks_again, begin, begin_coarse, begin_span, empty_span, finish_verdict,
    keep, keep_several, leave_span, look_up, mark_refusing,
)
from goblin._table cimport GOB_NO_DEADLINE

import_datetime()


# ---- the step --------------------------------------------------------------------------------------------------------

cdef inline Status decide_one(
    Store *store, Slot *slot, const Quota *quota, int64_t cost, bint brief, Outcome *out
) noexcept nogil:
    """The common case, without a second look at the table."""
    cdef Step step
    cdef Status status
    if brief and quota.kind == COUNTER:  # the others reckon with the time itself
        begin_coarse(store, &slot.key, &step)
    else:
        begin(store, &slot.key, &step)
    while True:
        status = judge(&step.state, step.now_ns, quota, cost, &out.verdict)
        if not asks_again(&step, status):
            break
    status = finish_verdict(&slot.key, &step, status, out.verdict.result < 0 and out.verdict.result != NEVER)
    if not brief or status != OK:
        out.reset_ns = reset_after(&step.state, step.now_ns, quota)
    slot.state = step.state
    out.index = 0
    out.at_ns = step.now_ns
    out.spent = status == OK
    return OK if status == REFUSED else status


cdef Status judge_all(
    Slot *slots, const Quota *quotas, const State *before, Py_ssize_t count, int64_t at_ns, int64_t cost, Outcome *out
) noexcept nogil:
    """What a hit at `at_ns` would get from every limit. The smallest verdict decides, the first named on a tie."""
    cdef Py_ssize_t i
    cdef Verdict verdict
    cdef Status status
    for i in range(count):
        slots[i].state = before[i]
        status = judge(&slots[i].state, at_ns, &quotas[i], cost, &verdict)
        if status != OK and status != REFUSED:
            out.index = i
            return status
        if i == 0 or verdict.result < out.verdict.result:
            out.verdict = verdict
            out.index = i
    out.reset_ns = reset_after(&slots[out.index].state, at_ns, &quotas[out.index])
    return OK


cdef inline void look_all(
    const Quota *quotas, const State *before, Py_ssize_t count, int64_t now_ns, Outcome *out
) noexcept nogil:
    """For a hit that was not spent: the least that remains as it is, and the deciding limit's reset as it is."""
    cdef Py_ssize_t i
    cdef State state
    cdef Verdict verdict
    for i in range(count):
        state = before[i]
        judge(&state, now_ns, &quotas[i], 0, &verdict)  # cannot fail: it did not a moment ago
        if i == 0 or verdict.remaining < out.verdict.remaining:
            out.verdict.remaining = verdict.remaining
    out.reset_ns = reset_after(&before[out.index], now_ns, &quotas[out.index])


cdef Status decide(
    Store *store, Slot *slots, const Quota *quotas, State *before, Py_ssize_t count, int64_t cost, Mode mode,
    int64_t max_wait_ns, Outcome *out
) noexcept nogil:
    """OK, also where the hit is refused: see the outcome. Otherwise nothing has changed."""
    cdef Span span = empty_span()
    cdef Step step
    cdef Status status
    cdef Outcome later
    cdef Py_ssize_t i
    cdef bint spend = mode != PEEK and cost > 0
    if count == 1 and (mode == HIT or mode == ADMIT):
        return decide_one(store, slots, quotas, cost, mode == ADMIT, out)
    for i in range(count):
        add_to_span(store, &slots[i].key, &span)
    begin_span(store, &span)
    for i in range(count):
        look_up(store, &slots[i].key, &span, &step)
        before[i] = step.state
    out.at_ns = span.now_ns
    out.spent = False
    status = judge_all(slots, quotas, before, count, span.now_ns, cost, out)
    if status == OK and out.verdict.result < 0:
        spend = spend and mode == RESERVE and out.verdict.result != NEVER and -out.verdict.result <= max_wait_ns
        if spend:
            # When the longest wait is over, every limit admits. An instant beyond the clock's end never comes.
            later.at_ns = span.now_ns - out.verdict.result
            if judge_all(slots, quotas, before, count, later.at_ns, cost, &later) == OK:
                out.at_ns = later.at_ns
                out.index = later.index  # as of a hit at that instant
                out.verdict.remaining = later.verdict.remaining
                out.reset_ns = later.reset_ns
            else:
                out.verdict.result = NEVER
                spend = False
    if status == OK:
        if spend:
            status = keep_several(store, slots, count, &span)
            out.spent = status == OK
        else:
            if mode != PEEK and mode != RESERVE and store.evicts and out.verdict.result < 0 and out.verdict.result != NEVER:
                mark_refusing(store, &slots[out.index])
            look_all(quotas, before, count, span.now_ns, out)
    leave_span(store, &span)
    return status


cdef bint give_back(
    Store *store, Slot *slots, const Quota *quotas, const int64_t *marks_ns, Py_ssize_t count, int64_t cost
) noexcept nogil:
    """Refund each limit by itself, in one step, but for those with a negative mark. Whether anything was given back."""
    cdef Step step
    cdef Py_ssize_t i
    cdef Span span = empty_span()
    cdef bint given = False
    for i in range(count):
        add_to_span(store, &slots[i].key, &span)
    begin_span(store, &span)
    for i in range(count):
        look_up(store, &slots[i].key, &span, &step)
        if marks_ns[i] >= 0 and rules.refund(&step.state, span.now_ns, &quotas[i], cost, marks_ns[i]) == OK:
            keep(&slots[i].key, &step)  # the record is there: no memory is needed
            given = True
    leave_span(store, &span)
    return given


# ---- the Store protocol's arguments ----------------------------------------------------------------------------------

ALGORITHMS = {"fixed-window": COUNTER, "sliding-window": SLIDING_WINDOW, "gcra": GCRA}
MODES = {"hit": HIT, "peek": PEEK, "reserve": RESERVE}


cdef int as_quota_tuple(object quota, Quota *out) except -1:
    """(algorithm, amount, period_ns or None, burst or None)."""
    if type(quota) is not tuple or len(quota) != 4:
        raise TypeError("a quota is a tuple (algorithm, amount, period_ns, burst)")
    algorithm, amount, period_ns, burst = quota
    if type(algorithm) is not str or algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm={errors._shown(algorithm)} (allowed: {', '.join(ALGORITHMS)})")
    out.kind = ALGORITHMS[algorithm]
    as_int64(amount, "amount", &out.amount)
    out.period_ns = 0
    if period_ns is not None or out.kind != COUNTER:
        as_int64(period_ns, "period_ns", &out.period_ns)
        if out.period_ns < 1:
            raise errors.below("period_ns", period_ns, 1)
    out.burst = out.amount
    if burst is not None:
        as_int64(burst, "burst", &out.burst)
        if out.kind != GCRA:
            raise ValueError(f"burst={out.burst} (allowed: with gcra only)")
        if out.burst < 1:
            raise errors.below("burst", burst, 1)
    if out.amount < 0:
        raise errors.below("amount", amount, 0)
    if out.kind == SLIDING_WINDOW and out.amount > MOST_IN_WINDOW:
        raise errors.above("amount", amount, MOST_IN_WINDOW)
    out.horizon_ns = horizon_of(out)
    return 0


cdef int as_cost(object cost, int64_t *out) except -1:
    as_int64(cost, "cost", out)
    if out[0] < 0:
        raise errors.below("cost", cost, 0)
    return 0


cdef class Entries:
    """C arrays for the entries of one call. The lists keep the keys alive that the slots point into."""

    def __cinit__(self, list keys not None, list quotas not None):
        cdef Py_ssize_t i, j, count = len(keys)
        self.keys, self.quota_tuples, self.count = keys, quotas, count
        self.slots = <Slot *>PyMem_Malloc((<size_t>count + 1) * sizeof(Slot))
        self.quotas = <Quota *>PyMem_Malloc((<size_t>count + 1) * sizeof(Quota))
        self.before = <State *>PyMem_Malloc((<size_t>count + 1) * sizeof(State))
        self.marks_ns = <int64_t *>PyMem_Malloc((<size_t>count + 1) * sizeof(int64_t))
        if self.slots == NULL or self.quotas == NULL or self.before == NULL or self.marks_ns == NULL:
            raise MemoryError()
        for i in range(count):
            as_key(keys[i], &self.slots[i].key)
            as_quota_tuple(quotas[i], &self.quotas[i])
            for j in range(i):
                if same_key(&self.slots[i].key, &self.slots[j].key):
                    raise ValueError(f"key={errors._shown(keys[i])} is named twice (allowed: once a call)")

    def __dealloc__(self):
        PyMem_Free(self.slots)
        PyMem_Free(self.quotas)
        PyMem_Free(self.before)
        PyMem_Free(self.marks_ns)


cdef bint same_key(const Key *a, const Key *b) noexcept:
    return a.hash == b.hash and a.length == b.length and memcmp(a.data, b.data, a.length) == 0


cdef Entries as_entries(
    object entries, object cost, object mode, object max_wait_ns, int64_t *cost_out, Mode *mode_out, int64_t *most_wait_ns
):
    """The arguments of decide(), from left to right."""
    cdef list pairs = [(key, quota) for key, quota in entries]
    cdef Entries hits = Entries.__new__(
        Entries, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
    cdef Py_ssize_t i
    if hits.count == 0:
        raise ValueError("entries is empty (allowed: one (key, quota) pair or more)")
    as_cost(cost, cost_out)
    if type(mode) is not str or mode not in MODES:
        raise ValueError(f"mode={errors._shown(mode)} (allowed: {', '.join(MODES)})")
    mode_out[0] = <Mode><int>MODES[mode]
    most_wait_ns[0] = GOB_NO_DEADLINE
    if max_wait_ns is not None:
        as_int64(max_wait_ns, "max_wait_ns", most_wait_ns)
    if mode_out[0] == RESERVE:
        for i in range(hits.count):
            if hits.quotas[i].kind != GCRA:
                raise ValueError("mode='reserve' (allowed: with gcra only)")
    return hits


cdef object decide_entries(Store *store, dict told, object entries, object cost, object mode, object max_wait_ns):
    cdef int64_t cost_value, most_wait_ns
    cdef Mode mode_value
    cdef Outcome outcome
    cdef Status status
    cdef Py_ssize_t i
    cdef Entries hits = as_entries(entries, cost, mode, max_wait_ns, &cost_value, &mode_value, &most_wait_ns)
    status = decide(store, hits.slots, hits.quotas, hits.before, hits.count, cost_value, mode_value, most_wait_ns,
                    &outcome)
    if status == WRONG_KIND:
        raise errors.WrongTypeError(errors.WRONG_KIND)
    if status == BAD_TIME:
        raise errors.bad_time("period_ns", hits.quota_tuples[outcome.index][2], 1)
    if status != OK:
        raise errors.no_place(status == NO_ROOM)
    if mode_value == RESERVE and outcome.spent and outcome.verdict.result < 0:
        note_told(store, told, hits.keys, [state_tuple(&hits.slots[i].state) for i in range(hits.count)], outcome.at_ns,
                  outcome.at_ns + outcome.verdict.result)
    return (
        outcome.verdict.result,
        outcome.verdict.remaining,
        -1 if outcome.reset_ns == FOREVER else outcome.reset_ns,
        outcome.index,
        outcome.at_ns,
        tuple([stamp_of(hits, i, &outcome, mode_value == RESERVE) for i in range(hits.count)])
        if outcome.spent else None,
    )


cdef tuple stamp_of(Entries hits, Py_ssize_t i, const Outcome *outcome, bint reserved):
    """(key, quota, mark, state before, state after); the states of a reservation only."""
    return (
        hits.keys[i],
        hits.quota_tuples[i],
        mark_of(&hits.quotas[i], &hits.slots[i], outcome),
        state_tuple(&hits.before[i]) if reserved else None,
        state_tuple(&hits.slots[i].state) if reserved else None,
    )


cdef Entries as_stamps(object stamps, object cost, int64_t *cost_out):
    """The arguments of refund(), from left to right."""
    cdef list rows = [(key, quota, mark) for key, quota, mark, _before, _after in stamps]
    cdef Entries hits = Entries.__new__(Entries, [row[0] for row in rows], [row[1] for row in rows])
    cdef Py_ssize_t i
    as_cost(cost, cost_out)
    for i in range(hits.count):
        as_int64(rows[i][2], "stamp", &hits.marks_ns[i])
        if hits.marks_ns[i] < 0:
            raise errors.below("stamp", rows[i][2], 0)
    return hits


cdef object refund_stamps(Store *store, dict told, object stamps, object cost):
    cdef int64_t cost_value
    cdef Entries hits = as_stamps(stamps, cost, &cost_value)
    skip_told(store, told, hits.keys, hits.quotas, hits.marks_ns)
    return give_back(store, hits.slots, hits.quotas, hits.marks_ns, hits.count, cost_value)
