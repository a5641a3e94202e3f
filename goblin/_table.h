/* The hash map: records of {key bytes, value, deadline, kind, flags} under a 64-bit hash that the caller supplies.
 *
 * Storage only. It knows records, not commands: no rule of INCREX, no meaning of a value or a kind. No Python either,
 * so it is compiled, sanitized, starved of memory and fuzzed on its own (tests/c/).
 *
 *     directory, 2^depth pointers,      segment: at most about 3,200 records        chunks of 64 records
 *     indexed by the hash's top bits                                                48 bytes each, dense
 *                                       index: one uint32 a slot                   +---------------------+
 *     +------+                          +---------------------------+         +--->| 0: hash value dead-  |
 *  00 |   o--+------------------------->| 0 | tag,#3 | 0 | tag,#0  |         |    |    line len kind key |
 *     +------+                          +-------|---------------|---+         |    | 1: ...              |
 *  01 |   o--+--+                               |               +------------ +    | ...                 |
 *     +------+  |   +---------+                 |                             |    | 63                  |
 *  10 |   o--+--+-->| another |                 +-----------------------------+    +---------------------+
 *     +------+  |   +---------+                   chunks[number / 64][number % 64]
 *  11 |   o--+--+                       records 0 .. count-1 are in use, nothing else: no holes, no tombstones
 *     +------+
 *
 * This is extendible hashing. A segment of depth d holds exactly the records whose hashes share its top d bits, and
 * 2^(depth - d) neighbouring directory entries point to it. A full segment splits in two by the next bit; only when
 * its d equals the directory's depth are the directory's pointers doubled first. So no call ever rehashes the table:
 * the longest step moves one segment, some 3,200 records.
 *
 * Inside a segment an open-addressing index (linear probing, by the hash's low bits) maps to record numbers. An entry
 * is 0 (empty) or (low hash bits << shift | record number + 1), shift = log2(slots): the low hash bits hold the
 * entry's home slot and a tag of 10 bits or more, so a probe looks at a record only when it is very likely the right
 * one, and a deletion can close its gap without looking at any record. Records lie densely in insertion order; erasing
 * one moves the last one into its place.
 *
 * Why so: fat slots that are half empty after a split are what makes open addressing waste memory; here only 4-byte
 * index slots are ever empty. And since with a good hash all segments would fill and split at nearly the same moment,
 * each segment's split point is its own, between 1,600 and 3,200 records (gob_split_point).
 *
 * Records with equal hashes cannot be split apart. A split that would part next to nothing (fewer than 1/16 of the
 * records) is not made; such a segment grows its index instead, and costs in proportion to the records concerned.
 *
 * Invariants (gob_table_check verifies every one of them):
 *   - directory entries of one segment are neighbours, aligned, 2^(depth - d) in number;
 *   - each record lies in the segment of its hash's top bits, and is found by its own hash and key, first and once;
 *   - the index holds `count` entries, each naming a different record below `count`; count <= 25/32 of the slots
 *     (`limit` may lie below count: the larger half of a lopsided split awaits its own split, at its next insert);
 *   - chunks 0 .. chunks_used-1 are allocated, enough for `count`;
 *   - `count`, `slots`, `segments` and `bytes` are the sums over everything allocated.
 *
 * Failure: a function that cannot allocate returns NULL or false and leaves the map as it was. Pointers to records
 * are valid until the next insert, erase, sweep or clear.
 */
#ifndef GOB_TABLE_H
#define GOB_TABLE_H

#include "_port.h"
#include <stddef.h>
#include <string.h>

#ifndef GOB_MALLOC
#include <stdlib.h>
#define GOB_MALLOC malloc
#define GOB_FREE free
#endif

#define GOB_NO_DEADLINE INT64_MAX /* a record that never expires; real deadlines are at most 2^63-2 */
#define GOB_KEY_MAX 65535
#define GOB_KEY_INLINE 20 /* what is left of 48 bytes; longer keys are allocated apart */
#define GOB_CHUNK_LOG2 6
#define GOB_CHUNK ((uint32_t)1 << GOB_CHUNK_LOG2) /* records a chunk: at most 63 are allocated and unused */
#define GOB_FIRST_SLOTS_LOG2 4
/* A segment splits at a point of its own between these two: what 2,048 and 4,096 slots hold at the highest load, 25/32. So
 * large that fewer than one creation in a thousand splits one, so small that a split is no long pause. */
#ifndef GOB_SPLIT_MIN /* tests split more often */
#define GOB_SPLIT_MIN 1600u
#endif
#define GOB_SPLIT_MAX (2 * GOB_SPLIT_MIN)
#define GOB_MERGE_MAX (GOB_SPLIT_MIN / 2) /* two halves merge at half the lowest split point: far enough from it not to flutter */
#define GOB_DEPTH_MAX 40    /* of the directory; a stop for memory it could never get anyway */
#define GOB_SWEEP_BATCH 8u  /* records that one share of the sweep looks at ... */
#define GOB_SWEEP_MAX 24u   /* ... and how many at most while it keeps finding dead ones */

typedef struct gob_record {
    uint64_t hash;
    int64_t value;
    int64_t deadline; /* nanoseconds; GOB_NO_DEADLINE: none */
    uint16_t key_len;
    uint8_t kind;
    uint8_t flags;
    unsigned char key[GOB_KEY_INLINE]; /* the key; or, if longer, 4 unused bytes and a pointer to it */
} gob_record;

