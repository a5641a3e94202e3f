# Arguments: what Python hands in becomes bytes with a hash, an int64, or nanoseconds; or an exception that says which
# argument it was. All of this happens before the lock is taken and the table is touched.
#
# No code of the caller runs for a key. For an integer only `__index__` can run, and its exceptions pass through.
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_GET_SIZE
from cpython.datetime cimport PyDelta_Check, timedelta
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_Index
from cpython.bool cimport PyBool_Check
from cpython.unicode cimport PyUnicode_Check, PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint64_t

from goblin import errors
from goblin._rules cimport COUNTER, MOST_IN_WINDOW, SLIDING_WINDOW, Quota, horizon_of
from goblin._table cimport GOB_KEY_MAX, GOB_LIKELY, GOB_UNLIKELY, gob_add_overflows, gob_mul_overflows

cdef extern from "_pyport.h":
    Py_hash_t gob_hash_buffer(const char *data, Py_ssize_t length)
    Py_hash_t gob_hash_str(object text)
    Py_hash_t gob_hash_bytes(object data)
    bint gob_seconds_to_ns(double seconds, int64_t *out)
    bint gob_small_int(object value, int64_t *out)

cdef extern from "Python.h":
    bint PyUnicode_IS_COMPACT_ASCII(object text)
    bint PyUnicode_IS_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void *PyUnicode_DATA(object text)


# One key, borrowed from the caller's object: the argument keeps it alive as long as the call runs, and str and bytes
# cannot change.
cdef struct Key:
    const char *data
    size_t length
    uint64_t hash


cdef enum:
    NS_PER_SECOND = 1_000_000_000
    NS_PER_MS = 1_000_000
    SECONDS_PER_DAY = 86_400


# A relative time. `fits` is False if it leaves int64 in nanoseconds (`ns` then has its sign only); that is reported last,
# after conflicting options and signs.
cdef struct Duration:
    int64_t ns
    bint fits


cdef inline int as_key(object key, Key *out) except -1:
    """A str is its UTF-8 bytes, so "k" and b"k" are one counter: both have one hash, asserted at import."""
    cdef Py_ssize_t length
    if PyUnicode_Check(key):
        if PyUnicode_IS_COMPACT_ASCII(key):  # false for subclasses: the hash they keep could not be trusted
            out.data = <const char *>PyUnicode_DATA(key)
            length = PyUnicode_GET_LENGTH(key)
            out.hash = <uint64_t>gob_hash_str(key)
        else:
            # CPython keeps the UTF-8 form in the str, so a repeated key is encoded once. Raises on lone surrogates.
            out.data = PyUnicode_AsUTF8AndSize(key, &length)
            # Of a non-ASCII str, hash() depends on its internal width; only its bytes can agree with bytes' hash.
            out.hash = <uint64_t>gob_hash_buffer(out.data, length)
    elif PyBytes_Check(key):
        out.data = PyBytes_AS_STRING(key)
        length = PyBytes_GET_SIZE(key)
        out.hash = <uint64_t>gob_hash_bytes(key)
    else:
        raise errors.not_a_key(key)
    if GOB_UNLIKELY(length > GOB_KEY_MAX):
        raise errors.key_too_long(length)
    out.length = <size_t>length
    return 0


cdef inline Key *as_keys(tuple keys) except NULL:
    """Keys of one call as a C array, so that the step itself touches no Python object. The tuple keeps them alive; the
    caller frees the array."""
    cdef Py_ssize_t i, count = len(keys)
    cdef Key *array = <Key *>PyMem_Malloc((<size_t>count + 1) * sizeof(Key))
    if array == NULL:
        raise MemoryError()
    try:
        for i in range(count):
            as_key(keys[i], &array[i])
    except BaseException:
        PyMem_Free(array)
        raise
    return array


cdef inline int as_int64(object value, str name, int64_t *out) except -1:
    if GOB_LIKELY(PyLong_CheckExact(value) and gob_small_int(value, out)):
        return 0
    return as_wide_int64(value, name, out)


