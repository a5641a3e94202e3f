/* (c) Slots of 32 bytes, two in a cache line, with the key allocated elsewhere; all else as in (b). */
enum { APART_SLOTS = 4096 };

typedef struct apart_key {
    uint16_t len;
    unsigned char bytes[];
} apart_key;

typedef struct apart_slot {
    uint64_t hash;
    int64_t value, deadline;
    apart_key *key; /* NULL: an empty slot */
} apart_slot;

typedef struct apart_segment {
    apart_slot *slots;
    uint32_t mask, count, limit, split_at;
    uint8_t depth;
} apart_segment;

typedef struct apart {
    directory directory;
    uint64_t bytes;
    bool spread;
} apart;

static inline apart_slot *apart_slots(apart *t, uint32_t count) {
    t->bytes += count * sizeof(apart_slot);
    return (apart_slot *)count_zeroed_lines(count * sizeof(apart_slot));
}

static apart_segment *apart_segment_new(apart *t, uint64_t hash, uint8_t depth, uint32_t slots) {
    apart_segment *s = (apart_segment *)count_malloc(sizeof *s);
    t->bytes += sizeof *s;
    s->slots = apart_slots(t, slots);
    s->mask = slots - 1;
    s->limit = slots / 4 * 3;
    s->count = 0;
    s->depth = depth;
    s->split_at = split_point(hash, depth, APART_SLOTS / 4 * 3, t->spread);
    return s;
}

static inline void apart_init(apart *t, bool spread) {
    t->bytes = sizeof(void *);
    t->spread = spread;
    directory_init(&t->directory, apart_segment_new(t, 0, 0, 16));
}

static inline void apart_put(apart_segment *s, const apart_slot *slot) {
    uint32_t i = (uint32_t)slot->hash & s->mask;
    while (s->slots[i].key) i = (i + 1) & s->mask;
    s->slots[i] = *slot;
    s->count++;
}

static inline uint32_t apart_slots_for(uint32_t count) {
    uint32_t slots = 16;
    while (slots / 4 * 3 <= count) slots *= 2;
    return slots;
}

static void __attribute__((noinline)) apart_make_room(apart *t, uint64_t hash) {
    apart_segment *s = (apart_segment *)directory_at(&t->directory, hash);
    apart_slot *old = s->slots;
    uint32_t old_count = s->mask + 1, i;
    if (s->count < s->split_at) { /* twice the slots */
        s->slots = apart_slots(t, old_count * 2);
        s->mask = old_count * 2 - 1;
        s->limit = old_count * 2 / 4 * 3;
        s->count = 0;
        for (i = 0; i < old_count; i++)
            if (old[i].key) apart_put(s, &old[i]);
    } else {
        uint64_t bit = UINT64_C(1) << (63 - s->depth), directory_size = UINT64_C(1) << t->directory.depth;
        uint32_t rights = 0, slots;
        apart_segment *right;
        for (i = 0; i < old_count; i++) rights += old[i].key && (old[i].hash & bit);
        slots = apart_slots_for(rights > s->count / 2 ? rights : s->count - rights);
        right = apart_segment_new(t, gob_first_hash(hash, s->depth) | bit, (uint8_t)(s->depth + 1), slots);
        s->slots = apart_slots(t, slots);
        s->mask = slots - 1;
        s->limit = slots / 4 * 3;
        s->count = 0;
        for (i = 0; i < old_count; i++)
            if (old[i].key) apart_put(old[i].hash & bit ? right : s, &old[i]);
        directory_split(&t->directory, hash, s->depth, right);
        t->bytes += ((UINT64_C(1) << t->directory.depth) - directory_size) * sizeof(void *);
        s->depth++;
        s->split_at = split_point(hash & ~bit, s->depth, APART_SLOTS / 4 * 3, t->spread);
    }
    t->bytes -= old_count * sizeof *old;
    count_free(old);
}

static inline apart_slot *apart_find(const apart_segment *s, uint64_t hash, const void *key, size_t key_len) {
    uint32_t i = (uint32_t)hash & s->mask;
    for (;; i = (i + 1) & s->mask) {
        apart_slot *slot = &s->slots[i];
        if (!slot->key) return NULL;
        if (slot->hash == hash && slot->key->len == key_len && memcmp(slot->key->bytes, key, key_len) == 0) return slot;
    }
}

static int64_t *__attribute__((noinline)) apart_insert(apart *t, uint64_t hash, const void *key, size_t key_len) {
    apart_segment *s;
    apart_slot slot = {0};
    while (s = (apart_segment *)directory_at(&t->directory, hash), s->count >= s->limit || s->count >= s->split_at)
        apart_make_room(t, hash);
    slot.hash = hash;
    slot.deadline = INT64_MAX;
    slot.key = (apart_key *)count_malloc(sizeof *slot.key + key_len);
    t->bytes += sizeof *slot.key + key_len;
    slot.key->len = (uint16_t)key_len;
    memcpy(slot.key->bytes, key, key_len);
    apart_put(s, &slot);
    return &apart_find(s, hash, key, key_len)->value;
}

static inline int64_t *apart_find_or_insert(apart *t, uint64_t hash, const void *key, size_t key_len) {
    apart_slot *slot = apart_find((apart_segment *)directory_at(&t->directory, hash), hash, key, key_len);
    return slot ? &slot->value : apart_insert(t, hash, key, key_len);
}

static inline void apart_erase(apart *t, uint64_t hash, const void *key, size_t key_len) {
    apart_segment *s = (apart_segment *)directory_at(&t->directory, hash);
    apart_slot *slot = apart_find(s, hash, key, key_len);
    uint32_t hole, i;
    if (!slot) return;
    t->bytes -= sizeof *slot->key + key_len;
    count_free(slot->key);
    hole = i = (uint32_t)(slot - s->slots);
    while (i = (i + 1) & s->mask, s->slots[i].key) {
        if (((i - (uint32_t)s->slots[i].hash) & s->mask) >= ((i - hole) & s->mask)) {
            s->slots[hole] = s->slots[i];
            hole = i;
        }
    }
    s->slots[hole].key = NULL;
    s->count--;
}

static inline uint64_t apart_bytes(const apart *t) { return t->bytes; }
