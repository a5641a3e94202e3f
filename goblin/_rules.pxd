# The rules: the only place where a TTL is armed and a bound is applied.
#
# Each rule works on one State, a copy of what the store holds under a key, and is plain C: it cannot fail in any way but
# the Status it returns, and it is `noexcept` on purpose (`except? -1` would make every refusal, which is -1, pay for
# a look at Python's error indicator). A Status other than OK means: do not commit; the caller then leaves the store as
# it was. Nothing here reads a clock: `now_ns` comes from the caller.
cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from goblin._table cimport (
    GOB_NO_DEADLINE, gob_add_overflows, gob_mul_overflows, gob_sub_overflows,
    gob_record, gob_u128, gob_u128_add, gob_u128_divide, gob_u128_less, gob_u128_product, gob_u128_sub, gob_u128_from,
)


cdef enum Status:
    OK
    REFUSED     # a result, not an error: nothing to keep, for a bound, a flag or an absent key said no
    OVERFLOW    # the sum leaves int64
    BAD_TIME    # the deadline would pass 2**63 - 2
    WRONG_KIND  # the entry belongs to another command or algorithm
    NO_ROOM     # the store is full, and nothing near may go
    NO_MEMORY


# What an entry is. A fixed window is an ordinary counter.
cdef enum Kind:
    COUNTER
    SLIDING_WINDOW  # value: the previous window's count << 32 | the current one's; deadline: end of the next window
    GCRA            # deadline: the theoretical arrival time TAT, rounded up; value: (deadline - TAT) x limit


# Marks on a record.
cdef enum Flag:
    REFUSING = 1  # its last verdict was a refusal: it goes last of all when the store is full
    PINNED = 2    # belongs to the running step
    CHOSEN = 4    # is to make room in the running step


cdef struct State:
    int64_t value
    int64_t deadline_ns  # GOB_NO_DEADLINE: no TTL
    uint8_t kind
    bint exists


cdef enum ExpireFlag:
    EXPIRE_NX = 1  # only if no TTL is running
    EXPIRE_XX = 2  # only if one is
    EXPIRE_GT = 4  # only if later than the running one
    EXPIRE_LT = 8  # only if earlier


cdef inline State absent() noexcept nogil:
    cdef State state
    state.value = 0
    state.deadline_ns = GOB_NO_DEADLINE
    state.kind = COUNTER
    state.exists = False
    return state


# ---- times -----------------------------------------------------------------------------------------------------------

cdef inline Status deadline_after(int64_t now_ns, int64_t ttl_ns, int64_t *deadline_ns) noexcept nogil:
    """now + ttl. A ttl <= 0 gives a deadline that has passed: whoever commits it removes the key."""
    if gob_add_overflows(now_ns, ttl_ns, deadline_ns) or deadline_ns[0] == GOB_NO_DEADLINE:
        return BAD_TIME
    return OK


cdef inline void arm_if_idle(State *state, int64_t deadline_ns) noexcept nogil:
    """What `seconds` and `milliseconds` do: a running TTL is never touched. (`ex`, `px` call set_deadline.)"""
    if state.deadline_ns == GOB_NO_DEADLINE:
        state.deadline_ns = deadline_ns


cdef inline void set_deadline(State *state, int64_t deadline_ns) noexcept nogil:
    """What `ex` and `px` do: the TTL is set on every call."""
    state.deadline_ns = deadline_ns


cdef inline int64_t left_ms(const State *state, int64_t now_ns) noexcept nogil:
    """PTTL of a live state: -1 without a TTL, else rounded up, so at least 1."""
    cdef int64_t left_ns
    if state.deadline_ns == GOB_NO_DEADLINE:
        return -1
    left_ns = state.deadline_ns - now_ns  # both are >= 0: no overflow
    return left_ns // 1_000_000 + (left_ns % 1_000_000 != 0)


# ---- counting --------------------------------------------------------------------------------------------------------

cdef inline Status add(State *state, int64_t amount) noexcept nogil:
    if state.kind != COUNTER:
        return WRONG_KIND
    if gob_add_overflows(state.value, amount, &state.value):
        return OVERFLOW
    state.exists = True
    return OK


cdef inline Status subtract(State *state, int64_t amount) noexcept nogil:
    if state.kind != COUNTER:
        return WRONG_KIND
    # Redis refuses to negate -2**63, whatever the value: a difference that would fit is an overflow as well.
    if amount == -GOB_NO_DEADLINE - 1 or gob_sub_overflows(state.value, amount, &state.value):
        return OVERFLOW
    state.exists = True
    return OK


