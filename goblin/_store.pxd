# A store's C state as a whole: made, bounded, counted, freed.
from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from goblin._step cimport GOB_SHARDS, Store, lock_all, unlock_all
from goblin._table cimport gob_table_free, gob_table_init

cdef enum:
    KEYS_PER_SHARD = 4096  # a bounded store has several shards only where each may hold that many: see bound_store()


cdef inline void free_store(Store *store) noexcept nogil:
    cdef uint32_t i
    for i in range(<uint32_t>GOB_SHARDS):
        gob_table_free(&store.shards[i].table)


cdef inline bint init_store(Store *store) noexcept nogil:
    """False: no memory, and nothing is held."""
    cdef uint32_t i
    memset(store, 0, sizeof(Store))
    store.shard_mask = GOB_SHARDS - 1
    for i in range(<uint32_t>GOB_SHARDS):
        store.shards[i].store = store
        store.shards[i].max_keys = UINT64_MAX
        if not gob_table_init(&store.shards[i].table):
            free_store(store)
            return False
    return True


cdef inline void bound_store(Store *store, uint64_t max_keys) noexcept nogil:
    """Each shard gets its part of the bound, so no shard has to ask another. Keys spread evenly, so that costs a few
    per cent of the room where parts are large; where they are not, the store has one shard."""
    cdef uint32_t i
    if max_keys == UINT64_MAX:
        return
    if max_keys // GOB_SHARDS < KEYS_PER_SHARD:
        store.shard_mask = 0
    for i in range(store.shard_mask + 1):
        store.shards[i].max_keys = max_keys // (store.shard_mask + 1)


cdef inline bint in_use(Store *store) noexcept nogil:
    """Whether any step has read the clock."""
    cdef uint32_t i
    cdef bint used = False
    lock_all(store)
    for i in range(store.shard_mask + 1):
        used = used or store.shards[i].latest_ns != 0
    unlock_all(store)
    return used or store.latest_manual_ns != 0


cdef inline uint64_t count_entries(Store *store) noexcept nogil:
    cdef uint64_t count = 0
    cdef uint32_t i
    lock_all(store)
    for i in range(store.shard_mask + 1):
        count += store.shards[i].table.count
    unlock_all(store)
    return count
