# One hit on several limits at once: the C side, for the core and the limiter.
from libc.stdint cimport int64_t

from goblin._rules cimport GCRA, Quota, State, Status, Verdict
from goblin._step cimport Slot, Store


cdef enum Mode:
    HIT      # spend if every limit admits
    ADMIT    # as HIT, of which only the verdict is asked: where it is admitted, no times
    PEEK     # what a hit would get; nothing is spent
    RESERVE  # gcra only: spend at the first instant that every limit admits, if that is soon enough


cdef struct Outcome:
    Verdict verdict    # the deciding limit's; `remaining` is the least of all
    int64_t reset_ns   # until a hit of the deciding limit's whole quota would pass; or FOREVER
    Py_ssize_t index   # of the deciding limit
    int64_t at_ns      # when the hit counts: now, or the instant reserved
    bint spent


cdef Status decide(
    Store *store, Slot *slots, const Quota *quotas, State *before, Py_ssize_t count, int64_t cost, Mode mode,
    int64_t max_wait_ns, Outcome *out
) noexcept nogil

cdef inline int64_t mark_of(const Quota *quota, const Slot *slot, const Outcome *outcome) noexcept nogil:
    """What refund() needs to know of a hit: the deadline it left behind; under gcra its own time."""
    return outcome.at_ns if quota.kind == GCRA else slot.state.deadline_ns

cdef bint give_back(
    Store *store, Slot *slots, const Quota *quotas, const int64_t *marks_ns, Py_ssize_t count, int64_t cost
) noexcept nogil

cdef object decide_entries(Store *store, dict told, object entries, object cost, object mode, object max_wait_ns)
cdef object refund_stamps(Store *store, dict told, object stamps, object cost)

# The arguments of decide() and refund(), checked: also for stores elsewhere.
cdef class Entries:
    cdef list keys
    cdef list quota_tuples
    cdef Py_ssize_t count
    cdef Slot *slots
    cdef Quota *quotas
    cdef State *before
    cdef int64_t *marks_ns

cdef Entries as_entries(
    object entries, object cost, object mode, object max_wait_ns, int64_t *cost_out, Mode *mode_out, int64_t *most_wait_ns
)
cdef Entries as_stamps(object stamps, object cost, int64_t *cost_out)