cdef inline Status add_within(State *state, int64_t delta, int64_t bound) noexcept nogil:
    """Add if the exact sum is at most the bound."""
    cdef int64_t total
    if state.kind != COUNTER:
        return WRONG_KIND
    if gob_add_overflows(state.value, delta, &total):
        # Above int64 is above any bound; below int64 is within any bound, but cannot be stored.
        return REFUSED if delta > 0 else OVERFLOW
    if total > bound:
        return REFUSED
    state.value = total
    state.exists = True
    return OK


cdef inline Status take_one(State *state) noexcept nogil:
    if state.kind != COUNTER:
        return WRONG_KIND
    if state.value <= 0:
        return REFUSED
    state.value -= 1
    return OK


cdef inline void put(State *state, int64_t value) noexcept nogil:
    """What SET does: a counter of this value, whatever was there. The TTL is the caller's business."""
    state.value = value
    state.kind = COUNTER
    state.exists = True


# ---- commands that join the two --------------------------------------------------------------------------------------

cdef inline Status increx(State *state, int64_t now_ns, int64_t ttl_ns) noexcept nogil:
    cdef int64_t deadline_ns
    cdef Status status = deadline_after(now_ns, ttl_ns, &deadline_ns)
    if status == OK:
        status = add(state, 1)
        if status == OK and state.value == 1:
            arm_if_idle(state, deadline_ns)
    return status


cdef inline Status expire(State *state, int64_t now_ns, int64_t ttl_ns, int flags) noexcept nogil:
    """The flags are judged on the deadline asked for, past or not; no TTL counts as infinitely late."""
    cdef int64_t deadline_ns
    cdef Status status = deadline_after(now_ns, ttl_ns, &deadline_ns)
    if status != OK:
        return status
    if not state.exists:
        return REFUSED
    if state.kind != COUNTER:
        return WRONG_KIND
    if flags & EXPIRE_NX and state.deadline_ns != GOB_NO_DEADLINE:
        return REFUSED
    if flags & EXPIRE_XX and state.deadline_ns == GOB_NO_DEADLINE:
        return REFUSED
    if flags & EXPIRE_GT and deadline_ns <= state.deadline_ns:  # GOB_NO_DEADLINE is the largest: never greater
        return REFUSED
    if flags & EXPIRE_LT and deadline_ns >= state.deadline_ns:
        return REFUSED
    set_deadline(state, deadline_ns)
    return OK


# ---- rate limits: the three algorithms -------------------------------------------------------------------------------
#
# Each takes a state, the time and a Quota, and gives a Verdict. OK: admitted, keep the state. REFUSED: nothing to keep
# (also for cost 0, which only looks). The promise: with the same arguments and nobody else about, the same hit passes at
# the instant that a refusal names, and not a nanosecond earlier.

cdef struct Quota:
    int kind            # COUNTER (a fixed window), SLIDING_WINDOW or GCRA
    int64_t amount      # >= 0; a sliding window: at most 2**31 - 1
    int64_t period_ns   # > 0; or, a fixed window only, 0: the count never ends
    int64_t burst       # gcra: >= 1; otherwise the amount
    int64_t horizon_ns  # how far ahead the quota can set a deadline; BEYOND: further than any clock reaches


cdef struct Verdict:
    int64_t result     # >= 0: what remains after this hit; < 0: minus the nanoseconds until it can pass; or NEVER
    int64_t remaining  # how many hits of cost 1 would still pass now


cdef enum:
    MOST_IN_WINDOW = 2147483647  # 2**31 - 1: two counts and a sign share the value

cdef extern from *:
    """
    #define GOB_NEVER INT64_MIN
    #define GOB_FOREVER INT64_MAX
    #define GOB_BEYOND INT64_MAX
    """
    const int64_t NEVER "GOB_NEVER"
    const int64_t FOREVER "GOB_FOREVER"
    const int64_t BEYOND "GOB_BEYOND"


cdef inline uint64_t ceil_divide(gob_u128 dividend, uint64_t divisor) noexcept nogil:
    cdef uint64_t remainder, quotient = gob_u128_divide(dividend, divisor, &remainder)
    return quotient + (remainder != 0)


cdef inline int64_t horizon_of(const Quota *quota) noexcept nogil:
    """How far ahead of now an admitted hit can set the deadline, or BEYOND."""
    cdef uint64_t ahead
    if quota.amount == 0:
        return 0  # nothing will ever be armed
    if quota.kind == SLIDING_WINDOW:
        return BEYOND if quota.period_ns > BEYOND // 2 else 2 * quota.period_ns
    if quota.kind == GCRA:
        if quota.burst == quota.amount:
            return quota.period_ns
        ahead = ceil_divide(gob_u128_product(<uint64_t>quota.burst, <uint64_t>quota.period_ns),
                            <uint64_t>quota.amount)
        return BEYOND if ahead >= <uint64_t>BEYOND else <int64_t>ahead
    return quota.period_ns