typedef struct gob_segment {
    uint32_t *index;
    gob_record **chunks;
    uint32_t mask; /* slots - 1 */
    uint32_t count;
    uint32_t limit;    /* the count at which an insert must make room first */
    uint32_t split_at; /* the count at which it splits */
    uint32_t chunks_used;
    uint32_t chunks_cap;
    uint8_t shift; /* log2(slots) */
    uint8_t depth;
} gob_segment;

/* A place among the records, for whoever goes round and round over all of them, a few at a time. */
typedef struct gob_hand {
    uint64_t hash;   /* some hash of its segment, ... */
    uint32_t number; /* ... and the record there that it looks at next */
} gob_hand;

typedef struct gob_table {
    gob_segment **directory; /* &only while depth is 0 */
    gob_segment *only;
    uint8_t depth;
    uint64_t count;
    uint64_t slots; /* records that fit into the allocated chunks */
    uint64_t segments;
    uint64_t bytes;      /* all allocations together, as asked for */
    gob_hand hand;       /* the sweep's */
    uint32_t depths[GOB_DEPTH_MAX + 1]; /* how many segments have each depth */
} gob_table;

/* A look-up begun: the first record that may be the key's (its tag is the same), and where in which segment. */
typedef struct gob_probe {
    gob_segment *segment;
    gob_record *record; /* NULL: there is none */
    uint32_t slot;
} gob_probe;

/* ---- small parts ------------------------------------------------------------------------------------------------- */

GOB_FN void *gob_alloc(gob_table *t, size_t count, size_t size) {
    void *p;
    if (count > SIZE_MAX / 2 / size) return NULL;
    p = GOB_MALLOC(count * size);
    if (p) t->bytes += count * size;
    return p;
}

GOB_FN void gob_free(gob_table *t, void *p, size_t count, size_t size) {
    if (p) t->bytes -= count * size;
    GOB_FREE(p);
}

GOB_FN gob_record *gob_at(const gob_segment *s, uint32_t number) {
    return &s->chunks[number >> GOB_CHUNK_LOG2][number & (GOB_CHUNK - 1)];
}

/* memcpy because the place is not aligned for every pointer width; compilers make a plain load of it. */
GOB_FN const unsigned char *gob_key(const gob_record *r) {
    unsigned char *apart;
    if (GOB_LIKELY(r->key_len <= GOB_KEY_INLINE)) return r->key;
    memcpy(&apart, r->key + 4, sizeof apart);
    return apart;
}

GOB_FN bool gob_expired(const gob_record *r, int64_t now) {
    /* GOB_NO_DEADLINE needs no test of its own: no clock reads 2^63-1. */
    return now >= r->deadline;
}

/* The directory slot of a hash. Two shifts, since a shift by 64 (depth 0) is undefined in C. */
GOB_FN size_t gob_slot_of(uint64_t hash, uint8_t depth) { return (size_t)((hash >> 1) >> (63 - depth)); }

GOB_FN gob_segment *gob_segment_of(const gob_table *t, uint64_t hash) {
    return t->directory[gob_slot_of(hash, t->depth)];
}

/* The last hash that belongs to the segment of `hash` at this depth. */
GOB_FN uint64_t gob_last_hash(uint64_t hash, uint8_t depth) {
    return depth == 0 ? UINT64_MAX : hash | (UINT64_MAX >> depth);
}

GOB_FN uint64_t gob_first_hash(uint64_t hash, uint8_t depth) {
    return depth == 0 ? 0 : hash & ~(UINT64_MAX >> depth);
}

GOB_FN uint32_t gob_chunks_for(uint32_t count) { return count / GOB_CHUNK + (count % GOB_CHUNK != 0); }

/* What `slots` slots may hold: 25/32 of them. Beyond, linear probing gets long (13 slots for an absent key there). */
GOB_FN uint32_t gob_capacity(uint8_t shift) { return (uint32_t)(((uint64_t)25 << shift) >> 5); }

GOB_FN uint8_t gob_shift_for(uint32_t count) {
    uint8_t shift = GOB_FIRST_SLOTS_LOG2;
    while (gob_capacity(shift) < count) shift++;
    return shift;
}

/* Each segment's own split point, from its prefix: otherwise all segments would be fullest and emptiest together. */
GOB_FN uint32_t gob_split_point(uint64_t hash, uint8_t depth) {
    uint64_t mixed = (gob_first_hash(hash, depth) ^ depth) * UINT64_C(0x9E3779B97F4A7C15);
    return GOB_SPLIT_MIN + (uint32_t)((mixed >> 32) % (GOB_SPLIT_MAX - GOB_SPLIT_MIN + 1));
}

GOB_FN void gob_set_limit(gob_segment *s) {
    uint32_t capacity = gob_capacity(s->shift);
    s->limit = s->split_at < capacity ? s->split_at : capacity;
}

/* ---- the index of a segment --------------------------------------------------------------------------------------- */

GOB_FN uint32_t gob_entry(const gob_segment *s, uint64_t hash, uint32_t number) {
    return ((uint32_t)hash << s->shift) | (number + 1);
}

GOB_FN uint32_t gob_number(const gob_segment *s, uint32_t entry) { return (entry & s->mask) - 1; }

