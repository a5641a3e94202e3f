# The hash map's declarations, with exact widths: a wrong one here truncates in silence.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "_alloc.h" nogil:  # before _table.h: it names the allocator
    void *GOB_MALLOC(size_t size)
    void GOB_FREE(void *p)
    enum:
        GOB_DEBUGGING
    int64_t gob_debug_allocations()
    void gob_debug_fail(int64_t n)
    void gob_debug_force_hash(bint force, uint64_t hash)


cdef extern from "_port.h" nogil:
    bint gob_add_overflows(int64_t a, int64_t b, int64_t *out)
    bint gob_sub_overflows(int64_t a, int64_t b, int64_t *out)
    bint gob_mul_overflows(int64_t a, int64_t b, int64_t *out)
    int64_t gob_monotonic_ns()
    int64_t gob_coarse_ns()
    int64_t gob_coarse_tick_ns()

    ctypedef struct gob_u128:
        uint64_t high
        uint64_t low

    gob_u128 gob_u128_product(uint64_t a, uint64_t b)
    gob_u128 gob_u128_add(gob_u128 a, gob_u128 b)
    gob_u128 gob_u128_sub(gob_u128 a, gob_u128 b)
    gob_u128 gob_u128_from(uint64_t a)
    bint gob_u128_less(gob_u128 a, gob_u128 b)
    uint64_t gob_u128_divide(gob_u128 a, uint64_t divisor, uint64_t *remainder)

    bint GOB_LIKELY(bint condition)
    bint GOB_UNLIKELY(bint condition)


cdef extern from "_table.h" nogil:
    enum:
        GOB_KEY_MAX
    const int64_t GOB_NO_DEADLINE

    ctypedef struct gob_record:
        uint64_t hash
        int64_t value
        int64_t deadline
        uint16_t key_len
        uint8_t kind
        uint8_t flags

    ctypedef struct gob_hand:
        uint64_t hash
        uint32_t number

    ctypedef struct gob_victim:
        gob_record *record
        uint64_t hash

    ctypedef struct gob_table:
        uint64_t count
        uint64_t slots
        uint64_t bytes

    ctypedef struct gob_probe:
        pass

    ctypedef struct gob_item:
        int64_t value
        int64_t deadline
        uint64_t key_at
        uint16_t key_len
        uint8_t kind
        uint8_t flags

    ctypedef struct gob_page:
        uint64_t cursor
        bint done
        uint32_t count
        gob_item *items
        const unsigned char *keys

    bint gob_table_init(gob_table *t)
    void gob_table_clear(gob_table *t)
    void gob_table_free(gob_table *t)
    gob_probe gob_probe_begin(const gob_table *t, uint64_t hash)
    gob_record *gob_probe_end(gob_probe p, uint64_t hash, const void *key, size_t key_len)
    gob_record *gob_table_find(const gob_table *t, uint64_t hash, const void *key, size_t key_len)
    gob_record *gob_table_insert(gob_table *t, uint64_t hash, const void *key, size_t key_len)
    void gob_table_erase(gob_table *t, gob_record *r)
    bint gob_expired(const gob_record *r, int64_t now)
    void gob_table_erase_several(gob_table *t, gob_victim *victims, size_t count)
    gob_record *gob_hand_at(const gob_table *t, gob_hand *hand)
    uint32_t gob_table_tend(gob_table *t, int64_t now)
    uint64_t gob_table_sweep_all(gob_table *t, int64_t now)
    bint gob_table_page(const gob_table *t, int64_t now, gob_page *page)
    void gob_page_free(gob_page *page)
    const char *gob_table_check(const gob_table *t)
