from libc.stdint cimport int64_t


cdef class ManualClock:
    cdef int64_t reading_ns