cdef inline int as_wide_int64(object value, str name, int64_t *out) except -1:
    cdef int overflow = 0
    if not PyLong_CheckExact(value):
        if PyBool_Check(value) or not PyIndex_Check(value):
            raise errors.not_an_integer(name, value)
        value = PyNumber_Index(value)
    out[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    if GOB_UNLIKELY(overflow != 0):
        raise errors.outside_int64(name, value)
    return 0


cdef inline int as_duration(object value, str name, int64_t unit_ns, Duration *out) except -1:
    """`unit_ns` nanoseconds each if an integer; a timedelta exactly, where it has no fraction of a millisecond."""
    cdef int64_t amount
    if GOB_LIKELY(PyLong_CheckExact(value) and gob_small_int(value, &amount)):
        pass
    elif PyDelta_Check(value):
        # The C fields: a subclass cannot answer otherwise. At most 999,999,999 days, so milliseconds fit int64.
        if (<timedelta>value).microsecond % 1000:
            raise errors.too_fine(name, value)
        amount = ((<int64_t>(<timedelta>value).day * SECONDS_PER_DAY + (<timedelta>value).second) * 1000
                  + (<timedelta>value).microsecond // 1000)
        unit_ns = NS_PER_MS
    else:
        as_wide_int64(value, name, &amount)
    out.fits = not gob_mul_overflows(amount, unit_ns, &out.ns)
    if GOB_UNLIKELY(not out.fits):
        out.ns = -1 if amount < 0 else 1
    return 0


cdef inline int raise_bad_expiry(object ex, object px) except -1:
    if ex is not None:
        raise errors.bad_time("ex", ex, 1)
    raise errors.bad_time("px", px, 1)


cdef inline int as_expiry(object ex, object px, Duration *ttl) except -1:
    """Convert `ex` and `px`, not yet judging them. Returns whether one was given."""
    ttl.ns, ttl.fits = 0, True
    if ex is not None:
        as_duration(ex, "ex", NS_PER_SECOND, ttl)
    if px is not None:
        as_duration(px, "px", NS_PER_MS, ttl)
    return ex is not None or px is not None


cdef inline int judge_expiry(object ex, object px, const Duration *ttl) except -1:
    """After the conversions: conflicts, then signs, then ranges."""
    if ex is not None and px is not None:
        raise errors.conflict("ex", "px")
    if (ex is not None or px is not None) and (not ttl.fits or ttl.ns <= 0):
        raise_bad_expiry(ex, px)
    return 0


cdef inline int count_of(object value, str name, Py_ssize_t *out) except -1:
    cdef int64_t wide
    as_int64(value, name, &wide)
    out[0] = <Py_ssize_t>max(wide, 0)
    return 0


cdef inline bytes as_pattern(object match):
    if match is None:
        return None
    if isinstance(match, str):
        return (<str>match).encode()
    if isinstance(match, bytes):
        return bytes.__getitem__(match, slice(None)) if type(match) is not bytes else match
    raise TypeError(f"match must be str, bytes or None, not {errors._type_name(type(match))}")


cdef inline bint timedelta_ns(object value, int64_t *out) noexcept:
    """A timedelta exactly; False if it leaves int64."""
    cdef int64_t ns
    cdef int64_t seconds = <int64_t>(<timedelta>value).day * SECONDS_PER_DAY + (<timedelta>value).second
    return (not gob_mul_overflows(seconds, NS_PER_SECOND, &ns)
            and not gob_add_overflows(ns, <int64_t>(<timedelta>value).microsecond * 1000, out))


cdef inline int as_period(object value, str name, Duration *out) except -1:
    """The period of a limit: an integer, a float (to the nearest nanosecond) or a timedelta. NaN and infinities come out
    as 0, which no period may be; what does not fit keeps its sign."""
    cdef double seconds
    if PyLong_CheckExact(value):
        as_duration(value, name, NS_PER_SECOND, out)
    elif PyFloat_Check(value):
        seconds = PyFloat_AS_DOUBLE(value)
        out.fits = gob_seconds_to_ns(seconds, &out.ns)
        if not out.fits:
            out.fits = seconds - seconds != 0  # NaN or infinite
            out.ns = 0 if out.fits else -1 if seconds < 0 else 1
    elif PyDelta_Check(value):
        out.fits = timedelta_ns(value, &out.ns)
        if not out.fits:
            out.ns = -1 if (<timedelta>value).day < 0 else 1
    elif PyBool_Check(value) or not PyIndex_Check(value):
        raise errors.not_a_number(name, value)
    else:
        as_duration(value, name, NS_PER_SECOND, out)
    return 0


cdef inline object bad_quota(
    int kind, object limit, int64_t amount, object seconds, bint bad_period, object cost, int64_t cost_value,
    object burst, int64_t burst_value
):
    """The first fault of those that as_quota() has seen, as an exception."""
    if amount < 0:
        return errors.below("limit", limit, 0)
    if bad_period:
        return errors.not_a_period("seconds", seconds)
    if cost_value < 0:
        return errors.below("cost", cost, 0)
    if burst is not None and burst_value < 1:
        return errors.below("burst", burst, 1)
    if kind == SLIDING_WINDOW and amount > MOST_IN_WINDOW:
        return errors.above("limit", limit, MOST_IN_WINDOW)
    return errors.bad_time("seconds", seconds, 0)


cdef inline int as_quota(
    int kind, object limit, object seconds, object cost, object burst, Quota *out, int64_t *cost_out
) except -1:
    """The arguments that the three algorithms share, converted from left to right, then their signs, then ranges."""
    cdef Duration period
    cdef bint endless = kind == COUNTER and seconds is None
    out.kind = kind
    as_int64(limit, "limit", &out.amount)
    if endless:
        period.ns, period.fits = 0, True
    else:
        as_period(seconds, "seconds", &period)
    as_int64(cost, "cost", cost_out)
    out.burst = out.amount
    if burst is not None:
        as_int64(burst, "burst", &out.burst)
    if GOB_UNLIKELY((out.amount | cost_out[0]) < 0 or (period.ns <= 0 and not endless) or not period.fits
                    or (burst is not None and out.burst < 1) or (kind == SLIDING_WINDOW and out.amount > MOST_IN_WINDOW)):
        raise bad_quota(kind, limit, out.amount, seconds, period.ns <= 0 and not endless, cost, cost_out[0], burst, out.burst)
    out.period_ns = period.ns
    out.horizon_ns = horizon_of(out)
    return 0


cdef inline int as_value(object value, str name, int64_t *out) except -1:
    """For set and its kin: an integer, or a str or bytes in the one canonical base-10 form."""
    cdef const char *text = NULL
    cdef Py_ssize_t length = -1
    if PyUnicode_Check(value):
        # A str that is not ASCII is refused without being encoded (a lone surrogate could not be).
        if PyUnicode_IS_ASCII(value):
            text = PyUnicode_AsUTF8AndSize(value, &length)
    elif PyBytes_Check(value):
        text = PyBytes_AS_STRING(value)
        length = PyBytes_GET_SIZE(value)
    else:
        return as_int64(value, name, out)
    if length < 0 or not parse_canonical(text, length, out):
        raise errors.not_canonical(name, value)
    return 0


@cython.cdivision(True)  # the divisor is a constant
cdef inline bint parse_canonical(const char *text, Py_ssize_t length, int64_t *out) noexcept nogil:
    """The form in which an int64 prints: no sign but -, no leading zero, no space, ASCII digits only."""
    cdef Py_ssize_t i = 0
    cdef bint negative = length > 0 and text[0] == b"-"
    cdef uint64_t magnitude = 0, digit, most = (<uint64_t>1 << 63) - (not negative)
    if negative:
        i = 1
    if length - i < 1 or length - i > 19:
        return False
    if text[i] == b"0":
        out[0] = 0
        return length == 1
    while i < length:
        if text[i] < b"0" or text[i] > b"9":
            return False
        digit = <uint64_t>(text[i] - c'0')
        if magnitude > (most - digit) // 10:
            return False
        magnitude = magnitude * 10 + digit
        i += 1
    out[0] = <int64_t>(0 - magnitude) if negative else <int64_t>magnitude
    return True
