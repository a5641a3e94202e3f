/* The sweep: what it looks at, what it removes, and how few dead records it leaves under a steady load. */
#include "harness.h"
#include <stdio.h>
#include <stdlib.h>

/* `count` records; those whose number is in dead_from .. dead_to-1 are dead at time 100, the others not. */
static void fill_part_dead(gob_table *t, uint32_t count, uint32_t dead_from, uint32_t dead_to) {
    uint32_t number;
    CHECK(gob_table_init(t));
    for (number = 0; number < count; number++) {
        unsigned char key[16];
        gob_record *r;
        make_key16(number, key);
        r = gob_table_insert(t, mix64(number), key, 16);
        CHECK(r);
        r->deadline = number >= dead_from && number < dead_to ? 100 : number % 2 ? 101 : GOB_NO_DEADLINE;
    }
}

static void deadline_itself_is_dead(void) {
    gob_table t;
    gob_record *r;
    CHECK(gob_table_init(&t));
    r = gob_table_insert(&t, 1, "k", 1);
    CHECK(r);
    CHECK(!gob_expired(r, INT64_MAX - 1)); /* no deadline: at no time */
    r->deadline = 100;
    CHECK(!gob_expired(r, 99) && gob_expired(r, 100) && gob_expired(r, 101));
    CHECK(gob_table_sweep(&t, 99, 10) == 0 && t.count == 1);
    CHECK(gob_table_sweep(&t, 100, 10) == 1 && t.count == 0);
    gob_table_free(&t);
}

/* One segment, records in insertion order: the hand's steps are known exactly. */
static void sweep_looks_at_budget_records_at_most(void) {
    gob_table t;
    fill_part_dead(&t, 60, 20, 40);
    CHECK(gob_table_sweep(&t, 100, 0) == 0 && t.hand.number == 0);
    CHECK(gob_table_sweep(&t, 100, 8) == 0 && t.hand.number == 8 && t.count == 60);
    CHECK(gob_table_sweep(&t, 100, 12) == 0 && t.hand.number == 20);
    /* Each dead one is looked at once, and its place again: the last record, alive, is there now. */
    CHECK(gob_table_sweep(&t, 100, 1) == 1 && t.hand.number == 20 && t.count == 59);
    CHECK(gob_table_sweep(&t, 100, 1) == 0 && t.hand.number == 21 && t.count == 59);
    CHECK(gob_table_sweep(&t, 100, 1000) == 19 && t.count == 40);
    CHECK_TABLE(&t);
    gob_table_free(&t);

    fill_part_dead(&t, 10, 0, 0);
    CHECK(gob_table_sweep(&t, 100, 10) == 0 && t.hand.number == 10);
    CHECK(gob_table_sweep(&t, 100, 1) == 0 && t.hand.number == 0); /* going on to the next segment counts as one */
    gob_table_free(&t);
}

/* A hand of somebody else's goes over every record once a turn, and stands still only between segments. */
static void hand_goes_round(void) {
    static const uint32_t sizes[] = {0, 1, 700, 20000};
    uint32_t i, turn;
    for (i = 0; i < 4; i++) {
        gob_table t;
        gob_hand hand = {0, 0};
        fill_part_dead(&t, sizes[i], 0, 0);
        for (turn = 1; turn <= 3; turn++) {
            uint64_t records = 0, stops = 0;
            for (;;) {
                gob_record *r = gob_hand_at(&t, &hand);
                if (r) {
                    CHECK(r->flags == turn - 1);
                    r->flags = (uint8_t)turn;
                    hand.number++;
                    records++;
                } else {
                    stops++;
                    if (hand.hash == 0) break;
                }
            }
            CHECK(records == sizes[i] && stops == t.segments);
        }
        CHECK(t.hand.hash == 0 && t.hand.number == 0); /* the sweep's own has not moved */
        gob_table_free(&t);
    }
}

static void sweep_is_bounded_in_any_table(void) {
    static const uint32_t budgets[] = {1, 2, 7, 8, 24, 100, 5000};
    const uint32_t size = 20000;
    uint32_t i;
    for (i = 0; i < sizeof budgets / sizeof *budgets; i++) {
        uint32_t removed = 0, calls = 0;
        gob_table t;
        fill_part_dead(&t, size, 0, size); /* all dead: so removals are looks */
        while (t.count > 0) {
            uint32_t now = gob_table_sweep(&t, 100, budgets[i]);
            CHECK(now <= budgets[i]);
            removed += now;
            calls++;
            if (calls % 4096 == 0) CHECK_TABLE(&t);
        }
        CHECK(removed == size);
        CHECK((uint64_t)calls * budgets[i] <= size + size / 4 + budgets[i]); /* the rest are segment changes */
        CHECK_TABLE(&t);
        gob_table_free(&t);
    }
}

static void tend_looks_at_8_to_24(void) {
    gob_table t;
    fill_part_dead(&t, 700, 0, 700);
    CHECK(gob_table_tend(&t, 100) == 24 && t.count == 676); /* all dead: three batches */
    gob_table_free(&t);
    fill_part_dead(&t, 700, 0, 0);
    CHECK(gob_table_tend(&t, 100) == 0 && t.hand.number == 8); /* all alive: one */
    gob_table_free(&t);
    fill_part_dead(&t, 700, 0, 1);
    CHECK(gob_table_tend(&t, 100) == 1 && t.hand.number == 15); /* one found: two, of which one look removed */
    gob_table_free(&t);
    fill_part_dead(&t, 700, 15, 16);
    CHECK(gob_table_tend(&t, 100) == 0 && gob_table_tend(&t, 100) == 1);
    CHECK(t.hand.number == 8 + 8 + 7);
    gob_table_free(&t);
}