/* Up to 65,536 slots an entry holds all bits of its home; a larger segment (equal hashes) asks the record. */
GOB_FN uint32_t gob_home(const gob_segment *s, uint32_t entry) {
    if (GOB_LIKELY(s->shift <= 16)) return (entry >> s->shift) & s->mask;
    return (uint32_t)gob_at(s, gob_number(s, entry))->hash & s->mask;
}

GOB_FN void gob_index_put(gob_segment *s, uint64_t hash, uint32_t number) {
    uint32_t i = (uint32_t)hash & s->mask;
    while (s->index[i]) i = (i + 1) & s->mask;
    s->index[i] = gob_entry(s, hash, number);
}

/* The slot of the record with this number, which must be there. */
GOB_FN uint32_t gob_index_slot(const gob_segment *s, uint64_t hash, uint32_t number) {
    uint32_t entry = gob_entry(s, hash, number), i = (uint32_t)hash & s->mask;
    while (s->index[i] != entry) i = (i + 1) & s->mask;
    return i;
}

/* Empties a slot and moves later entries of its run back, so that no probe ever ends too early. */
GOB_FN void gob_index_remove(gob_segment *s, uint32_t hole) {
    uint32_t i = hole, entry;
    while (i = (i + 1) & s->mask, (entry = s->index[i]) != 0) {
        uint32_t home = gob_home(s, entry);
        if (((i - home) & s->mask) >= ((i - hole) & s->mask)) {
            s->index[hole] = entry;
            hole = i;
        }
    }
    s->index[hole] = 0;
}

GOB_FN uint32_t *gob_index_alloc(gob_table *t, uint8_t shift) {
    uint32_t *index = shift < 32 ? (uint32_t *)gob_alloc(t, (size_t)1 << shift, sizeof *index) : NULL;
    if (index) memset(index, 0, sizeof *index << shift);
    return index;
}

/* Puts all records into a new, empty index, which replaces the old one. Cannot fail. */
GOB_FN void gob_index_replace(gob_table *t, gob_segment *s, uint32_t *index, uint8_t shift) {
    uint32_t number;
    gob_free(t, s->index, (size_t)1 << s->shift, sizeof *s->index);
    s->index = index;
    s->shift = shift;
    s->mask = (uint32_t)(((uint64_t)1 << shift) - 1);
    gob_set_limit(s);
    for (number = 0; number < s->count; number++) gob_index_put(s, gob_at(s, number)->hash, number);
}

/* The same for one of twice the slots. An entry's tag is the hash's low bits, all that its new place depends on; so no
 * record is looked at, of which most would have to come from memory. */
GOB_FN void gob_index_double(gob_table *t, gob_segment *s, uint32_t *index) {
    uint32_t *old = s->index;
    uint8_t shift = (uint8_t)(s->shift + 1);
    uint32_t slots = (uint32_t)1 << s->shift, mask = 2 * slots - 1, from, to;
    if (s->shift + shift > 32) { /* the tag is too short: millions of equal hashes */
        gob_index_replace(t, s, index, shift);
        return;
    }
    for (from = 0; from < slots; from++) {
        uint32_t entry = old[from];
        if (entry == 0) continue;
        to = (entry >> s->shift) & mask;
        while (index[to] != 0) to = (to + 1) & mask;
        index[to] = (entry >> s->shift) << shift | (entry & (slots - 1));
    }
    gob_free(t, old, slots, sizeof *old);
    s->index = index;
    s->shift = shift;
    s->mask = mask;
    gob_set_limit(s);
}

/* ---- the chunks of a segment --------------------------------------------------------------------------------------- */

/* Allocates chunks for `count` records. Those already there stay; what a failed call added is given back. */
GOB_SLOW bool gob_chunks_grow(gob_table *t, gob_segment *s, uint32_t count) {
    uint32_t needed = gob_chunks_for(count), before = s->chunks_used;
    if (needed > s->chunks_cap) {
        uint32_t cap = s->chunks_cap ? s->chunks_cap : 2;
        gob_record **chunks;
        while (cap < needed) cap *= 2;
        chunks = (gob_record **)gob_alloc(t, cap, sizeof *chunks);
        if (!chunks) return false;
        if (before) memcpy(chunks, s->chunks, before * sizeof *chunks);
        gob_free(t, s->chunks, s->chunks_cap, sizeof *chunks);
        s->chunks = chunks;
        s->chunks_cap = cap;
    }
    while (s->chunks_used < needed) {
        gob_record *chunk = (gob_record *)gob_alloc(t, GOB_CHUNK, sizeof *chunk);
        if (!chunk) {
            while (s->chunks_used > before) {
                gob_free(t, s->chunks[--s->chunks_used], GOB_CHUNK, sizeof *chunk);
                t->slots -= GOB_CHUNK;
            }
            return false;
        }
        s->chunks[s->chunks_used++] = chunk;
        t->slots += GOB_CHUNK;
    }
    return true;
}

/* Gives back chunks beyond those in use and `spare` more. */
GOB_FN void gob_chunks_trim(gob_table *t, gob_segment *s, uint32_t spare) {
    uint32_t keep = gob_chunks_for(s->count) + spare;
    while (s->chunks_used > keep) {
        gob_free(t, s->chunks[--s->chunks_used], GOB_CHUNK, sizeof(gob_record));
        t->slots -= GOB_CHUNK;
    }
}

/* ---- segments ------------------------------------------------------------------------------------------------------ */

