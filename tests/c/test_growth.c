/* Segments that split and merge, the directory that doubles and halves, indexes that grow and shrink. */
#include "harness.h"

/* How often each thing happened, told from the outside. */
typedef struct events {
    uint32_t splits, merges, doublings, halvings, index_growths, index_shrinks, chunks_more, chunks_fewer;
} events;

typedef struct state {
    uint64_t segments;
    uint8_t depth, shift;
    uint32_t chunks;
    const gob_segment *segment;
} state;

static state state_of(const world *w, uint64_t hash) {
    const gob_segment *s = gob_segment_of(&w->table, hash);
    state now;
    now.segments = w->table.segments;
    now.depth = w->table.depth;
    now.shift = s->shift;
    now.chunks = s->chunks_used;
    now.segment = s;
    return now;
}

static void note_events(events *e, state before, state after) {
    e->splits += after.segments > before.segments;
    e->merges += after.segments < before.segments;
    e->doublings += after.depth > before.depth;
    e->halvings += after.depth < before.depth;
    if (before.segments == after.segments) {
        CHECK(before.segment == after.segment);
        e->index_growths += after.shift > before.shift;
        e->index_shrinks += after.shift < before.shift;
        e->chunks_more += after.chunks > before.chunks;
        e->chunks_fewer += after.chunks < before.chunks;
    }
}

/* Everything the header promises about sizes, beyond what gob_table_check verifies. */
static void check_sizes(const gob_table *t) {
    uint64_t hash = 0;
    do {
        const gob_segment *s = gob_segment_of(t, hash);
        CHECK(s->count <= GOB_SPLIT_MAX);
        CHECK(s->chunks_used <= gob_chunks_for(s->count) + 1); /* at most one spare */
        CHECK(s->split_at >= GOB_SPLIT_MIN && s->split_at <= GOB_SPLIT_MAX);
        if (s->shift > GOB_FIRST_SLOTS_LOG2) CHECK(s->count >= ((uint32_t)1 << s->shift) / 16);
        hash = gob_last_hash(hash, s->depth) + 1;
    } while (hash != 0);
}

/* Two neighbours of equal depth always hold more than GOB_MERGE_MAX together (while memory does not lack). */
static void check_nothing_to_merge(const gob_table *t) {
    uint64_t hash = 0;
    do {
        const gob_segment *s = gob_segment_of(t, hash), *buddy;
        if (s->depth > 0) {
            buddy = gob_segment_of(t, hash ^ (UINT64_C(1) << (64 - s->depth)));
            CHECK(buddy->depth != s->depth || s->count + buddy->count > GOB_MERGE_MAX);
        }
        hash = gob_last_hash(hash, s->depth) + 1;
    } while (hash != 0);
}

static void grows_and_shrinks_with_all_records_found(void) {
    const uint32_t size = option.sanitized ? 30000 : 100000, interval = size / 12;
    events up, down;
    uint32_t number;
    world w;
    memset(&up, 0, sizeof up);
    memset(&down, 0, sizeof down);
    CHECK(world_begin(&w, HASH_GOOD, size));
    for (number = 0; number < size; number++) {
        state before = state_of(&w, w.entries[number].hash);
        CHECK(world_insert(&w, number));
        note_events(&up, before, state_of(&w, w.entries[number].hash));
        CHECK(world_find(&w, number));
        if (number % interval == 0) {
            world_verify(&w);
            check_sizes(&w.table);
        }
    }
    world_verify(&w);
    CHECK(up.merges == 0 && up.halvings == 0 && up.chunks_fewer == 0);
    CHECK(up.splits == w.table.segments - 1 && up.doublings == w.table.depth);
    CHECK(up.index_growths >= 6 && up.index_growths <= 9 + up.splits / 8); /* halves are born with theirs */
    CHECK(up.chunks_more > size / GOB_CHUNK / 4);
    CHECK(w.table.segments >= size / GOB_SPLIT_MAX && w.table.segments <= size / (GOB_SPLIT_MIN / 2));

    for (number = 0; number < size; number++) {
        state before = state_of(&w, w.entries[number].hash);
        world_erase(&w, world_find(&w, number));
        note_events(&down, before, state_of(&w, w.entries[number].hash));
        if (w.table.segments != before.segments) check_nothing_to_merge(&w.table);
        CHECK(!world_find(&w, number));
        if (number % interval == 0) {
            world_verify(&w);
            check_sizes(&w.table);
        }
    }
    world_verify(&w);
    CHECK(down.splits == 0 && down.doublings == 0 && down.index_growths == 0 && down.chunks_more == 0);
    /* Several merges may follow from one erase. */
    CHECK(down.merges > 0 && down.merges <= up.splits && down.halvings > 0 && down.index_shrinks > 0);
    CHECK(down.chunks_fewer > 0);
    CHECK(w.table.segments == 1 && w.table.depth == 0 && w.table.directory == &w.table.only);
    world_end(&w);
}

/* One segment that splits and merges in turn must not pay for the directory each time, nor one that is filled and
 * emptied by a single record for an index or a split. */
static void nothing_flutters(void) {
    uint32_t number, round, top = 0;
    uint64_t calls;
    world w;
    CHECK(world_begin(&w, HASH_GOOD, 100000));
    for (number = 0; w.table.segments < 8; number++) CHECK(world_insert(&w, number));
    for (; w.table.segments == 8; number++) CHECK(world_insert(&w, number)); /* the last one has split a segment */
    top = number;
    calls = memory.calls;
    for (round = 0; round < 1000; round++) {
        world_erase(&w, world_find(&w, top - 1));
        CHECK(world_insert(&w, top - 1));
    }
    CHECK(memory.calls - calls <= 1000); /* a long key's block perhaps, nothing else */
    CHECK(w.table.segments == 9);
    /* The same on the way down, round the merge that has just happened. */
    while (w.table.segments >= 9) world_erase(&w, world_find(&w, --number));
    calls = memory.calls;
    for (round = 0; round < 1000; round++) {
        CHECK(world_insert(&w, number));
        world_erase(&w, world_find(&w, number));
    }
    CHECK(memory.calls - calls <= 1002); /* one chunk may come once, and stays as the spare */
    world_verify(&w);
    world_end(&w);
}

