# Reservations under gcra, and the notes about them: the C side, for the core, _decide and the limiter.
from libc.stdint cimport int64_t

from goblin._rules cimport Quota, State
from goblin._step cimport Store

cdef object state_tuple(const State *state)
cdef int note_told(Store *store, dict told, list keys, list states, int64_t at_ns, int64_t now_ns) except -1
cdef int skip_told(Store *store, dict told, list keys, const Quota *quotas, int64_t *marks_ns) except -1
cdef int unreserve_stamps(Store *store, dict given_up, dict told, object stamps) except -1
cdef int forget_given_up(Store *store, dict given_up, object key) except -1
cdef int forget_everything(Store *store, dict given_up, dict told) except -1