/* The segment alone; the keys of its records are the caller's business. */
GOB_SLOW void gob_segment_free(gob_table *t, gob_segment *s) {
    if (!s) return;
    s->count = 0;
    gob_chunks_trim(t, s, 0);
    gob_free(t, s->chunks, s->chunks_cap, sizeof *s->chunks);
    gob_free(t, s->index, (size_t)1 << s->shift, sizeof *s->index);
    gob_free(t, s, 1, sizeof *s);
}

/* A segment without records that has room for `count`, and an index of 2^shift slots. */
GOB_SLOW gob_segment *gob_segment_new(gob_table *t, uint64_t hash, uint8_t depth, uint32_t count, uint8_t shift) {
    gob_segment *s = (gob_segment *)gob_alloc(t, 1, sizeof *s);
    if (!s) return NULL;
    memset(s, 0, sizeof *s);
    s->depth = depth;
    s->split_at = gob_split_point(hash, depth);
    s->shift = shift;
    s->mask = (uint32_t)(((uint64_t)1 << s->shift) - 1);
    gob_set_limit(s);
    s->index = gob_index_alloc(t, s->shift);
    if (!s->index || !gob_chunks_grow(t, s, count)) {
        gob_segment_free(t, s);
        return NULL;
    }
    return s;
}

/* Makes the directory entries of (hash's prefix, depth) point to `s`. */
GOB_FN void gob_directory_point(gob_table *t, uint64_t hash, uint8_t depth, gob_segment *s) {
    size_t i = gob_slot_of(gob_first_hash(hash, depth), t->depth), end = i + ((size_t)1 << (t->depth - depth));
    for (; i < end; i++) t->directory[i] = s;
}

GOB_SLOW bool gob_directory_resize(gob_table *t, uint8_t depth) {
    gob_segment **directory = &t->only;
    size_t i, old_size = (size_t)1 << t->depth, size = (size_t)1 << depth;
    if (depth > 0) {
        directory = (gob_segment **)gob_alloc(t, size, sizeof *directory);
        if (!directory) return false;
    }
    if (depth > t->depth) {
        for (i = 0; i < size; i++) directory[i] = t->directory[i >> (depth - t->depth)];
    } else {
        for (i = 0; i < size; i++) directory[i] = t->directory[i << (t->depth - depth)];
    }
    if (t->directory != &t->only) gob_free(t, t->directory, old_size, sizeof *directory);
    t->directory = directory;
    t->depth = depth;
    return true;
}

/* Of an index that is not doubled before its segment splits: that would be a second pause. */
GOB_FN uint8_t gob_shift_of_half(uint64_t hash, uint8_t depth, uint32_t count) {
    uint32_t split_at = gob_split_point(hash, depth);
    return gob_shift_for(count < split_at ? split_at : count + 1);
}

typedef enum gob_split_result { GOB_SPLIT_DONE, GOB_SPLIT_USELESS, GOB_SPLIT_NO_MEMORY } gob_split_result;

/* Splits the segment by its next hash bit. All allocations come first, so a failure has changed nothing that shows
 * (a directory already doubled stays, with the same contents). */
GOB_SLOW gob_split_result gob_split(gob_table *t, gob_segment *s, uint64_t hash) {
    uint8_t depth = (uint8_t)(s->depth + 1);
    uint64_t bit = (uint64_t)1 << (63 - s->depth);
    uint64_t left_hash = gob_first_hash(hash, s->depth), right_hash = left_hash | bit;
    uint32_t number, kept = 0, right_count = 0, left_count;
    uint32_t *left_index;
    uint8_t left_shift, right_shift;
    gob_segment *right;

    for (number = 0; number < s->count; number++) right_count += (gob_at(s, number)->hash & bit) != 0;
    left_count = s->count - right_count;
    if ((right_count < left_count ? right_count : left_count) < s->count / 16) return GOB_SPLIT_USELESS;
    if (s->depth == t->depth) {
        /* With good hashes there are at most about four entries a segment. Sixteen: the hashes are not good, and
         * following them would spend memory on pointers without end. */
        if (depth > GOB_DEPTH_MAX || ((uint64_t)1 << depth) > 16 * t->segments) return GOB_SPLIT_USELESS;
        if (!gob_directory_resize(t, depth)) return GOB_SPLIT_NO_MEMORY;
    }
    left_shift = gob_shift_of_half(left_hash, depth, left_count);
    left_index = gob_index_alloc(t, left_shift);
    right_shift = gob_shift_of_half(right_hash, depth, right_count);
    right = left_index ? gob_segment_new(t, right_hash, depth, right_count + 1, right_shift) : NULL;
    if (!right) {
        if (left_index) gob_free(t, left_index, (size_t)1 << left_shift, sizeof *left_index);
        return GOB_SPLIT_NO_MEMORY;
    }

    for (number = 0; number < s->count; number++) {
        gob_record *r = gob_at(s, number);
        if (r->hash & bit) {
            gob_index_put(right, r->hash, right->count);
            *gob_at(right, right->count++) = *r;
        } else {
            if (kept != number) *gob_at(s, kept) = *r;
            kept++;
        }
    }
    s->count = kept;
    s->split_at = gob_split_point(left_hash, depth);
    gob_chunks_trim(t, s, 1);
    gob_index_replace(t, s, left_index, left_shift);
    t->depths[s->depth]--;
    t->depths[depth] += 2;
    s->depth = depth;
    t->segments++;
    gob_directory_point(t, right_hash, depth, right);
    return GOB_SPLIT_DONE;
}

