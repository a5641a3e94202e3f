/* gob_table_page: every record that is there all the time comes exactly once, whatever happens between two pages. */
#include "harness.h"
#include <stdlib.h>

/* Counts each record of a page into `seen`, and compares it with the shadow. */
static void look_at_page(const world *w, const gob_page *page, uint8_t *seen, uint64_t from) {
    uint32_t i;
    CHECK((page->cursor == 0) == page->done);
    for (i = 0; i < page->count; i++) {
        const gob_item *item = &page->items[i];
        const unsigned char *key = page->keys + item->key_at;
        unsigned char wanted[KEY_SPACE];
        uint32_t number = key_number(key, item->key_len);
        CHECK(number < w->size);
        CHECK(make_key(number, wanted) == item->key_len && memcmp(key, wanted, item->key_len) == 0);
        CHECK(w->entries[number].present && w->entries[number].deadline > w->now);
        CHECK(w->entries[number].value == item->value && w->entries[number].deadline == item->deadline);
        CHECK(w->entries[number].kind == item->kind && w->entries[number].flags == item->flags);
        CHECK(w->entries[number].hash >= from && (page->done || w->entries[number].hash < page->cursor));
        CHECK(seen[number] < UINT8_MAX);
        seen[number]++;
    }
}

static void empty_and_tiny_tables(void) {
    gob_table t;
    gob_page page;
    CHECK(gob_table_init(&t));
    memset(&page, 0, sizeof page);
    CHECK(gob_table_page(&t, 0, &page));
    CHECK(page.done && page.count == 0 && page.block == NULL);
    gob_page_free(&page);
    CHECK(page.done);

    CHECK(gob_table_insert(&t, UINT64_MAX, "", 0)); /* no key bytes at all, and the last hash there is */
    CHECK(gob_table_insert(&t, 0, "a\0b", 3));
    gob_table_find(&t, 0, "a\0b", 3)->deadline = 10;
    memset(&page, 0, sizeof page);
    CHECK(gob_table_page(&t, 9, &page) && page.done && page.count == 2);
    CHECK(page.items[1].key_len == 3 && memcmp(page.keys + page.items[1].key_at, "a\0b", 3) == 0);
    page.cursor = 0;
    page.done = false;
    CHECK(gob_table_page(&t, 10, &page) && page.done && page.count == 1 && page.items[0].key_len == 0);
    gob_page_free(&page);
    CHECK_TABLE(&t);
    gob_table_free(&t);
}

/* Numbers below `steady` stay; all others come and go between the pages, by thousands, so that segments split and
 * merge before, at and behind the cursor. */
static void steady_records_come_exactly_once(hash_mode mode) {
    const bool chains = mode == HASH_FEW || mode == HASH_LOW || mode == HASH_MIXED;
    const uint32_t size = chains ? 2500 : 12000, steady = size / 6, rounds = 8;
    uint32_t round, number, splits = 0, merges = 0, pages = 0, churned = 0;
    uint8_t *seen = (uint8_t *)malloc(size);
    world w;
    CHECK(seen && world_begin(&w, mode, size));
    for (number = 0; number < steady; number++) {
        CHECK(world_insert(&w, number));
        gob_table_find(&w.table, w.entries[number].hash, "", 0); /* a look-up for nothing changes nothing */
        world_set_deadline(&w, number, GOB_NO_DEADLINE);
    }
    for (round = 0; round < rounds; round++) {
        gob_page page;
        memset(&page, 0, sizeof page);
        memset(seen, 0, size);
        while (!page.done) {
            uint64_t segments = w.table.segments, from = page.cursor;
            uint32_t some = random_below(size), grow = random_below(2);
            CHECK(gob_table_page(&w.table, w.now, &page));
            look_at_page(&w, &page, seen, from);
            pages++;
            for (number = 0; number < some; number++) {
                uint32_t other = steady + random_below(size - steady);
                gob_record *r = world_find(&w, other);
                if (grow && !r)
                    CHECK(world_insert(&w, other));
                else if (!grow && r)
                    world_erase(&w, r);
                else
                    continue;
                churned++;
            }
            splits += w.table.segments > segments;
            merges += w.table.segments < segments;
            w.now += random_below(3000);
        }
        gob_page_free(&page);
        for (number = 0; number < size; number++)
            CHECK(number < steady ? seen[number] == 1 : seen[number] <= 1); /* the cursor passes each hash once */
        world_verify(&w);
    }
    CHECK(churned > 0);
    if (mode == HASH_GOOD) CHECK(churned > size && splits > 5 && merges > 5 && pages > rounds * 4);
    world_end(&w);
    free(seen);
}

