/* Random operations on the table and on the shadow, which must agree after each. */
#include "harness.h"
#include <stdio.h>
#include <stdlib.h>

static void page_through(world *w) {
    uint64_t live = 0, records = 0, last = 0;
    uint32_t number;
    gob_page page;
    for (number = 0; number < w->size; number++) {
        world_find(w, number);
        live += w->entries[number].present && w->entries[number].deadline > w->now;
    }
    memset(&page, 0, sizeof page);
    while (!page.done) {
        uint32_t i;
        CHECK(gob_table_page(&w->table, w->now, &page));
        CHECK(page.done || page.cursor > last);
        last = page.cursor;
        for (i = 0; i < page.count; i++) {
            const gob_item *item = &page.items[i];
            number = key_number(page.keys + item->key_at, item->key_len);
            CHECK(number < w->size && w->entries[number].present && w->entries[number].value == item->value);
            CHECK(w->entries[number].deadline == item->deadline && item->deadline > w->now);
        }
        records += page.count;
    }
    gob_page_free(&page);
    CHECK(records == live);
}

/* Times of growth and of shrinking in turn, so that everything splits and merges again and again. */
static void one_operation(world *w, bool growing) {
    uint32_t number = random_below(w->size), what = random_below(1000);
    gob_record *r = world_find(w, number);
    if (what < 20) {
        uint32_t numbers[24], count = random_below(25), i, stride = 1 + random_below(3); /* all different */
        for (i = 0; i < count; i++) numbers[i] = (number + i * stride) % w->size;
        world_erase_several(w, numbers, count);
    } else if (what < 940) {
        if (!r) {
            if (random_below(10) < (growing ? 9 : 2)) CHECK(world_insert(w, number));
        } else if (random_below(10) < (growing ? 1 : 6)) {
            world_erase(w, r);
        } else {
            r->value = w->entries[number].value = (int64_t)random64();
            r->deadline = w->entries[number].deadline =
                random_below(3) ? GOB_NO_DEADLINE : w->now + (int64_t)random_below(20000) - 100;
            r->kind = w->entries[number].kind = (uint8_t)random_below(256);
            r->flags = w->entries[number].flags = (uint8_t)random_below(256);
        }
        CHECK(w->table.count == w->present - w->unseen);
    } else if (what < 980) {
        world_swept(w, gob_table_tend(&w->table, w->now));
    } else if (what < 999) {
        uint32_t budget = random_below(200), removed = gob_table_sweep(&w->table, w->now, budget);
        CHECK(removed <= budget);
        world_swept(w, removed);
    } else if (random_below(20) == 0) {
        world_swept(w, gob_table_sweep_all(&w->table, w->now));
        for (number = 0; number < w->size; number++) {
            world_find(w, number);
            CHECK(!w->entries[number].present || w->entries[number].deadline > w->now);
        }
    } else if (random_below(40) == 0) {
        world_clear(w);
    } else if (random_below(10) == 0) {
        page_through(w);
    }
    if (random_below(4) == 0) w->now++;
}

static void agree(hash_mode mode, uint32_t size, uint64_t operations, uint64_t interval) {
    uint64_t i;
    bool growing = true;
    world w;
    CHECK(world_begin(&w, mode, size));
    for (i = 0; i < operations; i++) {
        /* A growing time fills most of the key numbers, a shrinking one leaves a quarter. */
        if (i % (2 * size) == 0) growing = !growing || i == 0;
        one_operation(&w, growing);
        if (i % interval == interval - 1) CHECK_TABLE(&w.table);
    }
    world_verify(&w);
    page_through(&w);
    world_end(&w);
}

void test_random(void) {
    static const struct {
        hash_mode mode;
        uint32_t size;
        uint32_t share; /* of the operations, in hundredths */
        uint32_t checks;
    } runs[] = {
        {HASH_GOOD, 20000, 40, 60}, {HASH_GOOD, 500, 10, 100}, {HASH_FEW, 600, 10, 20}, {HASH_TOP, 6000, 15, 40},
        {HASH_LOW, 1000, 5, 20},    {HASH_STAIR, 8000, 10, 40}, {HASH_MIXED, 2000, 10, 40},
    };
    size_t i;
    for (i = 0; i < sizeof runs / sizeof *runs; i++) {
        uint64_t operations = option.operations / 100 * runs[i].share;
        int64_t begun = gob_monotonic_ns();
        agree(runs[i].mode, runs[i].size, operations, operations / runs[i].checks + 1);
        if (option.extended)
            printf("\n    %-10s %9llu operations %6.1f s", hash_mode_names[runs[i].mode],
                   (unsigned long long)operations, (double)(gob_monotonic_ns() - begun) / 1e9);
    }
    printf(" (%llu operations)", (unsigned long long)option.operations);
}