static void sweep_all_removes_the_dead_and_nothing_else(void) {
    static const uint32_t sizes[] = {0, 1, 100, 5000, 50000};
    uint32_t i, number;
    for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t size = sizes[i], from = size / 20, to = size - size / 20, alive = 0;
        gob_table t;
        fill_part_dead(&t, size, from, to);
        CHECK(gob_table_sweep_all(&t, 99) == 0 && t.count == size);
        CHECK(gob_table_sweep_all(&t, 100) == to - from);
        CHECK_TABLE(&t);
        for (number = 0; number < size; number++) {
            unsigned char key[16];
            make_key16(number, key);
            CHECK((gob_table_find(&t, mix64(number), key, 16) == NULL) == (number >= from && number < to));
            alive += number < from || number >= to;
        }
        CHECK(t.count == alive);
        if (size > 2000) CHECK(t.segments <= 1 + alive / (GOB_MERGE_MAX / 2));
        gob_table_free(&t);
    }
    /* Every second record of a large table: merges happen all the time while it goes round. */
    for (i = 0; i < 3; i++) {
        const uint32_t size = 30000, keep_one_in = i == 0 ? 2 : i == 1 ? 10 : 1000;
        world w;
        uint64_t dead = 0;
        CHECK(world_begin(&w, HASH_GOOD, size));
        for (number = 0; number < size; number++) {
            CHECK(world_insert(&w, number));
            world_set_deadline(&w, number, random_below(keep_one_in) ? 5 : 6);
            dead += w.entries[number].deadline == 5;
        }
        w.now = 5;
        CHECK(gob_table_sweep_all(&w.table, w.now) == dead);
        world_swept(&w, dead);
        world_verify(&w);
        world_end(&w);
    }
}

/* Segments so thin that the first removal merges each with its neighbour, most often into the neighbour: what the
 * sweep had already looked at comes again, and what it had not is not skipped. */
static void sweep_all_misses_nothing_when_segments_merge(void) {
    const uint32_t size = 20000;
    uint32_t number, round;
    for (round = 0; round < 10; round++) {
        uint64_t dead = 0;
        world w;
        CHECK(world_begin(&w, HASH_GOOD, size));
        for (number = 0; number < size; number++) CHECK(world_insert(&w, number));
        for (number = 0; number < size; number++)
            if (random_below(20) > round % 5 + 3) world_erase(&w, world_find(&w, number));
        for (number = 0; number < size; number++) {
            bool dies = random_below(2);
            if (!world_find(&w, number)) continue;
            world_set_deadline(&w, number, dies ? 5 : 6);
            dead += dies;
        }
        w.now = 5;
        CHECK(gob_table_sweep_all(&w.table, w.now) == dead);
        world_swept(&w, dead);
        world_verify(&w);
        world_end(&w);
    }
}

/* Creations at a steady rate, one a tick, each tending once; time-to-live as given. The dead among the stored stay
 * below a tenth (and 32: in a table of a few hundred, one round of the hand is too short to be even). Returns the
 * fraction on average after the first two lifetimes. */
static double steady_load(uint32_t live, bool random_ttl) {
    const uint32_t ticks = live * 6, warm = live * 2;
    uint32_t *deaths = (uint32_t *)calloc((size_t)ticks + 2 * live + 2, sizeof *deaths), tick;
    uint64_t alive = 0;
    double sum = 0;
    gob_table t;
    CHECK(deaths && gob_table_init(&t));
    for (tick = 0; tick < ticks; tick++) {
        uint32_t ttl = random_ttl ? 1 + random_below(2 * live - 1) : live;
        unsigned char key[16];
        gob_record *r;
        alive -= deaths[tick];
        gob_table_tend(&t, tick);
        make_key16(tick, key);
        r = gob_table_insert(&t, make_hash(HASH_GOOD, tick), key, 16);
        CHECK(r);
        r->deadline = tick + ttl;
        deaths[tick + ttl]++;
        alive++;
        CHECK(t.count >= alive);
        if (tick >= warm) {
            CHECK(t.count - alive <= t.count / 10 + 32);
            sum += (double)(t.count - alive) / (double)t.count;
        }
    }
    CHECK_TABLE(&t);
    gob_table_free(&t);
    free(deaths);
    return sum / (ticks - warm);
}

static void steady_load_keeps_the_dead_under_a_tenth(void) {
    static const uint32_t live[] = {100, 1000, 20000, 200000, 1000000};
    uint32_t i, sizes = option.extended ? 5 : option.sanitized ? 3 : 4;
    double worst = 0;
    for (i = 0; i < 2 * sizes; i++) {
        double dead = steady_load(live[i / 2], i % 2);
        CHECK(dead < 0.10);
        if (dead > worst) worst = dead;
    }
    printf(" (dead on average at most %.1f %%)", worst * 100);
}

void test_sweep(void) {
    deadline_itself_is_dead();
    sweep_looks_at_budget_records_at_most();
    hand_goes_round();
    sweep_is_bounded_in_any_table();
    tend_looks_at_8_to_24();
    sweep_all_removes_the_dead_and_nothing_else();
    sweep_all_misses_nothing_when_segments_merge();
    steady_load_keeps_the_dead_under_a_tenth();
}
