/* One record: found, changed, erased; keys of every length; indexes that stay clean. */
#include "harness.h"
#include <stdlib.h>

static gob_record *put_record(gob_table *t, uint64_t hash, const void *key, size_t len, int64_t value) {
    gob_record *r = gob_table_insert(t, hash, key, len);
    CHECK(r);
    CHECK(r->hash == hash && r->key_len == len && r->value == 0 && r->deadline == GOB_NO_DEADLINE);
    CHECK(r->kind == 0 && r->flags == 0);
    r->value = value;
    CHECK(gob_table_find(t, hash, key, len) == r);
    return r;
}

static void empty_table_finds_nothing(void) {
    gob_table t;
    CHECK(gob_table_init(&t));
    CHECK_TABLE(&t);
    CHECK(t.count == 0 && t.segments == 1 && t.slots == 0);
    CHECK(!gob_table_find(&t, 0, "", 0) && !gob_table_find(&t, UINT64_MAX, "k", 1));
    CHECK(gob_table_sweep(&t, INT64_MAX - 1, 100) == 0 && gob_table_sweep_all(&t, INT64_MAX - 1) == 0);
    gob_table_clear(&t);
    CHECK_TABLE(&t);
    gob_table_free(&t);
    gob_table_free(&t); /* harmless, as are these on a table that is gone */
    gob_table_clear(&t);
    CHECK(t.bytes == 0 && t.directory == NULL);
}

static void keys_of_every_length(void) {
    static const size_t lengths[] = {0, 1, 2, 16, 19, 20, 21, 22, 255, 256, 4096, 65534, 65535};
    const size_t count = sizeof lengths / sizeof *lengths;
    unsigned char *key = (unsigned char *)malloc(65536);
    gob_table t;
    size_t i, j;
    uint64_t empty_bytes;
    CHECK(key && gob_table_init(&t));
    empty_bytes = t.bytes;
    for (i = 0; i < 65536; i++) key[i] = (unsigned char)(i % 251); /* so every key is a prefix of every longer one */

    for (i = 0; i < 2; i++) { /* all with one hash, then each with its own */
        for (j = 0; j < count; j++) put_record(&t, i * j, key, lengths[j], (int64_t)j);
        CHECK_TABLE(&t);
        CHECK(t.count == count);
        CHECK(!gob_table_insert(&t, 0, key, 65536) && !gob_table_find(&t, 0, key, 65536));
        CHECK(!gob_table_insert(&t, 0, key, SIZE_MAX));
        CHECK(t.count == count);
        for (j = 0; j < count; j++) {
            gob_record *r = gob_table_find(&t, i * j, key, lengths[j]);
            CHECK(r && r->value == (int64_t)j && memcmp(gob_key(r), key, lengths[j]) == 0);
            CHECK(!gob_table_find(&t, i * j + 1000, key, lengths[j]));
            if (lengths[j]) {
                key[lengths[j] - 1] ^= 1; /* the last byte alone differs */
                CHECK(!gob_table_find(&t, i * j, key, lengths[j]));
                key[lengths[j] - 1] ^= 1;
            }
        }
        for (j = 0; j < count; j++) { /* from both ends */
            size_t k = j % 2 ? count - 1 - j / 2 : j / 2;
            gob_table_erase(&t, gob_table_find(&t, i * k, key, lengths[k]));
            CHECK(!gob_table_find(&t, i * k, key, lengths[k]));
            CHECK_TABLE(&t);
        }
        CHECK(t.count == 0);
    }
    /* What a long key took is given back: only the spare chunk and its list are left. */
    CHECK(t.bytes <= empty_bytes + GOB_CHUNK * sizeof(gob_record) + 4 * sizeof(void *));
    gob_table_free(&t);
    free(key);
}

static void keys_with_nul_and_high_bytes_are_bytes(void) {
    static const struct {
        const char *bytes;
        size_t len;
    } keys[] = {{"", 0}, {"\0", 1}, {"\0\0", 2}, {"a", 1}, {"a\0", 2}, {"a\0b", 3}, {"a\0c", 3}, {"\xff\xfe", 2},
                {"twenty-bytes-with-\0a", 20}, {"twenty-bytes-with-\0b", 20}, {"21-bytes-and-a-nul-\0a", 21},
                {"21-bytes-and-a-nul-\0b", 21}};
    const size_t count = sizeof keys / sizeof *keys;
    gob_table t;
    size_t i;
    CHECK(gob_table_init(&t));
    for (i = 0; i < count; i++) put_record(&t, 42, keys[i].bytes, keys[i].len, (int64_t)i);
    for (i = 0; i < count; i++) CHECK(gob_table_find(&t, 42, keys[i].bytes, keys[i].len)->value == (int64_t)i);
    CHECK_TABLE(&t);
    gob_table_free(&t);
}