/* Called at the limit. Afterwards the segment of `hash` (perhaps another one now) has a free index slot. */
GOB_SLOW bool gob_make_room(gob_table *t, uint64_t hash) {
    gob_segment *s;
    while (s = gob_segment_of(t, hash), s->count >= s->limit) {
        if (s->count >= s->split_at) {
            gob_split_result result = gob_split(t, s, hash);
            if (result == GOB_SPLIT_NO_MEMORY) return false;
            if (result == GOB_SPLIT_DONE) continue;
            /* Not to be parted: let it grow, and ask again when it has doubled. */
            s->split_at = s->count < UINT32_MAX / 2 ? s->count * 2 : UINT32_MAX;
            gob_set_limit(s);
        }
        if (s->count >= gob_capacity(s->shift)) {
            uint32_t *index = gob_index_alloc(t, (uint8_t)(s->shift + 1));
            if (!index) return false;
            gob_index_double(t, s, index);
        }
    }
    return true;
}

/* Joins the segment with its buddy if both are small; false if nothing was done (also when memory lacks: then it
 * stays as it is, which is right, only larger). */
GOB_SLOW bool gob_try_merge(gob_table *t, uint64_t hash) {
    gob_segment *into = gob_segment_of(t, hash), *from;
    uint8_t depth = into->depth;
    uint64_t buddy_hash;
    uint32_t number, total;
    if (depth == 0) return false;
    buddy_hash = hash ^ ((uint64_t)1 << (64 - depth));
    from = gob_segment_of(t, buddy_hash);
    if (from->depth != depth || (uint64_t)into->count + from->count > GOB_MERGE_MAX) return false;
    if (from->count > into->count) {
        gob_segment *swap = into;
        into = from;
        from = swap;
    }
    total = into->count + from->count;
    if (total > gob_capacity(into->shift)) {
        uint8_t shift = gob_shift_for(total);
        uint32_t *index = gob_index_alloc(t, shift);
        if (!index) return false;
        gob_index_replace(t, into, index, shift);
    }
    if (!gob_chunks_grow(t, into, total)) return false;
    for (number = 0; number < from->count; number++) {
        const gob_record *r = gob_at(from, number);
        gob_index_put(into, r->hash, into->count);
        *gob_at(into, into->count++) = *r;
    }
    t->depths[depth] -= 2;
    t->depths[depth - 1]++;
    t->segments--;
    into->depth = (uint8_t)(depth - 1);
    into->split_at = gob_split_point(hash, into->depth);
    gob_set_limit(into);
    gob_directory_point(t, hash, into->depth, into);
    gob_segment_free(t, from);
    /* Halve the directory only when nobody needs its last two bits: one segment that splits and merges in turn must
     * not copy it each time. */
    while (t->depth > 0 && t->depths[t->depth] == 0 && (t->depth == 1 || t->depths[t->depth - 1] == 0)) {
        if (!gob_directory_resize(t, (uint8_t)(t->depth - 1))) break;
    }
    return true;
}

GOB_FN void gob_key_free(gob_table *t, gob_record *r) {
    if (r->key_len > GOB_KEY_INLINE) gob_free(t, (void *)(uintptr_t)gob_key(r), r->key_len, 1);
}

/* ---- the interface -------------------------------------------------------------------------------------------------- */

/* False: no memory; the table is then zeroed, and gob_table_free on it is harmless. */
GOB_SLOW bool gob_table_init(gob_table *t) {
    memset(t, 0, sizeof *t);
    t->directory = &t->only;
    t->only = gob_segment_new(t, 0, 0, 0, GOB_FIRST_SLOTS_LOG2);
    if (!t->only) {
        memset(t, 0, sizeof *t);
        return false;
    }
    t->segments = 1;
    t->depths[0] = 1;
    return true;
}

/* Removes every record and gives all memory back but one small segment. Cannot fail. */
GOB_SLOW void gob_table_clear(gob_table *t) {
    gob_segment *last = NULL;
    uint64_t hash = 0;
    if (!t->directory) return;
    do {
        gob_segment *s = gob_segment_of(t, hash);
        uint32_t number;
        for (number = 0; number < s->count; number++) gob_key_free(t, gob_at(s, number));
        hash = gob_last_hash(hash, s->depth) + 1;
        s->count = 0;
        gob_segment_free(t, last);
        last = s;
    } while (hash != 0);
    gob_chunks_trim(t, last, 0);
    {
        uint32_t *index = gob_index_alloc(t, GOB_FIRST_SLOTS_LOG2);
        last->depth = 0;
        last->split_at = gob_split_point(0, 0);
        if (index)
            gob_index_replace(t, last, index, GOB_FIRST_SLOTS_LOG2);
        else {
            memset(last->index, 0, sizeof *last->index << last->shift);
            gob_set_limit(last);
        }
    }
    if (t->directory != &t->only) gob_free(t, t->directory, (size_t)1 << t->depth, sizeof *t->directory);
    t->directory = &t->only;
    t->only = last;
    t->depth = 0;
    t->segments = 1;
    t->count = 0;
    memset(&t->hand, 0, sizeof t->hand);
    memset(t->depths, 0, sizeof t->depths);
    t->depths[0] = 1;
}

GOB_SLOW void gob_table_free(gob_table *t) {
    if (!t->directory) return;
    gob_table_clear(t);
    gob_segment_free(t, t->only);
    memset(t, 0, sizeof *t);
}

