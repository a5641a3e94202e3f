# Iteration over a store, for the core.
from goblin._step cimport Store


cdef object scan(object owner, Store *store, bytes pattern, bint with_values)
