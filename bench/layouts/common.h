/* What all layouts share: the allocator that counts, the directory of extendible hashing, and what a caller gets. */
#ifndef LAYOUTS_COMMON_H
#define LAYOUTS_COMMON_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the allocator: glibc's, and what it really takes ------------------------------------------------------------- */

static uint64_t malloc_bytes; /* usable sizes and 8 bytes of header each */

static inline void *count_malloc(size_t size) {
    void *p = malloc(size);
    if (!p) exit(2);
    malloc_bytes += malloc_usable_size(p) + 8;
    return p;
}

static inline void count_free(void *p) {
    if (!p) return;
    malloc_bytes -= malloc_usable_size(p) + 8;
    free(p);
}

static inline void *count_realloc(void *p, size_t size) {
    if (p) malloc_bytes -= malloc_usable_size(p) + 8;
    p = realloc(p, size);
    if (!p) exit(2);
    malloc_bytes += malloc_usable_size(p) + 8;
    return p;
}

static inline void *count_zeroed_lines(size_t size) { /* aligned to cache lines */
    void *p = aligned_alloc(64, size);
    if (!p) exit(2);
    malloc_bytes += malloc_usable_size(p) + 8;
    return memset(p, 0, size);
}

#define GOB_MALLOC count_malloc
#define GOB_FREE count_free
#include "_table.h"

/* ---- the directory, for the layouts that are not goblin's ---------------------------------------------------------- */

typedef struct directory {
    void **entries;
    uint8_t depth;
} directory;

static inline void *directory_at(const directory *d, uint64_t hash) { return d->entries[gob_slot_of(hash, d->depth)]; }

static inline void directory_init(directory *d, void *segment) {
    d->depth = 0;
    d->entries = (void **)count_malloc(sizeof *d->entries);
    d->entries[0] = segment;
}

/* A segment of `depth` has been split by the next bit of the hashes: `right` has those where it is set. */
static inline void directory_split(directory *d, uint64_t hash, uint8_t depth, void *right) {
    uint64_t right_hash = gob_first_hash(hash, depth) | UINT64_C(1) << (63 - depth);
    size_t i, end;
    if (depth == d->depth) {
        size_t size = (size_t)2 << depth;
        void **doubled = (void **)count_malloc(size * sizeof *doubled);
        for (i = 0; i < size; i++) doubled[i] = d->entries[i / 2];
        count_free(d->entries);
        d->entries = doubled;
        d->depth++;
    }
    i = gob_slot_of(right_hash, d->depth);
    end = i + ((size_t)1 << (d->depth - depth - 1));
    for (; i < end; i++) d->entries[i] = right;
}

/* Where a segment splits: at `most` records, or, spread, at a point of its own between half of it and that. */
static inline uint32_t split_point(uint64_t hash, uint8_t depth, uint32_t most, bool spread) {
    uint64_t mixed = (gob_first_hash(hash, depth) ^ depth) * UINT64_C(0x9E3779B97F4A7C15);
    return spread ? most / 2 + (uint32_t)((mixed >> 32) % (most / 2 + 1)) : most;
}

/* Each layout defines NAME_init(table, spread), NAME_find_or_insert(table, hash, key, key_len), NAME_erase(the same)
 * and NAME_bytes(table). find_or_insert returns the value's address; in all layouts the deadline lies behind it. */

#endif