/* A look-up in two halves: the first finds where the record should be and asks for its cache lines, so that the
 * caller can read the clock while they come. Nothing may change the table in between. */
/* From its slot on, the next record with the tag of the hash. */
GOB_FN void gob_probe_seek(gob_probe *p, uint64_t hash) {
    gob_segment *s = p->segment;
    uint32_t entry, wanted = (uint32_t)hash << s->shift;
    while ((entry = s->index[p->slot]) != 0 && ((entry ^ wanted) >> s->shift) != 0) p->slot = (p->slot + 1) & s->mask;
    p->record = entry ? gob_at(s, gob_number(s, entry)) : NULL;
}

GOB_FN gob_probe gob_probe_begin(const gob_table *t, uint64_t hash) {
    gob_probe p;
    p.segment = gob_segment_of(t, hash);
    p.slot = (uint32_t)hash & p.segment->mask;
    gob_probe_seek(&p, hash);
    if (p.record) {
        GOB_PREFETCH(p.record);
        GOB_PREFETCH((const char *)p.record + sizeof *p.record - 1); /* 48 bytes: every other record straddles two lines */
    }
    return p;
}

/* Whether two keys of this length are equal, at most GOB_KEY_INLINE bytes: loads that overlap, instead of a call. */
GOB_FN bool gob_equal_short(const unsigned char *a, const unsigned char *b, size_t len) {
    uint64_t first, second, last, first_b, second_b, last_b;
    uint32_t head, tail, head_b, tail_b;
    if (GOB_LIKELY(len >= 8)) {
        memcpy(&first, a, 8);
        memcpy(&first_b, b, 8);
        memcpy(&last, a + len - 8, 8);
        memcpy(&last_b, b + len - 8, 8);
        if (((first ^ first_b) | (last ^ last_b)) != 0) return false;
        if (len <= 16) return true;
        memcpy(&second, a + 8, 8);
        memcpy(&second_b, b + 8, 8);
        return second == second_b;
    }
    if (len >= 4) {
        memcpy(&head, a, 4);
        memcpy(&head_b, b, 4);
        memcpy(&tail, a + len - 4, 4);
        memcpy(&tail_b, b + len - 4, 4);
        return ((head ^ head_b) | (tail ^ tail_b)) == 0;
    }
    while (len-- > 0)
        if (a[len] != b[len]) return false;
    return true;
}

GOB_FN bool gob_has_key(const gob_record *r, uint64_t hash, const void *key, size_t key_len) {
    if (r->hash != hash || r->key_len != key_len) return false;
    if (GOB_LIKELY(key_len <= GOB_KEY_INLINE)) return gob_equal_short(r->key, (const unsigned char *)key, key_len);
    return memcmp(gob_key(r), key, key_len) == 0;
}

/* The record, or NULL. */
GOB_FN gob_record *gob_probe_end(gob_probe p, uint64_t hash, const void *key, size_t key_len) {
    while (p.record && !gob_has_key(p.record, hash, key, key_len)) {
        p.slot = (p.slot + 1) & p.segment->mask;
        gob_probe_seek(&p, hash);
    }
    return p.record;
}

GOB_FN gob_record *gob_table_find(const gob_table *t, uint64_t hash, const void *key, size_t key_len) {
    return gob_probe_end(gob_probe_begin(t, hash), hash, key, key_len);
}

/* Adds a record for a key that must be absent, with value 0, no deadline, kind and flags 0. NULL: no memory. */
GOB_SLOW gob_record *gob_table_insert(gob_table *t, uint64_t hash, const void *key, size_t key_len) {
    unsigned char *apart = NULL;
    gob_segment *s;
    gob_record *r;
    if (key_len > GOB_KEY_MAX) return NULL;
    s = gob_segment_of(t, hash);
    if (GOB_UNLIKELY(s->count >= s->limit)) {
        if (!gob_make_room(t, hash)) return NULL;
        s = gob_segment_of(t, hash);
    }
    if (s->count >= s->chunks_used * (uint64_t)GOB_CHUNK && !gob_chunks_grow(t, s, s->count + 1)) return NULL;
    if (key_len > GOB_KEY_INLINE) {
        apart = (unsigned char *)gob_alloc(t, key_len, 1);
        if (!apart) return NULL;
        memcpy(apart, key, key_len);
    }
    r = gob_at(s, s->count);
    r->hash = hash;
    r->value = 0;
    r->deadline = GOB_NO_DEADLINE;
    r->key_len = (uint16_t)key_len;
    r->kind = 0;
    r->flags = 0;
    if (apart)
        memcpy(r->key + 4, &apart, sizeof apart);
    else if (key_len)
        memcpy(r->key, key, key_len);
    gob_index_put(s, hash, s->count);
    s->count++;
    t->count++;
    return r;
}

/* Takes the record out of its segment. Returns which record was moved into its place: itself, if it was the last. */
GOB_SLOW gob_record *gob_take_out(gob_table *t, gob_record *r) {
    gob_segment *s = gob_segment_of(t, r->hash);
    uint32_t wanted = (uint32_t)r->hash << s->shift, slot = (uint32_t)r->hash & s->mask, last = s->count - 1, number;
    gob_record *moved = gob_at(s, last);
    while (((s->index[slot] ^ wanted) >> s->shift) != 0 || gob_at(s, gob_number(s, s->index[slot])) != r)
        slot = (slot + 1) & s->mask;
    number = gob_number(s, s->index[slot]);
    gob_key_free(t, r);
    gob_index_remove(s, slot);
    if (number != last) {
        s->index[gob_index_slot(s, moved->hash, last)] = gob_entry(s, moved->hash, number);
        *r = *moved;
    }
    s->count--;
    t->count--;
    return moved;
}

