#include "harness.h"
#include <stdio.h>
#include <stdlib.h>
#if defined(__GLIBC__)
#include <malloc.h>
#define USABLE(p) malloc_usable_size(p)
#else
#define USABLE(p) ((size_t)0)
#endif

options option;
allocator memory;

_Noreturn void check_failed(const char *file, int line, const char *what) {
    fflush(stdout);
    fprintf(stderr, "\n%s:%d: check failed: %s (seed %llu)\n", file, line, what, (unsigned long long)option.seed);
    abort();
}

/* ---- random numbers ------------------------------------------------------------------------------------------------- */

static uint64_t random_state;

void random_restart(void) { random_state = 0; }

uint64_t mix64(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

uint64_t random64(void) {
    return mix64(option.seed * UINT64_C(0xD1342543DE82EF95) + random_state++);
}

uint32_t random_below(uint32_t bound) { return (uint32_t)(((random64() >> 32) * bound) >> 32); }

/* ---- the allocator -------------------------------------------------------------------------------------------------- */

void *test_malloc(size_t size) {
    void *p;
    memory.calls++;
    if (memory.fail_from && memory.calls >= memory.fail_from && memory.calls - memory.fail_from < memory.fail_run) {
        memory.failed++;
        return NULL;
    }
    p = malloc(size);
    if (!p) {
        fprintf(stderr, "the machine is out of memory\n");
        exit(2);
    }
    memory.blocks++;
    memory.usable += USABLE(p);
    return p;
}

void test_free(void *p) {
    if (!p) return;
    memory.blocks--;
    memory.usable -= USABLE(p);
    free(p);
}

void memory_never_fails(void) {
    memory.fail_from = 0;
    memory.failed = 0;
}

void memory_fails(uint64_t after_calls, uint64_t run) {
    memory.fail_from = memory.calls + after_calls;
    memory.fail_run = run;
    memory.failed = 0;
}

/* ---- keys and hashes ------------------------------------------------------------------------------------------------ */

size_t make_key(uint32_t number, unsigned char *key) {
    size_t len = number % 8 == 7 ? GOB_KEY_INLINE + 1 + number % 200 : 4 + number % (GOB_KEY_INLINE - 3), i;
    memset(key, 'k', len - 4);
    for (i = 0; i < 4; i++) key[len - 4 + i] = (unsigned char)(number >> (8 * i));
    return len;
}

uint32_t key_number(const unsigned char *key, size_t key_len) {
    const unsigned char *end = key + key_len - 4;
    return (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24;
}

void make_key16(uint64_t number, unsigned char key[16]) {
    memcpy(key, "rate:000", 8);
    memcpy(key + 8, &number, 8);
}

const char *const hash_mode_names[HASH_MODES] = {"good", "few values", "equal top", "equal low", "staircase", "mixed"};

uint64_t make_hash(hash_mode mode, uint32_t number) {
    uint64_t good = mix64(number + option.seed * 7919);
    switch (mode) {
    case HASH_FEW:
        return mix64(good % 7);
    case HASH_TOP:
        return UINT64_C(0xABCDEF0100000000) | (good >> 32);
    case HASH_LOW:
        return (good & ~(uint64_t)UINT32_MAX) | 0x7FFFFFF3;
    case HASH_STAIR: {
        uint64_t coins = mix64(good);
        uint8_t stairs = 0;
        while (stairs < 60 && ((coins >> stairs) & 1)) stairs++;
        return good >> stairs;
    }
    case HASH_MIXED:
        return make_hash((hash_mode)(number % HASH_MIXED), number);
    default:
        return good;
    }
}

/* ---- the shadow ------------------------------------------------------------------------------------------------------ */

bool world_begin(world *w, hash_mode mode, uint32_t size) {
    uint32_t number;
    memset(w, 0, sizeof *w);
    w->entries = (shadow_entry *)calloc(size, sizeof *w->entries);
    CHECK(w->entries);
    w->size = size;
    for (number = 0; number < size; number++) w->entries[number].hash = make_hash(mode, number);
    return gob_table_init(&w->table);
}

void world_end(world *w) {
    gob_table_free(&w->table);
    free(w->entries);
    w->entries = NULL;
}

gob_record *world_find(world *w, uint32_t number) {
    shadow_entry *entry = &w->entries[number];
    unsigned char key[KEY_SPACE];
    size_t len = make_key(number, key);
    gob_record *r = gob_table_find(&w->table, entry->hash, key, len);
    if (r) {
        CHECK(entry->present);
        CHECK(r->hash == entry->hash && r->key_len == len && memcmp(gob_key(r), key, len) == 0);
        CHECK(r->value == entry->value && r->deadline == entry->deadline);
        CHECK(r->kind == entry->kind && r->flags == entry->flags);
    } else if (entry->present) {
        CHECK(w->unseen > 0); /* only a sweep removes unasked, ... */
        CHECK(entry->deadline <= w->now); /* ... and only what is expired */
        entry->present = false;
        w->unseen--;
        w->present--;
    }
    return r;
}

bool world_insert(world *w, uint32_t number) {
    shadow_entry *entry = &w->entries[number];
    unsigned char key[KEY_SPACE];
    size_t len = make_key(number, key);
    uint64_t count = w->table.count;
    gob_record *r = gob_table_insert(&w->table, entry->hash, key, len);
    if (!r) {
        CHECK(w->table.count == count);
        return false;
    }
    CHECK(w->table.count == count + 1);
    CHECK(r->value == 0 && r->deadline == GOB_NO_DEADLINE && r->kind == 0 && r->flags == 0);
    r->value = entry->value = (int64_t)random64();
    r->deadline = entry->deadline = random_below(3) ? GOB_NO_DEADLINE : w->now + random_below(20000);
    r->kind = entry->kind = (uint8_t)random_below(256);
    r->flags = entry->flags = (uint8_t)random_below(256);
    entry->present = true;
    w->present++;
    return true;
}

void world_set_deadline(world *w, uint32_t number, int64_t deadline) {
    gob_record *r = world_find(w, number);
    CHECK(r);
    r->deadline = w->entries[number].deadline = deadline;
}

void world_erase(world *w, gob_record *r) {
    uint64_t count = w->table.count;
    w->entries[key_number(gob_key(r), r->key_len)].present = false;
    w->present--;
    gob_table_erase(&w->table, r);
    CHECK(w->table.count == count - 1);
}

void world_erase_several(world *w, const uint32_t *numbers, size_t count) {
    gob_victim victims[64];
    size_t found = 0, i;
    uint64_t before = w->table.count;
    CHECK(count <= sizeof victims / sizeof *victims);
    for (i = 0; i < count; i++) {
        gob_record *r = world_find(w, numbers[i]);
        if (!r) continue;
        victims[found].record = r;
        victims[found].hash = r->hash;
        found++;
        w->entries[numbers[i]].present = false;
        w->present--;
    }
    gob_table_erase_several(&w->table, victims, found);
    CHECK(w->table.count == before - found);
}

void world_swept(world *w, uint64_t removed) {
    w->unseen += removed;
    CHECK(w->table.count == w->present - w->unseen);
}

void world_clear(world *w) {
    uint32_t number;
    gob_table_clear(&w->table);
    for (number = 0; number < w->size; number++) w->entries[number].present = false;
    w->present = w->unseen = 0;
    CHECK(w->table.count == 0);
}

void world_verify(world *w) {
    uint32_t number;
    CHECK_TABLE(&w->table);
    for (number = 0; number < w->size; number++) world_find(w, number);
    CHECK(w->unseen == 0 && w->table.count == w->present);
}
