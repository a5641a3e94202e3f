/* What differs between CPython versions: the hash of a buffer, and the hash that a str keeps. */
#ifndef GOB_PYPORT_H
#define GOB_PYPORT_H

#include "_alloc.h"
#include "_port.h"
#include <Python.h>
#include <math.h>

/* CPython's own keyed hash (SipHash, seeded per process) of a buffer: what hash(bytes) gives. */
GOB_FN Py_hash_t gob_hash_buffer(const char *data, Py_ssize_t length) {
#if PY_VERSION_HEX >= 0x030E0000
    return GOB_HASH(Py_HashBuffer(data, length));
#else
    Py_hash_t hash;
    if (length == 0) return GOB_HASH(0);
    hash = PyHash_GetFuncDef()->hash(data, length);
    return GOB_HASH(hash == -1 ? -2 : hash);
#endif
}

/* The hash of an exact str, from the object where it was computed before. */
GOB_FN Py_hash_t gob_hash_str(PyObject *text) {
#ifndef Py_GIL_DISABLED
    Py_hash_t hash = ((PyASCIIObject *)text)->hash;
    if (GOB_LIKELY(hash != -1)) return GOB_HASH(hash);
#endif
    return GOB_HASH(PyUnicode_Type.tp_hash(text));
}

/* bytes' own hash, never a subclass's. */
GOB_FN Py_hash_t gob_hash_bytes(PyObject *data) { return GOB_HASH(PyBytes_Type.tp_hash(data)); }

/* The value of an exact int that fits one digit or so, without a call; false: somebody else has to look. */
GOB_FN bool gob_small_int(PyObject *value, int64_t *out) {
#if PY_VERSION_HEX >= 0x030C0000
    if (!PyUnstable_Long_IsCompact((PyLongObject *)value)) return false;
    *out = (int64_t)PyUnstable_Long_CompactValue((PyLongObject *)value);
    return true;
#else
    Py_ssize_t size = Py_SIZE(value); /* the number of digits, with the sign */
    if (size == 1) {
        *out = (int64_t)((PyLongObject *)value)->ob_digit[0];
        return true;
    }
    if (size == -1) {
        *out = -(int64_t)((PyLongObject *)value)->ob_digit[0];
        return true;
    }
    return false;
#endif
}

/* Seconds to nanoseconds, to the nearest, ties to even, exactly (a plain product is off by one now and then). False
 * for NaN, infinities and what int64 cannot hold. */
GOB_FN bool gob_seconds_to_ns(double seconds, int64_t *out) {
    double whole, fraction = modf(seconds, &whole), product, error, rounded, rest;
    int64_t ns;
    if (!(whole > -9.2e9 && whole < 9.2e9)) return false;
    product = fraction * 1e9;
    error = fma(fraction, 1e9, -product); /* what the product lost */
    rounded = nearbyint(product);
    rest = product - rounded; /* exact, in -0.5 .. 0.5 */
    if (rest == 0.5 && error > 0)
        rounded += 1;
    else if (rest == -0.5 && error < 0)
        rounded -= 1;
    ns = (int64_t)whole * 1000000000;
    return !gob_add_overflows(ns, (int64_t)rounded, out);
}

#endif /* GOB_PYPORT_H */
