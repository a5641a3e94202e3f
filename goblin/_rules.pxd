# The rules: the only place where a TTL is armed and a bound is applied.
#
# Each rule works on one State, a copy of what the store holds under a key, and is plain C: it cannot fail in any way but
# the Status it returns, and it is `noexcept` on purpose (`except? -1` would make every refusal, which is -1, pay for
# a look at Python's error indicator). A Status other than OK means: do not commit; the caller then leaves the store as
# it was. Nothing here reads a clock: `now_ns` comes from the caller.
from libc.stdint cimport int64_t, uint8_t

from goblin._table cimport (
    GOB_NO_DEADLINE,
    gob_add_overflows,
    gob_sub_overflows,
)


cdef enum Status:
    OK
    REFUSED     # a result, not an error: a bound, a flag or an absent key said no
    OVERFLOW    # the sum leaves int64
    BAD_TIME    # the deadline would pass 2**63 - 2
    NO_MEMORY


cdef struct State:
    int64_t value
    int64_t deadline_ns  # GOB_NO_DEADLINE: no TTL
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
    state.exists = False
    return state


# ---- times ------------------------------------------------------------------------------------------------------------

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


# ---- counting ---------------------------------------------------------------------------------------------------------

cdef inline Status add(State *state, int64_t amount) noexcept nogil:
    if gob_add_overflows(state.value, amount, &state.value):
        return OVERFLOW
    state.exists = True
    return OK


cdef inline Status subtract(State *state, int64_t amount) noexcept nogil:
    # Redis refuses to negate -2**63, whatever the value: a difference that would fit is an overflow as well.
    if amount == -GOB_NO_DEADLINE - 1 or gob_sub_overflows(state.value, amount, &state.value):
        return OVERFLOW
    state.exists = True
    return OK


cdef inline Status add_within(State *state, int64_t delta, int64_t bound) noexcept nogil:
    """Add if the exact sum is at most the bound."""
    cdef int64_t total
    if gob_add_overflows(state.value, delta, &total):
        # Above int64 is above any bound; below int64 is within any bound, but cannot be stored.
        return REFUSED if delta > 0 else OVERFLOW
    if total > bound:
        return REFUSED
    state.value = total
    state.exists = True
    return OK


cdef inline Status take_one(State *state) noexcept nogil:
    if state.value <= 0:
        return REFUSED
    state.value -= 1
    return OK


# ---- commands that join the two -----------------------------------------------------------------------------------------

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