cdef inline int64_t room(int64_t limit, int64_t used) noexcept nogil:
    """limit - used, between 0 and 2**63 - 1: `used` may be negative (a counter can be set to anything)."""
    cdef int64_t left
    if gob_sub_overflows(limit, used, &left):
        return GOB_NO_DEADLINE
    return left if left > 0 else 0


cdef inline Status fixed_window(
    State *state, int64_t now_ns, const Quota *quota, int64_t cost, Verdict *verdict
) noexcept nogil:
    """A counter whose window runs from its first hit."""
    cdef int64_t total = 0
    cdef bint fits = not gob_add_overflows(state.value, cost, &total) and total <= quota.amount
    cdef Status status = REFUSED
    if state.kind != COUNTER:
        return WRONG_KIND
    if fits and cost > 0:
        state.value = total
        state.exists = True
        if quota.period_ns > 0:
            arm_if_idle(state, now_ns + quota.period_ns)
        status = OK
    verdict.remaining = room(quota.amount, state.value)
    if fits or cost == 0:
        verdict.result = verdict.remaining
    else:
        verdict.result = NEVER if state.deadline_ns == GOB_NO_DEADLINE else now_ns - state.deadline_ns
    return status


@cython.cdivision(True)  # divisors are positive
cdef inline int64_t sliding_wait(
    int64_t previous, int64_t current, int64_t end_ns, int64_t period_ns, int64_t most, int64_t now_ns
) noexcept nogil:
    """Nanoseconds until the weighted count is at most `most`, which it is not now. `end_ns`: the current window's.

    The weight falls as k, the part of the previous window that still counts, falls by one a nanosecond. If the current
    count alone is too much, the wait goes on into the next window, where it is the previous one's.
    """
    cdef int64_t weight = previous, k
    if current > most:
        weight = current
        end_ns += period_ns
    else:
        most -= current
    # floor(weight x k / period) <= most  <=>  k <= ceil((most + 1) x period / weight) - 1
    k = <int64_t>(ceil_divide(gob_u128_product(<uint64_t>most + 1, <uint64_t>period_ns), <uint64_t>weight) - 1)
    if k > period_ns - 1:
        k = period_ns - 1
    return end_ns - 1 - k - now_ns


cdef inline int64_t weigh(
    int64_t previous, int64_t current, int64_t end_ns, int64_t period_ns, int64_t now_ns
) noexcept nogil:
    """The current count, and of the previous window's the part that is later than now - period."""
    cdef uint64_t remainder
    cdef int64_t k = end_ns - 1 - now_ns  # so many nanoseconds of it
    if previous == 0:
        return current
    if k > period_ns - 1:  # only where the period asked is not the one that set the deadline
        k = period_ns - 1
    return current + <int64_t>gob_u128_divide(
        gob_u128_product(<uint64_t>previous, <uint64_t>k), <uint64_t>period_ns, &remainder)


cdef inline void windows_of(
    const State *state, int64_t now_ns, int64_t period_ns, int64_t *previous, int64_t *current, int64_t *end_ns
) noexcept nogil:
    """The counts of a sliding window that exists, and the end of the current one."""
    previous[0] = state.value >> 32
    current[0] = <uint32_t>state.value
    end_ns[0] = state.deadline_ns - period_ns
    if now_ns >= end_ns[0]:  # the next window has begun
        previous[0], current[0] = current[0], 0
        end_ns[0] = state.deadline_ns


@cython.cdivision(True)
cdef inline Status sliding_window(
    State *state, int64_t now_ns, const Quota *quota, int64_t cost, Verdict *verdict
) noexcept nogil:
    """The current window's count, and the previous one's by the part of it that is later than now - period.

    Rounded down on purpose: exact weights would admit limit - 1 per period under load.
    """
    cdef int64_t period_ns = quota.period_ns
    cdef int64_t previous = 0, current = 0
    # The end of the current window. A limit of 0 starts none, so nobody has asked yet whether now + period is an int64.
    cdef int64_t end_ns = now_ns + period_ns if quota.amount != 0 else now_ns
    cdef int64_t weighted
    cdef Status status = REFUSED
    if state.exists:
        if state.kind != SLIDING_WINDOW:
            return WRONG_KIND
        windows_of(state, now_ns, period_ns, &previous, &current, &end_ns)
    weighted = weigh(previous, current, end_ns, period_ns, now_ns)
    if cost > 0 and weighted + cost <= quota.amount:
        current += cost
        weighted += cost
        state.value = previous << 32 | current
        state.deadline_ns = end_ns + period_ns
        state.kind = SLIDING_WINDOW
        state.exists = True
        status = OK
    verdict.remaining = room(quota.amount, weighted)
    if status == OK or cost == 0:
        verdict.result = verdict.remaining
    else:
        verdict.result = -sliding_wait(previous, current, end_ns, period_ns, quota.amount - cost, now_ns)
    return status


