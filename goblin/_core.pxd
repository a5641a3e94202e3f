# The C side of the core, for the other compiled modules.
from goblin._clock cimport ManualClock
from goblin._step cimport Shard


cdef class Counters:
    cdef Shard shard
    cdef bint initialised
    cdef readonly ManualClock clock
    cdef dict given_up  # slots of cancelled waiters, by key; see _decide.pyx
    cdef object __weakref__