/* The whole table changes its shape in mid-iteration, in both directions. */
static void one_big_change_between_two_pages(bool grows) {
    const uint32_t size = 40000, steady = 300;
    uint32_t number;
    uint8_t *seen = (uint8_t *)calloc(size, 1);
    gob_page page;
    world w;
    CHECK(seen && world_begin(&w, HASH_GOOD, size));
    memset(&page, 0, sizeof page);
    for (number = 0; number < (grows ? 3000 : size); number++) {
        CHECK(world_insert(&w, number));
        world_set_deadline(&w, number, GOB_NO_DEADLINE);
    }
    CHECK(gob_table_page(&w.table, 0, &page) && !page.done);
    look_at_page(&w, &page, seen, 0);
    if (grows) {
        for (; number < size; number++) CHECK(world_insert(&w, number));
    } else {
        for (number = steady; number < size; number++) world_erase(&w, world_find(&w, number));
        CHECK(w.table.segments == 1); /* the cursor now points into the midst of the only segment */
    }
    while (!page.done) {
        uint64_t from = page.cursor;
        CHECK(gob_table_page(&w.table, 0, &page));
        look_at_page(&w, &page, seen, from);
    }
    for (number = 0; number < size; number++)
        CHECK(number < (grows ? 3000 : steady) ? seen[number] == 1 : seen[number] <= 1);
    gob_page_free(&page);
    world_end(&w);
    free(seen);
}

/* Clearing in mid-iteration ends it early or late, but cleanly. */
static void clear_between_two_pages(void) {
    uint32_t number;
    gob_page page;
    world w;
    CHECK(world_begin(&w, HASH_GOOD, 20000));
    for (number = 0; number < 10000; number++) CHECK(world_insert(&w, number));
    memset(&page, 0, sizeof page);
    CHECK(gob_table_page(&w.table, w.now, &page) && !page.done);
    world_clear(&w);
    CHECK(gob_table_page(&w.table, w.now, &page) && page.done && page.count == 0);
    gob_page_free(&page);
    world_end(&w);
}

/* Many records of one hash are one page, also when the cursor stands in a merged segment. */
static void equal_hashes_come_in_one_page(void) {
    const uint64_t hash = UINT64_C(0x8000000000000000); /* the first of the upper half */
    uint32_t number, size = 3000, in_page = 0, pages_with = 0;
    gob_table t;
    gob_page page;
    unsigned char key[16];
    CHECK(gob_table_init(&t));
    for (number = 0; number < size; number++) {
        make_key16(number, key);
        CHECK(gob_table_insert(&t, hash, key, 16));
    }
    for (number = 0; number < 5000; number++) {
        make_key16(size + number, key);
        CHECK(gob_table_insert(&t, mix64(number), key, 16));
    }
    CHECK(t.segments > 2);
    memset(&page, 0, sizeof page);
    while (!page.done) {
        uint32_t i, here = 0;
        CHECK(gob_table_page(&t, 0, &page));
        for (i = 0; i < page.count; i++) {
            uint64_t id;
            memcpy(&id, page.keys + page.items[i].key_at + 8, 8);
            here += id < size;
        }
        pages_with += here > 0;
        in_page += here;
    }
    CHECK(in_page == size && pages_with == 1);
    gob_page_free(&page);
    CHECK_TABLE(&t);
    gob_table_free(&t);
}

void test_iteration(void) {
    hash_mode mode;
    empty_and_tiny_tables();
    for (mode = HASH_GOOD; mode < HASH_MODES; mode++) steady_records_come_exactly_once(mode);
    one_big_change_between_two_pages(true);
    one_big_change_between_two_pages(false);
    clear_between_two_pages();
    equal_hashes_come_in_one_page();
}
