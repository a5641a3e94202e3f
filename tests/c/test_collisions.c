/* Keys whose hashes are equal in all 64 bits, in numbers: slow, in proportion to their number, but right. */
#include "harness.h"
#include <stdlib.h>

/* Keys of different lengths (GOB_KEY_INLINE and below), so that a look-up rejects most candidates early. */
static size_t collide_key(uint32_t number, unsigned char key[GOB_KEY_INLINE]) {
    size_t len = 4 + number % 17;
    memset(key, 'c', len);
    memcpy(key + len - 4, &number, 4);
    return len;
}

static gob_record *find_colliding(gob_table *t, uint64_t hash, uint32_t number) {
    unsigned char key[GOB_KEY_INLINE];
    size_t len = collide_key(number, key);
    return gob_table_find(t, hash, key, len);
}

static void insert_colliding(gob_table *t, uint64_t hash, uint32_t number) {
    unsigned char key[GOB_KEY_INLINE];
    size_t len = collide_key(number, key);
    gob_record *r = gob_table_insert(t, hash, key, len);
    CHECK(r);
    r->value = number;
}

/* All in one segment, however many; the memory is in proportion, and others are not disturbed. */
static void ten_thousand_keys_of_one_hash(void) {
    const uint32_t size = 10500, others = 5000;
    const uint64_t hash = UINT64_C(0x123456789ABCDEF0);
    uint32_t number, depth_before;
    gob_table t;
    CHECK(gob_table_init(&t));
    for (number = 0; number < others; number++) insert_colliding(&t, mix64(number), number);
    depth_before = t.depth;
    for (number = 0; number < size; number++) insert_colliding(&t, hash, number);
    CHECK(t.count == size + others);
    CHECK(t.depth <= depth_before + 6u && (UINT64_C(1) << t.depth) <= 16 * t.segments);
    CHECK(t.bytes <= t.count * 64 + t.segments * 4096);
    for (number = 0; number < size; number += 7) CHECK(find_colliding(&t, hash, number)->value == number);
    CHECK(!find_colliding(&t, hash, size) && !find_colliding(&t, hash + 1, 0) && !find_colliding(&t, hash ^ (UINT64_C(1) << 63), 0));
    for (number = 0; number < others; number++) CHECK(find_colliding(&t, mix64(number), number)->value == number);
    CHECK_TABLE(&t);
    for (number = 0; number < size; number++) { /* the even ones from the front, the odd ones from the back */
        uint32_t victim = number % 2 ? size - number : number;
        gob_table_erase(&t, find_colliding(&t, hash, victim));
        if (number % 4000 == 0) CHECK_TABLE(&t);
    }
    CHECK(t.count == others);
    CHECK_TABLE(&t);
    for (number = 0; number < others; number++) CHECK(find_colliding(&t, mix64(number), number)->value == number);
    gob_table_free(&t);
}

/* More than 65,536 slots: there an index entry no longer holds all bits of its home. `hashes` values, 32 apart: with
 * 2,048 of them and more than 32 records each, every run is pushed along by the one before; with 1, one run of all. */
static void beyond_65536_slots(uint32_t hashes, uint32_t size) {
    const uint64_t base = UINT64_C(0x5555000000000005);
    uint32_t number, round, interval = size / 16;
    gob_table t;
    CHECK(gob_table_init(&t));
#define HASH_OF(number) (base + (uint64_t)((number) % hashes) * 32)
    for (number = 0; number < size; number++) insert_colliding(&t, HASH_OF(number), number);
    CHECK(t.count == size && t.segments == 1 && t.only->mask >= 65536 && t.depth == 0);
    if (hashes > 1) CHECK_TABLE(&t);
    for (number = 0; number < size; number += 997) CHECK(find_colliding(&t, HASH_OF(number), number)->value == number);
    for (round = 0; t.count > 0; round++) {
        /* Mostly the last record, at times another, whose going moves the entries behind it. */
        gob_record *r = gob_at(t.only, round % 16 ? t.only->count - 1 : random_below(t.only->count));
        number = (uint32_t)r->value;
        gob_table_erase(&t, r);
        if (round % 1000 == 0) CHECK(!find_colliding(&t, HASH_OF(number), number));
        if (hashes > 1 && round % interval == interval - 1) CHECK_TABLE(&t);
    }
#undef HASH_OF
    CHECK_TABLE(&t);
    CHECK(t.only->shift == GOB_FIRST_SLOTS_LOG2 && t.bytes < 65536);
    gob_table_free(&t);
}

void test_collisions(void) {
    ten_thousand_keys_of_one_hash();
    beyond_65536_slots(2048, 66500);
    if (option.extended)
        beyond_65536_slots(1, 70000);
    else if (!option.sanitized)
        beyond_65536_slots(1, 51500); /* the time grows with the square; 25/32 of 65,536 are 51,200 */
}
