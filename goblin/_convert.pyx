"""The core's own argument rules, for stores that are not in this process: objects in, exact bytes and ints out.

So the rules stand once, in _args.pxd and _decide.pyx: what a RedisCounters refuses, it refuses in the same words.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.datetime cimport import_datetime
from libc.stdint cimport int64_t

from goblin import errors  # no-cython-lint: for the inline functions of _args.pxd
from goblin._args cimport (
    NS_PER_MS, NS_PER_SECOND, Duration, Key, as_duration, as_expiry, as_int64, as_key, as_pattern, as_quota, as_value,
    count_of, judge_expiry,
)
from goblin._decide cimport Entries, Mode, as_entries, as_stamps
from goblin._rules cimport COUNTER, GCRA, SLIDING_WINDOW, Quota

import_datetime()

KINDS = {COUNTER: "counter", SLIDING_WINDOW: "sliding-window", GCRA: "gcra"}
CODES = {name: code for code, name in KINDS.items()}


def key_bytes(key):
    """A key's bytes."""
    cdef Key k
    as_key(key, &k)
    return PyBytes_FromStringAndSize(k.data, <Py_ssize_t>k.length)


def key_texts(keys):
    """Keys on their way back: each a str where its bytes are UTF-8, else the bytes."""
    cdef list texts = []
    cdef bytes data
    for data in keys:
        try:
            texts.append(data.decode())
        except UnicodeDecodeError:
            texts.append(data)
    return texts


def integer(value, str name not None):
    """An integer within int64."""
    cdef int64_t number
    as_int64(value, name, &number)
    return number


def stored_value(value):
    """What set() and its kin take: an integer, or one in its canonical form."""
    cdef int64_t number
    as_value(value, "value", &number)
    return number


def count(value, str name not None):
    """How many, at least 0."""
    cdef Py_ssize_t number
    count_of(value, name, &number)
    return number


def pattern(match):
    """The bytes of a glob, or None."""
    return as_pattern(match)


def duration(value, str name not None):
    """(nanoseconds, True), or (their sign, False) where they leave int64: that is reported last, by whoever asked."""
    cdef Duration ttl
    as_duration(value, name, NS_PER_MS if name == "milliseconds" else NS_PER_SECOND, &ttl)
    return ttl.ns, bool(ttl.fits)


def expiry(ex, px):
    """The same for the options ex and px; None where neither was given. Not yet judged."""
    cdef Duration ttl
    if not as_expiry(ex, px, &ttl):
        return None
    return ttl.ns, bool(ttl.fits)


def judged_expiry(ex, px, ttl):
    """The nanoseconds of expiry(), or None; conflicts first, then signs, then ranges."""
    cdef Duration judged
    judged.ns, judged.fits = (0, True) if ttl is None else ttl
    judge_expiry(ex, px, &judged)
    return None if ttl is None else judged.ns


def quota(str kind not None, limit, seconds, cost, burst):
    """((kind, amount, period, burst, horizon), cost) of the arguments that the three algorithms share."""
    cdef Quota made
    cdef int64_t cost_value
    as_quota(CODES[kind], limit, seconds, cost, burst, &made, &cost_value)
    return (kind, made.amount, made.period_ns, made.burst, made.horizon_ns), cost_value


cdef list quotas_of(Entries hits):
    cdef Py_ssize_t i
    return [
        (KINDS[hits.quotas[i].kind], hits.quotas[i].amount, hits.quotas[i].period_ns, hits.quotas[i].burst,
         hits.quotas[i].horizon_ns)
        for i in range(hits.count)
    ]


def entries(pairs, cost, mode, max_wait_ns):
    """(keys, quotas, both as they were given, cost, longest wait) of the arguments of decide()."""
    cdef int64_t cost_value, most_wait_ns
    cdef Mode mode_value
    cdef Entries hits = as_entries(pairs, cost, mode, max_wait_ns, &cost_value, &mode_value, &most_wait_ns)
    given = list(zip(hits.keys, hits.quota_tuples))
    return [key_bytes(key) for key in hits.keys], quotas_of(hits), given, cost_value, most_wait_ns


def stamps(stamps, cost):
    """(keys, quotas, marks, cost) of the arguments of refund()."""
    cdef int64_t cost_value
    cdef Py_ssize_t i
    cdef Entries hits = as_stamps(stamps, cost, &cost_value)
    marks = [hits.marks_ns[i] for i in range(hits.count)]
    return [key_bytes(key) for key in hits.keys], quotas_of(hits), marks, cost_value


def state(words):
    """Of a stamp: None, or a tuple of three exact ints."""
    if words is None:
        return None
    if type(words) is not tuple or len(words) != 3:
        raise TypeError("a stamp's states are None or (deadline_ns, excess, told_ns)")
    return tuple([integer(word, "stamp") for word in words])
