"""The floor: methods with the core's signatures that do nothing. What they cost is the call itself, and no counter
written in Cython can be called for less. Built by floor.py with the core's own directives and flags."""


cdef class Empty:
    def increx(self, key, seconds):
        return 1

    def incrbound(self, key, delta, max, *, seconds=None):
        return 1
