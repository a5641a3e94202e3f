# The C side of the core, for the other compiled modules.
from libc.stdint cimport uint64_t

from goblin._clock cimport ManualClock
from goblin._step cimport Store


cdef class Counters:
    cdef Store store
    cdef bint initialised
    cdef uint64_t max_keys
    cdef readonly ManualClock clock
    cdef dict given_up  # slots of cancelled waiters, by key; see _reservations.pyx
    cdef dict told      # waiters and the instants they were told, by key
    cdef object __weakref__
