# Iteration over a store, for the core.
from goblin._step cimport Shard


cdef object scan(object owner, Shard *shard, bytes pattern, bint with_values)