cdef inline gob_u128 ahead_of(const State *state, int64_t now_ns, int64_t amount) noexcept nogil:
    """(TAT - now) x limit, exactly; 0 if the arrival time has passed. The value is the part of a nanosecond that the
    deadline was rounded up by; one that belongs to a larger limit counts as 0."""
    cdef gob_u128 ahead
    if not state.exists or state.deadline_ns <= now_ns:
        return gob_u128_from(0)
    ahead = gob_u128_product(<uint64_t>(state.deadline_ns - now_ns), <uint64_t>amount)
    return gob_u128_sub(ahead, gob_u128_from(<uint64_t>state.value)) if state.value < amount else ahead


cdef inline void set_ahead(State *state, int64_t now_ns, int64_t amount, gob_u128 ahead) noexcept nogil:
    """The inverse: TAT = now + ahead / limit."""
    cdef uint64_t remainder, whole = gob_u128_divide(ahead, <uint64_t>amount, &remainder)
    state.deadline_ns = now_ns + <int64_t>whole + (remainder != 0)
    state.value = amount - <int64_t>remainder if remainder != 0 else 0
    state.kind = GCRA
    state.exists = True


@cython.cdivision(True)  # the limit is positive
cdef inline void move_on(State *state, int64_t now_ns, const Quota *quota, int64_t cost, gob_u128 ahead) noexcept nogil:
    """set_ahead() after `cost` more hits, which brings `ahead` about: in 64 bits where they do."""
    cdef int64_t steps, part = 0
    cdef uint64_t remainder
    if gob_mul_overflows(cost, quota.period_ns, &steps):
        set_ahead(state, now_ns, quota.amount, ahead)
        return
    if state.exists and state.deadline_ns > now_ns:
        part = state.value if state.value < quota.amount else 0
    else:
        state.deadline_ns = now_ns
    steps -= part  # from the deadline on, times the limit
    if steps > 0:
        remainder = <uint64_t>steps % <uint64_t>quota.amount
        state.deadline_ns += <int64_t>(<uint64_t>steps // <uint64_t>quota.amount) + (remainder != 0)
        state.value = quota.amount - <int64_t>remainder if remainder != 0 else 0
    else:
        state.value = -steps
    state.kind = GCRA
    state.exists = True


cdef inline Status gcra(State *state, int64_t now_ns, const Quota *quota, int64_t cost, Verdict *verdict) noexcept nogil:
    """Virtual scheduling: a hit moves the theoretical arrival time on by cost x period / limit, and passes if that is
    at most burst x period / limit ahead of now. All quantities are times x limit: exact integers below 2**127."""
    cdef gob_u128 ahead, asked, full
    cdef uint64_t used
    cdef Status status = REFUSED
    if state.exists and state.kind != GCRA:
        return WRONG_KIND
    if quota.amount == 0:  # cost is 0: nothing can ever pass
        verdict.result = verdict.remaining = 0
        return REFUSED
    full = gob_u128_product(<uint64_t>quota.burst, <uint64_t>quota.period_ns)
    ahead = ahead_of(state, now_ns, quota.amount)
    if cost > 0:
        asked = gob_u128_add(ahead, gob_u128_product(<uint64_t>cost, <uint64_t>quota.period_ns))
        if gob_u128_less(full, asked):
            verdict.result = -<int64_t>ceil_divide(gob_u128_sub(asked, full), <uint64_t>quota.amount)
        else:
            ahead = asked
            move_on(state, now_ns, quota, cost, asked)
            status = OK
    used = <uint64_t>quota.burst if gob_u128_less(full, ahead) else ceil_divide(ahead, <uint64_t>quota.period_ns)
    verdict.remaining = quota.burst - <int64_t>used
    if status == OK or cost == 0:
        verdict.result = verdict.remaining
    return status


cdef inline Status judge(State *state, int64_t now_ns, const Quota *quota, int64_t cost, Verdict *verdict) noexcept nogil:
    """One hit on one limit, whatever the algorithm."""
    cdef Status status
    cdef bint hopeless = cost > 0 and (quota.amount == 0 or cost > quota.burst)
    verdict.result, verdict.remaining = NEVER, 0
    if quota.horizon_ns > GOB_NO_DEADLINE - 1 - now_ns:
        return BAD_TIME
    if hopeless:
        cost = 0  # nothing to spend, but what remains is to be known
    if quota.kind == COUNTER:
        status = fixed_window(state, now_ns, quota, cost, verdict)
    elif quota.kind == SLIDING_WINDOW:
        status = sliding_window(state, now_ns, quota, cost, verdict)
    else:
        status = gcra(state, now_ns, quota, cost, verdict)
    if hopeless:
        verdict.result = NEVER
        return REFUSED
    return status


cdef inline int64_t reset_after(const State *state, int64_t now_ns, const Quota *quota) noexcept nogil:
    """Nanoseconds until a hit of the whole quota would pass; or FOREVER. The state: as judge() left it."""
    cdef int64_t previous = 0, current = 0, end_ns = 0
    if quota.amount == 0:
        return FOREVER
    if not state.exists or (quota.kind == COUNTER and state.value <= 0):
        return 0
    if quota.kind == SLIDING_WINDOW:
        windows_of(state, now_ns, quota.period_ns, &previous, &current, &end_ns)
        if weigh(previous, current, end_ns, quota.period_ns, now_ns) == 0:
            return 0
        return sliding_wait(previous, current, end_ns, quota.period_ns, 0, now_ns)
    if state.deadline_ns == GOB_NO_DEADLINE:
        return FOREVER
    return state.deadline_ns - now_ns if state.deadline_ns > now_ns else 0


# ---- giving back -----------------------------------------------------------------------------------------------------

cdef inline Status take_back(int64_t *count, int64_t cost) noexcept nogil:
    if count[0] <= 0:
        return REFUSED
    count[0] = count[0] - cost if count[0] > cost else 0
    return OK


@cython.cdivision(True)
cdef inline Status refund(State *state, int64_t now_ns, const Quota *quota, int64_t cost, int64_t mark_ns) noexcept nogil:
    """Give back what a hit still weighs. `mark_ns`: the deadline that the hit left behind; under gcra its own time."""
    cdef int64_t previous, current
    cdef gob_u128 ahead, given, passed
    cdef Status status
    if not state.exists or state.kind != quota.kind or cost <= 0:
        return REFUSED
    if quota.kind == COUNTER:
        return take_back(&state.value, cost) if state.deadline_ns == mark_ns else REFUSED
    if quota.kind == SLIDING_WINDOW:
        previous = state.value >> 32
        current = <uint32_t>state.value
        if state.deadline_ns == mark_ns:
            status = take_back(&current, cost)  # which is the previous one's by now, if nobody has hit since
        elif state.deadline_ns - mark_ns == quota.period_ns and now_ns < state.deadline_ns - quota.period_ns:
            status = take_back(&previous, cost)
        else:
            return REFUSED
        state.value = previous << 32 | current
        return status
    # gcra: the cost's intervals less the time since the hit; not before now; not while a waiter has been told his time.
    ahead = ahead_of(state, now_ns, quota.amount)
    if gob_u128_less(gob_u128_product(<uint64_t>quota.burst, <uint64_t>quota.period_ns), ahead):
        return REFUSED
    given = gob_u128_product(<uint64_t>cost, <uint64_t>quota.period_ns)
    passed = gob_u128_product(<uint64_t>(now_ns - mark_ns) if now_ns > mark_ns else 0, <uint64_t>quota.amount)
    if not gob_u128_less(passed, given):
        return REFUSED
    given = gob_u128_sub(given, passed)
    set_ahead(state, now_ns, quota.amount,
              gob_u128_sub(ahead, given) if gob_u128_less(given, ahead) else gob_u128_from(0))
    return OK


# ---- when the store is full ------------------------------------------------------------------------------------------

cdef inline int64_t consumed(const gob_record *record) noexcept nogil:
    if record.kind == SLIDING_WINDOW:
        return (record.value >> 32) + <uint32_t>record.value
    return record.value


cdef inline bint goes_before(const gob_record *one, const gob_record *other) noexcept nogil:
    """Which of two entries with a TTL makes room first: not the one that refuses; of two of a kind the one that has
    consumed least (under gcra that is the one soonest full again); else the one soonest to expire."""
    cdef bint refusing = one.flags & REFUSING, other_refusing = other.flags & REFUSING
    if refusing != other_refusing:
        return other_refusing
    if one.kind == other.kind and one.kind != GCRA and consumed(one) != consumed(other):
        return consumed(one) < consumed(other)
    return one.deadline < other.deadline
