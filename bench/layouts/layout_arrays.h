/* (d) As (a), but each segment's records lie in one array, which grows by an eighth of its size at a time (realloc),
 * instead of in chunks. */
typedef struct arrays_segment {
    uint32_t *index;
    gob_record *records;
    uint32_t mask, count, limit, split_at, room;
    uint8_t shift, depth;
} arrays_segment;

typedef struct arrays {
    directory directory;
    uint64_t bytes;
} arrays;

static inline uint32_t arrays_entry(const arrays_segment *s, uint64_t hash, uint32_t number) {
    return (uint32_t)hash << s->shift | (number + 1);
}

static inline void arrays_index_put(arrays_segment *s, uint64_t hash, uint32_t number) {
    uint32_t i = (uint32_t)hash & s->mask;
    while (s->index[i]) i = (i + 1) & s->mask;
    s->index[i] = arrays_entry(s, hash, number);
}

static void arrays_index_new(arrays *t, arrays_segment *s, uint8_t shift) {
    size_t size = sizeof *s->index << shift;
    uint32_t capacity = gob_capacity(shift), number;
    if (s->index) {
        t->bytes -= sizeof *s->index << s->shift;
        count_free(s->index);
    }
    s->index = (uint32_t *)memset(count_malloc(size), 0, size);
    t->bytes += size;
    s->shift = shift;
    s->mask = ((uint32_t)1 << shift) - 1;
    s->limit = s->split_at < capacity ? s->split_at : capacity;
    for (number = 0; number < s->count; number++) arrays_index_put(s, s->records[number].hash, number);
}

static void arrays_resize(arrays *t, arrays_segment *s, uint32_t room) {
    t->bytes += (uint64_t)room * sizeof *s->records - (uint64_t)s->room * sizeof *s->records;
    s->records = (gob_record *)count_realloc(s->records, room * sizeof *s->records);
    s->room = room;
}

static arrays_segment *arrays_segment_new(arrays *t, uint64_t hash, uint8_t depth, uint32_t count) {
    arrays_segment *s = (arrays_segment *)count_malloc(sizeof *s);
    memset(s, 0, sizeof *s);
    t->bytes += sizeof *s;
    s->depth = depth;
    s->split_at = gob_split_point(hash, depth);
    arrays_index_new(t, s, gob_shift_for(count));
    arrays_resize(t, s, count + 8);
    return s;
}

static inline void arrays_init(arrays *t, bool spread) {
    (void)spread;
    t->bytes = sizeof(void *);
    directory_init(&t->directory, arrays_segment_new(t, 0, 0, 1));
}

static void __attribute__((noinline)) arrays_make_room(arrays *t, uint64_t hash) {
    arrays_segment *s = (arrays_segment *)directory_at(&t->directory, hash), *right;
    uint64_t bit = UINT64_C(1) << (63 - s->depth), directory_size = UINT64_C(1) << t->directory.depth;
    uint32_t number, rights = 0, kept = 0, old = s->count;
    if (s->count < s->split_at) {
        arrays_index_new(t, s, (uint8_t)(s->shift + 1));
        return;
    }
    for (number = 0; number < old; number++) rights += (s->records[number].hash & bit) != 0;
    right = arrays_segment_new(t, gob_first_hash(hash, s->depth) | bit, (uint8_t)(s->depth + 1), rights + 1);
    for (number = 0; number < old; number++) {
        const gob_record *r = &s->records[number];
        if (r->hash & bit) {
            arrays_index_put(right, r->hash, right->count);
            right->records[right->count++] = *r;
        } else
            s->records[kept++] = *r;
    }
    s->count = kept;
    arrays_resize(t, s, kept + kept / 8 + 8);
    directory_split(&t->directory, hash, s->depth, right);
    t->bytes += ((UINT64_C(1) << t->directory.depth) - directory_size) * sizeof(void *);
    s->depth++;
    s->split_at = gob_split_point(hash & ~bit, s->depth);
    arrays_index_new(t, s, gob_shift_for(kept + 1));
}

static inline gob_record *arrays_find(const arrays_segment *s, uint64_t hash, const void *key, size_t key_len,
                                      uint32_t *slot) {
    uint32_t wanted = (uint32_t)hash << s->shift, i = (uint32_t)hash & s->mask, entry;
    for (; (entry = s->index[i]) != 0; i = (i + 1) & s->mask) {
        gob_record *r;
        if ((entry ^ wanted) >> s->shift) continue;
        r = &s->records[(entry & s->mask) - 1];
        if (r->hash == hash && r->key_len == key_len && memcmp(r->key, key, key_len) == 0) {
            *slot = i;
            return r;
        }
    }
    return NULL;
}

static int64_t *__attribute__((noinline)) arrays_insert(arrays *t, uint64_t hash, const void *key, size_t key_len) {
    arrays_segment *s;
    gob_record *r;
    while (s = (arrays_segment *)directory_at(&t->directory, hash), s->count >= s->limit) arrays_make_room(t, hash);
    if (s->count == s->room) arrays_resize(t, s, s->room + s->room / 8 + 8);
    r = &s->records[s->count];
    memset(r, 0, sizeof *r);
    r->hash = hash;
    r->deadline = INT64_MAX;
    r->key_len = (uint16_t)key_len;
    memcpy(r->key, key, key_len);
    arrays_index_put(s, hash, s->count++);
    return &r->value;
}

static inline int64_t *arrays_find_or_insert(arrays *t, uint64_t hash, const void *key, size_t key_len) {
    uint32_t slot;
    gob_record *r = arrays_find((arrays_segment *)directory_at(&t->directory, hash), hash, key, key_len, &slot);
    return r ? &r->value : arrays_insert(t, hash, key, key_len);
}

static inline void arrays_erase(arrays *t, uint64_t hash, const void *key, size_t key_len) {
    arrays_segment *s = (arrays_segment *)directory_at(&t->directory, hash);
    uint32_t hole, i, entry, number;
    gob_record *r = arrays_find(s, hash, key, key_len, &hole);
    if (!r) return;
    number = (uint32_t)(r - s->records);
    i = hole;
    while (i = (i + 1) & s->mask, (entry = s->index[i]) != 0) {
        if (((i - (entry >> s->shift)) & s->mask) >= ((i - hole) & s->mask)) {
            s->index[hole] = entry;
            hole = i;
        }
    }
    s->index[hole] = 0;
    s->count--;
    if (number != s->count) {
        const gob_record *last = &s->records[s->count];
        entry = arrays_entry(s, last->hash, s->count);
        i = (uint32_t)last->hash & s->mask;
        while (s->index[i] != entry) i = (i + 1) & s->mask;
        s->index[i] = arrays_entry(s, last->hash, number);
        *r = *last;
    }
    if (s->count + s->count / 4 + 16 < s->room) arrays_resize(t, s, s->count + s->count / 8 + 8);
}

static inline uint64_t arrays_bytes(const arrays *t) { return t->bytes; }
