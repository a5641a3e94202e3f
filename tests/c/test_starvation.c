/* An allocator that fails at the n-th call, for every n, through a program that does everything that allocates: each
 * failure is reported, loses nothing, breaks nothing, and the program can go on. */
#include "harness.h"
#include <stdio.h>

typedef struct program {
    hash_mode mode;
    uint32_t size; /* how many keys */
    uint64_t run;      /* how many allocations fail in a row; UINT64_MAX: all from there on */
    uint64_t noticed;  /* failures of which the table has been verified */
    uint64_t refusals; /* calls that reported one */
} program;

/* After every call: if an allocation has failed in it, everything must still be there. With a long run of failures,
 * at the first ones only. */
static void verify_if_starved(program *p, world *w) {
    if (memory.failed == p->noticed) return;
    if (p->noticed < 3 || memory.failed % 256 == 0) world_verify(w);
    p->noticed = memory.failed;
}

static void insert_or_retry(program *p, world *w, uint32_t number) {
    while (!world_insert(w, number)) {
        uint64_t failed = memory.failed;
        CHECK(failed > p->noticed || p->run == UINT64_MAX);
        p->refusals++;
        CHECK(!world_find(w, number));
        verify_if_starved(p, w);
        if (p->run == UINT64_MAX) return; /* memory will not come back: do without the key */
    }
    verify_if_starved(p, w);
}

static void erase_starving(program *p, world *w, uint32_t number) {
    gob_record *r = world_find(w, number);
    if (!r) return;
    world_erase(w, r);
    verify_if_starved(p, w);
}

static void page_or_retry(program *p, world *w) {
    gob_page page;
    uint64_t records = 0;
    memset(&page, 0, sizeof page);
    while (!page.done) {
        uint64_t cursor = page.cursor;
        if (gob_table_page(&w->table, -1, &page)) {
            records += page.count;
        } else {
            CHECK(page.cursor == cursor && !page.done);
            p->refusals++;
            verify_if_starved(p, w);
            if (p->run == UINT64_MAX) break;
        }
    }
    if (page.done) CHECK(records == w->table.count);
    gob_page_free(&page);
}

static void execute(program *p) {
    uint32_t number, some = p->size / 4;
    uint64_t blocks = memory.blocks;
    world w;
    p->noticed = p->refusals = 0;
    if (!world_begin(&w, p->mode, p->size)) {
        p->refusals++;
        CHECK(w.table.directory == NULL && w.table.bytes == 0 && memory.blocks == blocks);
        world_end(&w);
        return;
    }
    for (number = 0; number < p->size; number++) insert_or_retry(p, &w, number);
    page_or_retry(p, &w);
    for (number = 0; number < p->size - 50; number++) erase_starving(p, &w, number);
    for (number = 0; number < some; number++) insert_or_retry(p, &w, number);
    w.now = 10000; /* half of those with a deadline are dead now */
    world_swept(&w, gob_table_sweep(&w.table, w.now, 100));
    verify_if_starved(p, &w);
    world_swept(&w, gob_table_sweep_all(&w.table, w.now));
    verify_if_starved(p, &w);
    world_clear(&w);
    verify_if_starved(p, &w);
    for (number = 0; number < 20; number++)
        if (!w.entries[number].present) insert_or_retry(p, &w, number);
    world_verify(&w);
    world_end(&w);
    CHECK(memory.blocks == blocks);
}

static uint64_t starve(hash_mode mode, uint32_t size, uint64_t run, uint32_t stride) {
    program p = {0};
    uint64_t n, calls, failures = 0;
    p.mode = mode;
    p.size = size;
    p.run = run;
    memory_never_fails();
    calls = memory.calls;
    execute(&p);
    calls = memory.calls - calls;
    CHECK(p.refusals == 0 && calls > 50);
    for (n = 1;; n += stride) {
        memory_fails(n, run);
        execute(&p);
        if (memory.failed == 0) break;
        failures += memory.failed;
    }
    CHECK(n > calls / 2); /* a starved program takes other ways, but most of the calls were reached */
    memory_never_fails();
    return failures;
}

/* `side`: 0, or the highest bit: one of two segments. */
static void insert_on_side(gob_table *t, uint64_t side, uint64_t number) {
    CHECK(gob_table_insert(t, side | mix64(number) >> 1, &number, sizeof number));
}

static void erase_on_side(gob_table *t, uint64_t side, uint64_t number, bool starving) {
    gob_record *r = gob_table_find(t, side | mix64(number) >> 1, &number, sizeof number);
    CHECK(r);
    if (starving) memory_fails(1, 1);
    gob_table_erase(t, r);
    memory_never_fails();
    CHECK_TABLE(t);
}

/* A merge that was missed for want of memory is made up for by a later erase. Here the index of the segment that stays
 * is too small by then and has to grow in it (with memory at hand two such neighbours never come to be). */
static void missed_merge_is_made_up_for(void) {
    const uint64_t right = UINT64_C(1) << 63; /* the left half of the hashes, and the right half: two segments */
    uint64_t i, lefts, rights;
    gob_table t;
    CHECK(gob_table_init(&t));
    for (i = 0; t.segments < 2; i++) {
        insert_on_side(&t, 0, i);
        insert_on_side(&t, right, i);
    }
    lefts = rights = i;
    while (lefts > 200) erase_on_side(&t, 0, --lefts, true);
    /* From 200 on a merge is due each time, and its chunk is refused. */
    while (rights > 128) erase_on_side(&t, right, --rights, true);
    while (rights < 190) insert_on_side(&t, right, rights++); /* that used up the spare chunk */
    while (lefts > 63) erase_on_side(&t, 0, --lefts, true);   /* the left index shrinks to 256 slots */
    while (lefts < 192) insert_on_side(&t, 0, lefts++);
    CHECK(t.segments == 2 && gob_capacity(gob_segment_of(&t, 0)->shift) < 381);
    erase_on_side(&t, 0, --lefts, false);
    CHECK(t.segments == 1 && t.count == 381);
    while (lefts > 0) erase_on_side(&t, 0, --lefts, false);
    while (rights > 0) erase_on_side(&t, right, --rights, false);
    gob_table_free(&t);
}

void test_starvation(void) {
    /* Good hashes: splits, directory, merges. Hashes that cannot be parted: an index that grows past a split. Every n
     * with a single failure; with more in a row, a sample. */
    const uint32_t stride = option.extended ? 1 : 11;
    uint64_t failures = starve(HASH_GOOD, 2300, 1, 1);
    failures += starve(HASH_TOP, 1800, 1, 1);
    failures += starve(HASH_GOOD, 2300, 3, stride);
    failures += starve(HASH_GOOD, 2300, UINT64_MAX, stride);
    failures += starve(HASH_TOP, 1800, UINT64_MAX, stride);
    if (option.extended) failures += starve(HASH_GOOD, 8000, 1, 1);
    missed_merge_is_made_up_for();
    printf(" (%llu failures)", (unsigned long long)failures);
}