/* The same for the directory: the deepest segment splits and merges in turn. */
static void directory_does_not_flutter(void) {
    uint32_t number, round, changes = 0;
    uint64_t last = UINT64_MAX;
    world w;
    CHECK(world_begin(&w, HASH_GOOD, 14000));
    for (number = 0; w.table.depth < 4; number++) {
        last = w.entries[number].hash;
        CHECK(world_insert(&w, number));
    }
    CHECK(w.table.depths[4] == 2); /* only these two have the full depth, and `last` lies in one of them */
    for (round = 0; round < 20; round++) {
        uint64_t parent = gob_first_hash(last, 3);
        uint8_t depth = w.table.depth;
        bool erasing = round % 2 == 0;
        for (number = 0; number < w.size; number++) {
            gob_record *r;
            if (gob_first_hash(w.entries[number].hash, 3) != parent) continue;
            r = world_find(&w, number);
            if (erasing && r) world_erase(&w, r);
            if (!erasing && !r) CHECK(world_insert(&w, number));
            changes += w.table.depth != depth;
            depth = w.table.depth;
            if (w.table.depths[4] == (erasing ? 0 : 2)) break;
        }
        CHECK(w.table.depths[4] == (erasing ? 0 : 2));
    }
    CHECK(changes == 0);
    world_verify(&w);
    world_end(&w);
}

/* Hashes that share many leading bits. The directory must not follow the bits down. */
static void skewed_hashes_do_not_blow_up_the_directory(void) {
    hash_mode mode;
    for (mode = HASH_GOOD; mode < HASH_MODES; mode++) {
        uint32_t number, size = mode == HASH_FEW || mode == HASH_LOW ? 4000 : 20000;
        world w;
        CHECK(world_begin(&w, mode, size));
        for (number = 0; number < size; number++) {
            CHECK(world_insert(&w, number));
            CHECK((UINT64_C(1) << w.table.depth) <= 16 * w.table.segments);
        }
        world_verify(&w);
        for (number = 0; number < size; number++) world_erase(&w, world_find(&w, number));
        world_verify(&w);
        CHECK(w.table.segments == 1 && w.table.depth == 0);
        world_end(&w);
    }
}

/* Each split here is just even enough to be made, and leaves nearly all records in a half as narrow as that. */
static void narrowing_hashes_do_not_blow_up_the_directory(void) {
    uint32_t number;
    gob_table t;
    CHECK(gob_table_init(&t));
    for (number = 0; number < 40000; number++) {
        unsigned char key[16];
        uint8_t zeros = 0;
        while (zeros < 40 && random_below(12)) zeros++;
        make_key16(number, key);
        CHECK(gob_table_insert(&t, (random64() | UINT64_C(1) << 63) >> zeros, key, 16));
        CHECK((UINT64_C(1) << t.depth) <= 16 * t.segments);
    }
    CHECK(t.depth >= 6);
    CHECK_TABLE(&t);
    CHECK(t.bytes < t.count * 80);
    gob_table_free(&t);
}

/* A split may leave one half with nearly all the records, more than that half's own split point. */
static void lopsided_splits_are_sound(void) {
    const uint64_t bit = UINT64_C(1) << 57;
    uint32_t number, over = 0;
    uint64_t hash = 0;
    gob_table t;
    CHECK(gob_table_init(&t));
    for (number = 0; number < 100000; number++) { /* the upper six bits are fair, the seventh is rarely set */
        unsigned char key[16];
        uint64_t segments = t.segments;
        make_key16(number, key);
        hash = random64();
        hash = random_below(10) ? hash & ~bit : hash | bit;
        CHECK(gob_table_insert(&t, hash, key, 16));
        if (t.segments != segments) {
            const gob_segment *s = gob_segment_of(&t, hash ^ (UINT64_C(1) << (64 - gob_segment_of(&t, hash)->depth)));
            over += s->count > s->limit;
            if (segments > 50) CHECK_TABLE(&t);
        }
    }
    CHECK(over > 0); /* it did come to that */
    CHECK_TABLE(&t);
    gob_table_free(&t);
}

/* After hashes that could not be parted are gone, the table must be as if they had never been: good ones that follow
 * split at the usual sizes. */
static void bad_hashes_leave_no_large_segments_behind(void) {
    uint32_t number;
    world bad, good;
    CHECK(world_begin(&bad, HASH_TOP, 20000));
    CHECK(world_begin(&good, HASH_GOOD, 20000)); /* only its hashes are used */
    for (number = 0; number < bad.size; number++) CHECK(world_insert(&bad, number));
    for (number = 0; number < bad.size; number++) world_erase(&bad, world_find(&bad, number));
    world_verify(&bad);
    for (number = 0; number < bad.size; number++) {
        bad.entries[number].hash = good.entries[number].hash;
        CHECK(world_insert(&bad, number));
    }
    world_verify(&bad);
    check_sizes(&bad.table);
    world_end(&bad);
    world_end(&good);
}

void test_growth(void) {
    grows_and_shrinks_with_all_records_found();
    nothing_flutters();
    directory_does_not_flutter();
    skewed_hashes_do_not_blow_up_the_directory();
    narrowing_hashes_do_not_blow_up_the_directory();
    lopsided_splits_are_sound();
    bad_hashes_leave_no_large_segments_behind();
}