/* Gives back the memory that the segment of `hash` needs no more. */
GOB_SLOW void gob_settle(gob_table *t, uint64_t hash) {
    gob_segment *s = gob_segment_of(t, hash);
    gob_chunks_trim(t, s, 1);
    if (s->count <= GOB_MERGE_MAX) {
        while (gob_try_merge(t, hash)) {}
    }
    s = gob_segment_of(t, hash);
    if (s->shift > GOB_FIRST_SLOTS_LOG2 && s->count < ((uint32_t)1 << s->shift) / 8) {
        uint8_t shift = (uint8_t)(s->shift - 1);
        uint32_t *index = gob_index_alloc(t, shift);
        if (index) {
            s->split_at = gob_split_point(hash, s->depth); /* equal hashes had put it off; perhaps they are gone */
            gob_index_replace(t, s, index, shift);
        }
    }
}

/* Removes a record of this table. */
GOB_FN void gob_table_erase(gob_table *t, gob_record *r) {
    uint64_t hash = r->hash;
    gob_take_out(t, r);
    gob_settle(t, hash);
}

/* One of several records to be removed together. */
typedef struct gob_victim {
    gob_record *record;
    uint64_t hash; /* the record's own, for when it is gone */
} gob_victim;

/* Removes several, all different. The list is used up: what a removal moves is looked for in what is left of it. */
GOB_SLOW void gob_table_erase_several(gob_table *t, gob_victim *victims, size_t count) {
    size_t i, j;
    for (i = 0; i < count; i++) {
        gob_record *moved = gob_take_out(t, victims[i].record);
        for (j = i + 1; j < count; j++)
            if (victims[j].record == moved) victims[j].record = victims[i].record;
    }
    for (i = 0; i < count; i++) gob_settle(t, victims[i].hash); /* only now: it moves whole segments */
}

/* The record at the hand, or NULL where it goes on to the next segment. The caller moves the hand on past a record
 * that stays. */
GOB_FN gob_record *gob_hand_at(const gob_table *t, gob_hand *hand) {
    const gob_segment *s = gob_segment_of(t, hand->hash);
    if (hand->number < s->count) return gob_at(s, hand->number);
    hand->hash = gob_last_hash(hand->hash, s->depth) + 1; /* wraps to 0 after the last */
    hand->number = 0;
    return NULL;
}

/* Looks at up to `budget` records from the hand on (going on to the next segment counts as one) and removes those
 * that are expired. Returns how many. */
GOB_SLOW uint32_t gob_table_sweep(gob_table *t, int64_t now, uint32_t budget) {
    uint32_t removed = 0;
    for (; budget > 0; budget--) {
        gob_record *r = gob_hand_at(t, &t->hand);
        if (!r) continue;
        if (gob_expired(r, now)) {
            gob_table_erase(t, r); /* the last record is now in its place: look there again */
            removed++;
        } else
            t->hand.number++;
    }
    return removed;
}

/* The share of the sweep that a creation, or one hit in 64, pays for: 8 records, and while a batch held a dead one
 * the next 8, up to 24. Under a steady load, where each creation is matched by one death, dead records settle at
 * about 7 % of the stored ones: there a share removes one record on average. */
GOB_FN uint32_t gob_table_tend(gob_table *t, int64_t now) {
    uint32_t removed = 0, looked = 0, found;
    do {
        found = gob_table_sweep(t, now, GOB_SWEEP_BATCH);
        removed += found;
        looked += GOB_SWEEP_BATCH;
    } while (found && looked < GOB_SWEEP_MAX);
    return removed;
}

/* Removes every expired record: one turn of the hand over the whole table, beginning at hash 0. */
GOB_SLOW uint64_t gob_table_sweep_all(gob_table *t, int64_t now) {
    uint64_t removed = 0, hash = 0;
    do {
        gob_segment *s = gob_segment_of(t, hash);
        uint32_t number = 0;
        while (number < s->count) {
            gob_record *r = gob_at(s, number);
            if (gob_expired(r, now)) {
                uint64_t segments = t->segments;
                gob_table_erase(t, r);
                removed++;
                if (t->segments != segments) { /* merged: begin the joined segment again */
                    s = gob_segment_of(t, hash);
                    hash = gob_first_hash(hash, s->depth);
                    number = 0;
                }
            } else
                number++;
        }
        hash = gob_last_hash(hash, s->depth) + 1;
    } while (hash != 0);
    return removed;
}

/* ---- iteration ------------------------------------------------------------------------------------------------------ */

/* One record as copied out of the table; its key is at `keys + key_at` of the page. */
typedef struct gob_item {
    int64_t value;
    int64_t deadline;
    uint64_t key_at;
    uint16_t key_len;
    uint8_t kind;
    uint8_t flags;
} gob_item;

/* The live records of one segment, copied; `block` is one allocation that holds items and keys. */
typedef struct gob_page {
    uint64_t cursor; /* the least hash not returned yet */
    bool done;       /* no segment is left */
    uint32_t count;
    gob_item *items;
    const unsigned char *keys;
    void *block;
    size_t block_size;
} gob_page;