static void hash_is_compared_in_all_64_bits(void) {
    gob_table t;
    int bit;
    CHECK(gob_table_init(&t));
    put_record(&t, 0, "key", 3, -1);
    for (bit = 0; bit < 64; bit++) {
        CHECK(!gob_table_find(&t, UINT64_C(1) << bit, "key", 3));
        put_record(&t, UINT64_C(1) << bit, "key", 3, bit);
    }
    for (bit = 0; bit < 64; bit++) CHECK(gob_table_find(&t, UINT64_C(1) << bit, "key", 3)->value == bit);
    CHECK(gob_table_find(&t, 0, "key", 3)->value == -1);
    CHECK_TABLE(&t);
    gob_table_free(&t);
}

/* Every record, wherever it lies, can go, and all others are still found at the same values. */
static void erase_leaves_all_others(void) {
    hash_mode mode;
    for (mode = HASH_GOOD; mode < HASH_MODES; mode++) {
        uint32_t victim, number, count = 60;
        for (victim = 0; victim < count; victim++) {
            world w;
            CHECK(world_begin(&w, mode, count));
            for (number = 0; number < count; number++) CHECK(world_insert(&w, number));
            world_erase(&w, world_find(&w, victim));
            world_verify(&w);
            CHECK(world_insert(&w, victim));
            world_verify(&w);
            world_end(&w);
        }
    }
}

/* Several at once, of one segment and of many: the last ones of a segment, which move, among them. */
static void erase_several_at_once(void) {
    hash_mode mode;
    for (mode = HASH_GOOD; mode < HASH_MODES; mode++) {
        uint32_t size = mode == HASH_GOOD || mode == HASH_STAIR ? 4000 : 800, number, numbers[64], count, i;
        world w;
        CHECK(world_begin(&w, mode, size));
        for (number = 0; number < size; number++) CHECK(world_insert(&w, number));
        gob_table_erase_several(&w.table, NULL, 0);
        while (w.table.count > 0) {
            count = random_below(64) + 1;
            if (random_below(2)) { /* the last records of a segment, in any order, and some others */
                const gob_segment *s = gob_segment_of(&w.table, w.entries[random_below(size)].hash);
                for (i = 0; i < count && i < s->count; i++) {
                    const gob_record *r = gob_at(s, s->count - 1 - i);
                    numbers[i] = key_number(gob_key(r), r->key_len);
                }
                count = i;
                for (i = count; i > 1; i--) {
                    uint32_t other = random_below(i), swap = numbers[i - 1];
                    numbers[i - 1] = numbers[other];
                    numbers[other] = swap;
                }
            } else {
                number = random_below(size);
                for (i = 0; i < count; i++) numbers[i] = (number + i * 41) % size;
            }
            world_erase_several(&w, numbers, count);
            CHECK_TABLE(&w.table);
        }
        world_verify(&w);
        CHECK(w.table.segments == 1);
        world_end(&w);
    }
}

/* No tombstones: what a probe passes, and the memory, do not grow with the number of erased keys. */
static void churn_leaves_no_trace(void) {
    hash_mode mode;
    for (mode = HASH_GOOD; mode < HASH_MODES; mode++) {
        uint32_t live = mode == HASH_GOOD || mode == HASH_STAIR ? 3000 : 150, size = live * 20, number, round;
        uint64_t worst = 0, at_first = 0;
        world w;
        CHECK(world_begin(&w, mode, size));
        for (number = 0; number < live; number++) CHECK(world_insert(&w, number));
        at_first = w.table.bytes;
        for (round = 0; round < 3; round++) {
            for (number = 0; number < size; number++) {
                CHECK(world_insert(&w, (number + live) % size));
                world_erase(&w, world_find(&w, number));
                if (w.table.bytes > worst) worst = w.table.bytes;
            }
            CHECK_TABLE(&w.table);
        }
        CHECK(w.table.count == live);
        /* Long keys come and go, and segments have their moods; a trace of the 20-fold churn would be far above. */
        CHECK(worst <= at_first * 3 / 2 + 4 * GOB_CHUNK * sizeof(gob_record));
        for (number = 0; number < live; number++) world_erase(&w, world_find(&w, number));
        CHECK(w.table.count == 0 && w.table.segments == 1 && w.table.directory == &w.table.only);
        for (number = 0; number <= w.table.only->mask; number++) CHECK(w.table.only->index[number] == 0);
        CHECK(w.table.only->shift == GOB_FIRST_SLOTS_LOG2);
        world_end(&w);
    }
}

