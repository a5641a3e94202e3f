/* Bytes: that they are counted right, how many a record costs, and that they come back. */
#include "harness.h"
#include <stdio.h>
#include <stdlib.h>

static void fill16(gob_table *t, uint64_t from, uint64_t to, int64_t deadline) {
    for (; from < to; from++) {
        unsigned char key[16];
        gob_record *r;
        make_key16(from, key);
        r = gob_table_insert(t, mix64(from), key, 16);
        CHECK(r);
        r->deadline = deadline;
    }
}

static void erase16(gob_table *t, uint64_t number) {
    unsigned char key[16];
    gob_record *r;
    make_key16(number, key);
    r = gob_table_find(t, mix64(number), key, 16);
    CHECK(r);
    gob_table_erase(t, r);
}

/* gob_table_check recomputes `bytes`; here it is compared with the allocator's own books. */
static void bytes_are_what_was_allocated(void) {
    uint64_t blocks = memory.blocks, usable = memory.usable;
    uint32_t number;
    world w;
    CHECK(world_begin(&w, HASH_GOOD, 20000));
    for (number = 0; number < w.size; number++) {
        CHECK(world_insert(&w, number));
        if (option.sanitized && memory.usable) CHECK(w.table.bytes == memory.usable - usable);
    }
    for (number = 0; number < w.size; number++) {
        world_erase(&w, world_find(&w, number));
        if (option.sanitized && memory.usable) CHECK(w.table.bytes == memory.usable - usable);
    }
    gob_table_free(&w.table);
    CHECK(w.table.bytes == 0 && memory.blocks == blocks && memory.usable == usable);
    world_end(&w);
}

/* The target: at most 64 bytes for a counter with a 16-byte key and a deadline, at the worst count between two
 * doublings. `usable` includes what malloc rounds up; 8 more bytes a block are its header in glibc. */
static void bytes_per_record(uint64_t base) {
    static const double eighth = 1.0905077326652577; /* 2^(1/8) */
    double n = (double)base, asked_worst = 0, malloc_worst = 0;
    uint64_t from = 0;
    int i;
    gob_table t;
    CHECK(gob_table_init(&t));
    for (i = 0; i <= 8; i++, n *= eighth) {
        double asked, with_malloc;
        fill16(&t, from, (uint64_t)n, 1);
        from = (uint64_t)n;
        CHECK(t.count == from);
        asked = (double)t.bytes / (double)t.count;
        with_malloc = (double)(memory.usable + 8 * memory.blocks) / (double)t.count;
        if (asked > asked_worst) asked_worst = asked;
        if (with_malloc > malloc_worst) malloc_worst = with_malloc;
    }
    CHECK(asked_worst <= 64);
    if (!option.sanitized) CHECK(malloc_worst <= 64);
    printf(" (%lluk..: %.1f bytes", (unsigned long long)(base / 1000), asked_worst);
    if (!option.sanitized && memory.usable) printf(", %.1f with malloc's", malloc_worst);
    printf(")");
    CHECK_TABLE(&t);
    gob_table_free(&t);
}

/* What is left must be of the order of what is stored, not of what once was. */
static void mass_deletion_gives_memory_back(void) {
    const uint64_t size = option.sanitized ? 60000 : 150000;
    static const uint32_t keep_one_in[] = {2, 3, 5, 10, 30, 100, 10000};
    uint32_t i;
    for (i = 0; i < sizeof keep_one_in / sizeof *keep_one_in; i++) {
        uint64_t number, full, kept;
        gob_table t;
        CHECK(gob_table_init(&t));
        fill16(&t, 0, size, GOB_NO_DEADLINE);
        full = t.bytes;
        for (number = 0; number < size; number++)
            if (number % keep_one_in[i]) erase16(&t, number);
        CHECK_TABLE(&t);
        kept = t.count;
        CHECK(t.bytes <= kept * 110 + 8192); /* at worst two halves of just over 400 records together */
        if (keep_one_in[i] >= 10) CHECK(t.bytes < full / 5);
        if (kept <= GOB_MERGE_MAX) CHECK(t.segments == 1 && t.depth == 0);
        for (number = 0; number < size; number++)
            if (number % keep_one_in[i] == 0) erase16(&t, number);
        CHECK_TABLE(&t);
        CHECK(t.count == 0 && t.segments == 1 && t.bytes <= 8192);
        gob_table_free(&t);
    }
}

/* A burst of short-lived keys, then only hits on a few old ones, of which one in 64 tends. */
static void burst_then_hot_gives_memory_back(void) {
    const uint64_t burst = option.sanitized ? 100000 : 1000000, hot = 100;
    uint64_t number, hits = 0, tends = 0, full;
    gob_table t;
    CHECK(gob_table_init(&t));
    fill16(&t, 0, hot, GOB_NO_DEADLINE);
    for (number = hot; number < hot + burst; number++) {
        gob_table_tend(&t, 1);
        fill16(&t, number, number + 1, 10);
    }
    full = t.bytes;
    for (; t.count > hot; hits++) {
        unsigned char key[16];
        make_key16(hits % hot, key);
        CHECK(gob_table_find(&t, mix64(hits % hot), key, 16));
        if (hits % 64 == 63) {
            gob_table_tend(&t, 10);
            tends++;
        }
        CHECK(hits < burst * 64);
    }
    CHECK(tends * GOB_SWEEP_MAX <= burst + burst / 4); /* nearly every look found a dead one */
    CHECK(t.segments == 1 && t.bytes < full / 100 && t.bytes < 16384);
    for (number = 0; number < hot; number++) {
        unsigned char key[16];
        make_key16(number, key);
        CHECK(gob_table_find(&t, mix64(number), key, 16));
    }
    CHECK_TABLE(&t);
    gob_table_free(&t);
}

/* The longest step, told without a clock: no insert or erase makes more than a handful of allocations at once. */
static void no_call_works_in_proportion_to_the_table(void) {
    const uint64_t size = option.sanitized ? 50000 : 300000;
    uint64_t number, worst = 0;
    gob_table t;
    CHECK(gob_table_init(&t));
    for (number = 0; number < size; number++) {
        uint64_t calls = memory.calls;
        fill16(&t, number, number + 1, GOB_NO_DEADLINE);
        if (memory.calls - calls > worst) worst = memory.calls - calls;
    }
    for (number = 0; number < size; number++) {
        uint64_t calls = memory.calls;
        erase16(&t, number);
        if (memory.calls - calls > worst) worst = memory.calls - calls;
    }
    CHECK(worst <= 2 * (GOB_SPLIT_MAX / GOB_CHUNK) + 16); /* the chunks of two segments, and their parts */
    gob_table_free(&t);
}

void test_memory(void) {
    bytes_are_what_was_allocated();
    bytes_per_record(10000);
    bytes_per_record(100000);
    if (!option.sanitized) bytes_per_record(1000000);
    mass_deletion_gives_memory_back();
    burst_then_hot_gives_memory_back();
    no_call_works_in_proportion_to_the_table();
}