GOB_FN void gob_page_free(gob_page *page) {
    GOB_FREE(page->block);
    memset(page, 0, sizeof *page);
    page->done = true;
}

/* Copies the live records of the segment at the cursor and moves the cursor behind it. The cursor is a hash, so
 * whatever is added, removed, split or merged between two calls, a record that was there all the time is returned
 * exactly once, and records of equal hash come in one page. False: no memory, and the cursor has not moved. */
GOB_SLOW bool gob_table_page(const gob_table *t, int64_t now, gob_page *page) {
    const gob_segment *s = gob_segment_of(t, page->cursor);
    uint64_t next = gob_last_hash(page->cursor, s->depth) + 1, at = 0;
    size_t size = 0, count = 0;
    uint32_t number;
    unsigned char *keys;
    for (number = 0; number < s->count; number++) {
        const gob_record *r = gob_at(s, number);
        if (r->hash < page->cursor || gob_expired(r, now)) continue;
        if (size > SIZE_MAX - sizeof(gob_item) - r->key_len) return false;
        size += sizeof(gob_item) + r->key_len;
        count++;
    }
    if (size > page->block_size) {
        void *block = GOB_MALLOC(size);
        if (!block) return false;
        GOB_FREE(page->block);
        page->block = block;
        page->block_size = size;
    }
    page->items = (gob_item *)page->block;
    keys = count ? (unsigned char *)page->block + count * sizeof(gob_item) : NULL;
    page->keys = keys;
    page->count = 0;
    for (number = 0; number < s->count; number++) {
        const gob_record *r = gob_at(s, number);
        gob_item *item;
        if (r->hash < page->cursor || gob_expired(r, now)) continue;
        item = &page->items[page->count++];
        item->value = r->value;
        item->deadline = r->deadline;
        item->key_at = at;
        item->key_len = r->key_len;
        item->kind = r->kind;
        item->flags = r->flags;
        if (r->key_len) memcpy(keys + at, gob_key(r), r->key_len);
        at += r->key_len;
    }
    page->cursor = next;
    page->done = next == 0;
    return true;
}

/* ---- the check ------------------------------------------------------------------------------------------------------- */

/* NULL if every invariant holds, else what is broken. Walks everything; for tests. */
GOB_SLOW const char *gob_table_check(const gob_table *t) {
    uint64_t count = 0, slots = 0, segments = 0, bytes = 0, hash = 0;
    uint32_t depths[GOB_DEPTH_MAX + 1] = {0};
    if (t->depth > GOB_DEPTH_MAX) return "the directory is too deep";
    if ((t->depth == 0) != (t->directory == &t->only)) return "a directory of one entry lies in the table itself";
    if (t->depth > 0) bytes += sizeof(gob_segment *) << t->depth;
    do {
        const gob_segment *s = gob_segment_of(t, hash);
        size_t i, from = gob_slot_of(hash, t->depth);
        uint32_t number, entries = 0, slot;
        if (!s) return "a directory entry points nowhere";
        if (s->depth > t->depth) return "a segment is deeper than the directory";
        for (i = from; i < from + ((size_t)1 << (t->depth - s->depth)); i++)
            if (t->directory[i] != s) return "directory entries of one segment are not neighbours";
        if (hash != gob_first_hash(hash, s->depth)) return "a segment begins at another segment's hash";
        if (s->mask != ((uint64_t)1 << s->shift) - 1) return "mask and shift of an index differ";
        if (s->count > gob_capacity(s->shift)) return "a segment holds more than its index may";
        if (s->limit > gob_capacity(s->shift) || s->limit > s->split_at) return "a segment's limit is too high";
        if (s->chunks_used < gob_chunks_for(s->count)) return "a segment has too few chunks";
        if (s->chunks_used > s->chunks_cap) return "a segment has more chunks than its list holds";
        for (slot = 0; slot <= s->mask; slot++) {
            uint32_t entry = s->index[slot];
            if (!entry) continue;
            entries++;
            number = gob_number(s, entry);
            if (number >= s->count) return "an index entry names a record that is not there";
            if (entry != gob_entry(s, gob_at(s, number)->hash, number)) return "an index entry has the wrong tag";
        }
        if (entries != s->count) return "index entries and records differ in number";
        for (number = 0; number < s->count; number++) {
            const gob_record *r = gob_at(s, number);
            if (gob_segment_of(t, r->hash) != s) return "a record lies in the wrong segment";
            if (gob_table_find(t, r->hash, gob_key(r), r->key_len) != r) return "a record is not found by its own key";
            if (r->key_len > GOB_KEY_INLINE) bytes += r->key_len;
        }
        count += s->count;
        slots += s->chunks_used * (uint64_t)GOB_CHUNK;
        segments++;
        depths[s->depth]++;
        bytes += sizeof *s + s->chunks_cap * sizeof *s->chunks + (sizeof *s->index << s->shift) +
                 s->chunks_used * (uint64_t)GOB_CHUNK * sizeof(gob_record);
        hash = gob_last_hash(hash, s->depth) + 1;
    } while (hash != 0);
    if (count != t->count) return "the count of records is wrong";
    if (slots != t->slots) return "the count of slots is wrong";
    if (segments != t->segments) return "the count of segments is wrong";
    if (bytes != t->bytes) return "the count of bytes is wrong";
    if (memcmp(depths, t->depths, sizeof depths) != 0) return "the count of segments by depth is wrong";
    return NULL;
}

#endif /* GOB_TABLE_H */
