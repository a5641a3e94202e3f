"""What is around the step of an `increx`, and nothing of the step: the key's bytes and hash, a number in, a number out.

Built by abi3.py with the whole API of CPython and with the limited one.
"""
from libc.stdint cimport int64_t


cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    Py_hash_t PyObject_Hash(object thing) except -1


cdef class Counters:
    cdef int64_t value

    def increx(self, key, seconds):
        cdef Py_ssize_t size
        cdef const char *data
        cdef Py_hash_t hash_value
        cdef int64_t ttl
        if not isinstance(key, str):
            raise TypeError("key must be str")
        data = PyUnicode_AsUTF8AndSize(key, &size)
        hash_value = PyObject_Hash(key)
        ttl = seconds
        self.value = self.value % 200 + 1 + (hash_value == ttl + size + data[0])  # so that nothing is left out
        return self.value
