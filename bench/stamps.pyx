"""A loop that stamps each call with the exact clock, so that the longest one is seen: compiled, since a loop in Python
would add pauses of its own. Built by floor.py as the core is. Linux only.

A call during which the core was given to another process says nothing about the call. The kernel counts such switches
(getrusage, ru_nivcsw). Asking costs about as much as a call, so it is asked after each call that took longer than
SUSPICIOUS_NS, and every 64 calls besides; where the count has grown, the call's time is stored as -1.
"""
from libc.stdint cimport int64_t

cdef extern from * nogil:
    """
    #include <sys/resource.h>
    #include <time.h>

    static inline long long stamp_ns(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000000000LL + now.tv_nsec;
    }

    static inline long switches(void) {
        struct rusage usage;
        getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_nivcsw;
    }
    """
    long long stamp_ns()
    long switches()

cdef enum:
    SUSPICIOUS_NS = 2000


def clock_ns(Py_ssize_t times=100_000):
    """What one of the two stamps around a call costs, in nanoseconds: it is in every time below."""
    cdef Py_ssize_t index
    cdef int64_t start = stamp_ns()
    for index in range(times):
        stamp_ns()
    return (stamp_ns() - start) / times


def increx_calls(store, list keys, seconds, int64_t[::1] times):
    """times[i] becomes the nanoseconds of store.increx(keys[i], seconds)."""
    cdef Py_ssize_t index
    cdef int64_t start, took
    cdef long before = switches(), now
    increx = store.increx
    for index in range(len(keys)):
        key = keys[index]
        start = stamp_ns()
        increx(key, seconds)
        took = stamp_ns() - start
        if took > SUSPICIOUS_NS or index & 63 == 0:
            now = switches()
            if now != before:
                before = now
                took = -1
        times[index] = took


def dict_calls(dict store, list keys, int64_t[::1] times):
    """The same of store[key] = store.get(key, 0) + 1."""
    cdef Py_ssize_t index
    cdef int64_t start, took
    cdef long before = switches(), now
    for index in range(len(keys)):
        key = keys[index]
        start = stamp_ns()
        store[key] = store.get(key, 0) + 1
        took = stamp_ns() - start
        if took > SUSPICIOUS_NS or index & 63 == 0:
            now = switches()
            if now != before:
                before = now
                took = -1
        times[index] = took
