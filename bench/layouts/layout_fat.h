/* (b) Fat slots: open addressing in slots of 64 bytes, one cache line a counter, with the key inside; linear probing,
 * backward-shift deletion, at most 3/4 full. Segments of up to 4,096 slots, which split when these are full. */
enum { FAT_SLOTS = 4096, FAT_KEY = 36 };

typedef struct fat_slot {
    uint64_t hash;
    int64_t value, deadline;
    uint16_t key_len;
    uint8_t used, flags;
    unsigned char key[FAT_KEY]; /* longer keys would be allocated apart; not needed here */
} fat_slot;

typedef struct fat_segment {
    fat_slot *slots;
    uint32_t mask, count, limit, split_at;
    uint8_t depth;
} fat_segment;

typedef struct fat {
    directory directory;
    uint64_t bytes;
    bool spread;
} fat;

static inline fat_slot *fat_slots(fat *t, uint32_t count) {
    t->bytes += count * sizeof(fat_slot);
    return (fat_slot *)count_zeroed_lines(count * sizeof(fat_slot));
}

static fat_segment *fat_segment_new(fat *t, uint64_t hash, uint8_t depth, uint32_t slots) {
    fat_segment *s = (fat_segment *)count_malloc(sizeof *s);
    t->bytes += sizeof *s;
    s->slots = fat_slots(t, slots);
    s->mask = slots - 1;
    s->limit = slots / 4 * 3;
    s->count = 0;
    s->depth = depth;
    s->split_at = split_point(hash, depth, FAT_SLOTS / 4 * 3, t->spread);
    return s;
}

static inline void fat_init(fat *t, bool spread) {
    t->bytes = sizeof(void *);
    t->spread = spread;
    directory_init(&t->directory, fat_segment_new(t, 0, 0, 16));
}

static inline void fat_put(fat_segment *s, const fat_slot *slot) {
    uint32_t i = (uint32_t)slot->hash & s->mask;
    while (s->slots[i].used) i = (i + 1) & s->mask;
    s->slots[i] = *slot;
    s->count++;
}

static inline uint32_t fat_slots_for(uint32_t count) {
    uint32_t slots = 16;
    while (slots / 4 * 3 <= count) slots *= 2;
    return slots;
}

static void __attribute__((noinline)) fat_make_room(fat *t, uint64_t hash) {
    fat_segment *s = (fat_segment *)directory_at(&t->directory, hash);
    fat_slot *old = s->slots;
    uint32_t old_count = s->mask + 1, i;
    if (s->count < s->split_at) { /* twice the slots */
        s->slots = fat_slots(t, old_count * 2);
        s->mask = old_count * 2 - 1;
        s->limit = old_count * 2 / 4 * 3;
        s->count = 0;
        for (i = 0; i < old_count; i++)
            if (old[i].used) fat_put(s, &old[i]);
    } else {
        uint64_t bit = UINT64_C(1) << (63 - s->depth), directory_size = UINT64_C(1) << t->directory.depth;
        uint32_t rights = 0, slots;
        fat_segment *right;
        for (i = 0; i < old_count; i++) rights += old[i].used && (old[i].hash & bit);
        slots = fat_slots_for(rights > s->count / 2 ? rights : s->count - rights);
        right = fat_segment_new(t, gob_first_hash(hash, s->depth) | bit, (uint8_t)(s->depth + 1), slots);
        s->slots = fat_slots(t, slots);
        s->mask = slots - 1;
        s->limit = slots / 4 * 3;
        s->count = 0;
        for (i = 0; i < old_count; i++)
            if (old[i].used) fat_put(old[i].hash & bit ? right : s, &old[i]);
        directory_split(&t->directory, hash, s->depth, right);
        t->bytes += ((UINT64_C(1) << t->directory.depth) - directory_size) * sizeof(void *);
        s->depth++;
        s->split_at = split_point(hash & ~bit, s->depth, FAT_SLOTS / 4 * 3, t->spread);
    }
    t->bytes -= old_count * sizeof *old;
    count_free(old);
}

static inline fat_slot *fat_find(const fat_segment *s, uint64_t hash, const void *key, size_t key_len) {
    uint32_t i = (uint32_t)hash & s->mask;
    for (;; i = (i + 1) & s->mask) {
        fat_slot *slot = &s->slots[i];
        if (!slot->used) return NULL;
        if (slot->hash == hash && slot->key_len == key_len && memcmp(slot->key, key, key_len) == 0) return slot;
    }
}

static int64_t *__attribute__((noinline)) fat_insert(fat *t, uint64_t hash, const void *key, size_t key_len) {
    fat_segment *s;
    fat_slot slot = {0};
    while (s = (fat_segment *)directory_at(&t->directory, hash), s->count >= s->limit || s->count >= s->split_at)
        fat_make_room(t, hash);
    slot.hash = hash;
    slot.deadline = INT64_MAX;
    slot.key_len = (uint16_t)key_len;
    slot.used = 1;
    memcpy(slot.key, key, key_len);
    fat_put(s, &slot);
    return &fat_find(s, hash, key, key_len)->value;
}

static inline int64_t *fat_find_or_insert(fat *t, uint64_t hash, const void *key, size_t key_len) {
    fat_slot *slot = fat_find((fat_segment *)directory_at(&t->directory, hash), hash, key, key_len);
    return slot ? &slot->value : fat_insert(t, hash, key, key_len);
}

static inline void fat_erase(fat *t, uint64_t hash, const void *key, size_t key_len) {
    fat_segment *s = (fat_segment *)directory_at(&t->directory, hash);
    fat_slot *slot = fat_find(s, hash, key, key_len);
    uint32_t hole, i;
    if (!slot) return;
    hole = i = (uint32_t)(slot - s->slots);
    while (i = (i + 1) & s->mask, s->slots[i].used) {
        if (((i - (uint32_t)s->slots[i].hash) & s->mask) >= ((i - hole) & s->mask)) {
            s->slots[hole] = s->slots[i];
            hole = i;
        }
    }
    s->slots[hole].used = 0;
    s->count--;
}

static inline uint64_t fat_bytes(const fat *t) { return t->bytes; }