static void clear_gives_back_all_but_one_segment(void) {
    hash_mode mode;
    for (mode = HASH_GOOD; mode < HASH_MODES; mode++) {
        uint32_t number, size = mode == HASH_FEW || mode == HASH_LOW ? 2000 : 20000;
        uint64_t empty_bytes;
        world w;
        CHECK(world_begin(&w, mode, size));
        empty_bytes = w.table.bytes;
        for (number = 0; number < size; number++) CHECK(world_insert(&w, number));
        CHECK(w.table.bytes > empty_bytes + size * sizeof(gob_record));
        world_clear(&w);
        world_verify(&w);
        CHECK(w.table.segments == 1 && w.table.depth == 0 && w.table.slots == 0);
        CHECK(w.table.bytes <= empty_bytes + 4096); /* the list of chunks may stay */
        for (number = 0; number < size; number += 3) CHECK(world_insert(&w, number));
        world_verify(&w);
        world_end(&w);
    }
}

/* gob_table_check is what the other tests lean on: it must notice damage. */
static void check_notices_damage(void) {
    uint32_t number, slot = 0;
    gob_segment *s, *other;
    gob_record *r;
    world w;
    CHECK(world_begin(&w, HASH_GOOD, 3000));
    for (number = 0; number < w.size; number++) CHECK(world_insert(&w, number));
    CHECK_TABLE(&w.table);
    s = w.table.directory[0];
    other = w.table.directory[((size_t)1 << w.table.depth) - 1];
    r = gob_at(s, 5);
    while (!s->index[slot]) slot++;
#define DAMAGE(place, harmful)               \
    do {                                     \
        const __typeof__(place) kept = place;      \
        harmful;                             \
        CHECK(gob_table_check(&w.table));    \
        place = kept;                        \
        CHECK_TABLE(&w.table);               \
    } while (0)
    DAMAGE(r->hash, r->hash ^= UINT64_C(1) << 63);  /* belongs elsewhere */
    DAMAGE(r->hash, r->hash ^= 1);                  /* another home slot */
    DAMAGE(r->hash, r->hash ^= UINT64_C(1) << s->shift); /* another tag */
    DAMAGE(*r, *r = *gob_at(s, 6));                 /* twice the same */
    DAMAGE(s->index[slot], s->index[slot] = 0);
    DAMAGE(s->index[slot], s->index[slot] ^= UINT32_C(1) << 31);
    DAMAGE(s->index[slot], s->index[slot] |= s->mask);
    DAMAGE(s->count, s->count--);
    DAMAGE(s->limit, s->limit = s->split_at + 1);
    DAMAGE(s->depth, s->depth--);
    DAMAGE(s->chunks_used, s->chunks_used++);
    DAMAGE(s->chunks_cap, s->chunks_cap *= 2);
    DAMAGE(w.table.count, w.table.count++);
    DAMAGE(w.table.slots, w.table.slots--);
    DAMAGE(w.table.segments, w.table.segments++);
    DAMAGE(w.table.bytes, w.table.bytes += 8);
    DAMAGE(w.table.depths[1], w.table.depths[1]++);
    DAMAGE(w.table.directory[0], w.table.directory[0] = other);
    DAMAGE(w.table.directory[0], w.table.directory[0] = NULL);
#undef DAMAGE
    world_end(&w);
}

void test_records(void) {
    empty_table_finds_nothing();
    keys_of_every_length();
    keys_with_nul_and_high_bytes_are_bytes();
    hash_is_compared_in_all_64_bits();
    erase_leaves_all_others();
    erase_several_at_once();
    churn_leaves_no_trace();
    clear_gives_back_all_but_one_segment();
    check_notices_damage();
}
