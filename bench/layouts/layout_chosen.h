/* (a) goblin/_table.h as it is: 4-byte index slots over dense 48-byte records, in chunks of 64. */
typedef gob_table chosen;

static inline void chosen_init(chosen *t, bool spread) {
    (void)spread;
    if (!gob_table_init(t)) exit(2);
}

static inline int64_t *chosen_find_or_insert(chosen *t, uint64_t hash, const void *key, size_t key_len) {
    gob_record *r = gob_table_find(t, hash, key, key_len);
    if (!r) r = gob_table_insert(t, hash, key, key_len);
    if (!r) exit(2);
    return &r->value;
}

static inline void chosen_erase(chosen *t, uint64_t hash, const void *key, size_t key_len) {
    gob_record *r = gob_table_find(t, hash, key, key_len);
    if (r) gob_table_erase(t, r);
}

static inline uint64_t chosen_bytes(const chosen *t) { return t->bytes; }
