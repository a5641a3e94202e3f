# The C side of the manual clock: its reading, which stores read in place.
from libc.stdint cimport int64_t


cdef class ManualClock:
    cdef int64_t reading_ns
    cdef int64_t lag_ns  # NO_COARSE: there is no coarse reading


cdef enum:
    NO_COARSE = -1
