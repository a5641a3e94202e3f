"""ManualClock: time that moves only when told to."""
cimport cython
from cpython.datetime cimport PyDelta_Check, import_datetime
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from libc.math cimport isfinite
from libc.stdint cimport int64_t

from goblin import errors
from goblin._args cimport (
    NS_PER_SECOND, Duration, as_duration, as_int64, gob_seconds_to_ns, timedelta_ns,
)
from goblin._step cimport gob_load, gob_store
from goblin._table cimport gob_add_overflows

import_datetime()


cdef enum:
    UNDECIDED = -2  # before __init__


cdef int move(ManualClock self, int64_t amount_ns) except -1:
    cdef int64_t moved_ns
    cdef bint leaves
    with cython.critical_section(self):
        leaves = gob_add_overflows(self.reading_ns, amount_ns, &moved_ns) or moved_ns < 0
        if not leaves:
            gob_store(&self.reading_ns, moved_ns)
    if leaves:
        raise out_of_range(self)
    return 0


cdef object out_of_range(ManualClock self):
    return OverflowError(
        f"the clock would leave its range: now_ns={self.reading_ns} (allowed: 0 to {errors.INT64_MAX})")


@cython.auto_pickle(False)  # its __setstate__ would take readings out of range
cdef class ManualClock:
    """ManualClock(now_ns=0, *, coarse_lag_ns=None)
--

A clock that moves only when told to, for tests: `Counters(clock=ManualClock())`.

    now_ns: the first reading, nanoseconds, 0 to 2**63-1. One clock may serve several stores. It is a C integer, not a
    callback, so commands on a store that reads it stay atomic. coarse_lag_ns: None, or how far the clock's coarse
    reading is behind, nanoseconds >= 0: a store then takes entries that are alive by it, with 100 ms to spare, for alive,
    as it does by the system's coarse clock (docs/semantics.md, "Time"); an expiry is noticed late by a lag of more.

    >>> clock = goblin.ManualClock()
    >>> counters = goblin.Counters(clock=clock)
    >>> counters.increx("k", 60)
    1
    >>> clock.advance(60)
    >>> counters.get("k") is None
    True
    """

    def __cinit__(self):
        self.lag_ns = UNDECIDED

    def __init__(self, now_ns=0, *, coarse_lag_ns=None):
        cdef int64_t reading_ns, lag_ns = NO_COARSE
        as_int64(now_ns, "now_ns", &reading_ns)
        if coarse_lag_ns is not None:
            as_int64(coarse_lag_ns, "coarse_lag_ns", &lag_ns)
            if lag_ns < 0:
                raise errors.below("coarse_lag_ns", coarse_lag_ns, 0)
        if reading_ns < 0:
            raise OverflowError(f"now_ns={reading_ns} (allowed: 0 to {errors.INT64_MAX})")
        if self.lag_ns != UNDECIDED and lag_ns != self.lag_ns:
            raise ValueError("a clock keeps its coarse_lag_ns: __init__ was called again with another")
        self.lag_ns = lag_ns
        gob_store(&self.reading_ns, reading_ns)

    @property
    def now_ns(self):
        """The reading, nanoseconds, 0 to 2**63-1. Read-only."""
        return gob_load(&self.reading_ns)

    @property
    def coarse_lag_ns(self):
        """How far the coarse reading is behind, nanoseconds; None: there is none, each call reads exactly. Read-only."""
        return None if self.lag_ns < 0 else self.lag_ns

    def advance(self, seconds):
        """Move by `seconds`: an int, a float (to the nearest nanosecond) or a timedelta.

        Negative amounts move it back. Leaving 0..2**63-1 ns: OverflowError, and the clock has not moved. A float that
        is NaN or infinite: ValueError.

        >>> clock.advance(0.25)
        >>> clock.now_ns
        250000000
        """
        cdef int64_t amount_ns
        cdef Duration duration
        if PyFloat_Check(seconds):
            if not gob_seconds_to_ns(PyFloat_AS_DOUBLE(seconds), &amount_ns):
                if not isfinite(PyFloat_AS_DOUBLE(seconds)):
                    raise ValueError(f"seconds={float.__repr__(seconds)} (allowed: a finite number)")
                raise out_of_range(self)
        elif PyDelta_Check(seconds):
            if not timedelta_ns(seconds, &amount_ns):
                raise out_of_range(self)
        else:
            as_duration(seconds, "seconds", NS_PER_SECOND, &duration)
            if not duration.fits:
                raise out_of_range(self)
            amount_ns = duration.ns
        move(self, amount_ns)

    def advance_ns(self, ns):
        """Move by `ns` nanoseconds, an int; otherwise as `advance`.

        >>> clock.advance_ns(60 * 10**9)
        """
        cdef int64_t amount_ns
        as_int64(ns, "ns", &amount_ns)
        move(self, amount_ns)

    def __repr__(self):
        return f"<goblin.{errors._type_name(type(self))}: {self.reading_ns} ns>"
