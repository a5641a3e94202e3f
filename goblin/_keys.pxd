# The keys of limiters as bytes: what follows the brace. The same in every version, and on every kind of store.
from cpython.bool cimport PyBool_Check
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_Check
from cpython.unicode cimport PyUnicode_Check
from libc.string cimport memcpy

from goblin import errors
from goblin._args cimport PyUnicode_DATA, PyUnicode_GET_LENGTH, PyUnicode_IS_COMPACT_ASCII


cdef inline bytes exact_part(object key):
    """What follows the brace for a key that is not a str: its form and its bytes. No two different keys meet."""
    if PyBytes_Check(key):
        return b"=" + PyBytes_FromStringAndSize(PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
    if PyLong_Check(key) and not PyBool_Check(key):
        return b"#" + int.__repr__(key).encode()
    if isinstance(key, tuple):
        if type(key) is tuple:
            plain = plain_tuple(<tuple>key)
            if plain is not None:
                return plain
        return ascii(tuple([exact_element(part) for part in tuple.__iter__(key)])).encode()
    raise TypeError(f"key must be str, bytes, int or a tuple of those, not {errors._type_name(type(key))}")


cdef inline bytes plain_tuple(tuple key):
    """What ascii() makes of a tuple of plain str, several times faster; None where one would need escapes."""
    cdef Py_ssize_t i, j, length, total = 2 + (len(key) == 1)  # brackets, and the comma that makes one a tuple
    cdef const char *data
    cdef char *out
    cdef bytes text
    for i in range(len(key)):
        part = key[i]
        if type(part) is not str or not PyUnicode_IS_COMPACT_ASCII(part):
            return None
        data = <const char *>PyUnicode_DATA(part)
        length = PyUnicode_GET_LENGTH(part)
        for j in range(length):
            if data[j] < c" " or data[j] > c"~" or data[j] == c"'" or data[j] == c"\\":
                return None
        total += length + 2 + 2 * (i > 0)
    text = PyBytes_FromStringAndSize(NULL, total)
    out = PyBytes_AS_STRING(text)
    out[0] = c"("
    out += 1
    for i in range(len(key)):
        part = key[i]
        if i > 0:
            memcpy(out, b", ", 2)
            out += 2
        length = PyUnicode_GET_LENGTH(part)
        out[0] = c"'"
        memcpy(out + 1, PyUnicode_DATA(part), length)
        out[length + 1] = c"'"
        out += length + 2
    if len(key) == 1:
        out[0] = c","
        out += 1
    out[0] = c")"
    return text


cdef inline object exact_element(object part):
    if PyUnicode_Check(part):
        return part if type(part) is str else str.__str__(part)
    if PyBytes_Check(part):
        return PyBytes_FromStringAndSize(PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
    if PyLong_Check(part) and not PyBool_Check(part):
        return int.__index__(part)
    raise TypeError(f"key parts must be str, bytes or int, not {errors._type_name(type(part))}")
