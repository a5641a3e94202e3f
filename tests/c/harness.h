/* What the tests of the table share: CHECK, random numbers from a seed, an allocator that counts and can be told to
 * fail, and a shadow of the table that is too simple to be wrong.
 *
 * Include this instead of _table.h: the allocator's macros must come first. */
#ifndef HARNESS_H
#define HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *test_malloc(size_t size);
void test_free(void *p);
#define GOB_MALLOC test_malloc
#define GOB_FREE test_free
#include "_table.h"

/* ---- CHECK: like assert, but also in optimized builds, and it prints the seed ----------------------------------- */

_Noreturn void check_failed(const char *file, int line, const char *what);
#define CHECK(condition) ((condition) ? (void)0 : check_failed(__FILE__, __LINE__, #condition))
#define CHECK_TABLE(t)                                                   \
    do {                                                                 \
        const char *broken = gob_table_check(t);                         \
        if (broken) check_failed(__FILE__, __LINE__, broken);            \
    } while (0)

/* ---- random numbers (splitmix64) --------------------------------------------------------------------------------- */

uint64_t mix64(uint64_t x); /* a good 64-bit hash of x */
uint64_t random64(void);
void random_restart(void); /* before each test, so that it does the same alone as among the others */
uint32_t random_below(uint32_t bound);

/* ---- the allocator ------------------------------------------------------------------------------------------------ */

typedef struct allocator {
    uint64_t calls;     /* of test_malloc so far */
    uint64_t fail_from; /* the first call to fail, counted as `calls`; 0: none */
    uint64_t fail_run;  /* how many calls fail from there on */
    uint64_t failed;    /* how many did */
    uint64_t blocks;    /* allocated now */
    uint64_t usable;    /* bytes the C library set aside for them, where it tells (else 0); under ASan exact */
} allocator;
extern allocator memory;

void memory_never_fails(void);
void memory_fails(uint64_t after_calls, uint64_t run); /* the after_calls-th call from now on (from 1) and the next */

/* ---- options and the tests ----------------------------------------------------------------------------------------- */

typedef struct options {
    uint64_t seed;
    uint64_t operations; /* random ones against the shadow */
    bool sanitized;      /* slow build: smaller sizes */
    bool extended;       /* --long: sizes that take minutes */
} options;
extern options option;

void test_port(void);
void test_records(void);
void test_growth(void);
void test_iteration(void);
void test_sweep(void);
void test_memory(void);
void test_collisions(void);
void test_starvation(void);
void test_random(void);

/* ---- keys and hashes made from a number ---------------------------------------------------------------------------- */

#define KEY_SPACE 256
/* A key of its own for each number below 2^32: most are 4..20 bytes long, every eighth is longer (not stored inline).
 * Keys of equal length share all but their last 4 bytes, and hold NULs. */
size_t make_key(uint32_t number, unsigned char *key);
uint32_t key_number(const unsigned char *key, size_t key_len); /* the way back */
/* The common case, 16 bytes. */
void make_key16(uint64_t number, unsigned char key[16]);

typedef enum hash_mode {
    HASH_GOOD,
    HASH_FEW,   /* seven values: equal in all 64 bits */
    HASH_TOP,   /* the upper 32 bits are all equal: the directory cannot part them */
    HASH_LOW,   /* the lower 32 bits are all equal: every index probe starts in one place, with one tag */
    HASH_STAIR, /* half of them in the lowest half, a quarter in its lowest half, ... */
    HASH_MIXED, /* some of each */
    HASH_MODES
} hash_mode;
extern const char *const hash_mode_names[HASH_MODES];
uint64_t make_hash(hash_mode mode, uint32_t number);

/* ---- the shadow: one array, indexed by key number -------------------------------------------------------------------- */

typedef struct shadow_entry {
    uint64_t hash;
    int64_t value, deadline;
    uint8_t kind, flags;
    bool present;
} shadow_entry;

/* A table and what should be in it. A sweep removes expired records without naming them: `unseen` counts those which
 * the shadow still has, until a look-up misses them. */
typedef struct world {
    gob_table table;
    shadow_entry *entries;
    uint32_t size; /* key numbers are below it */
    uint64_t present, unseen;
    int64_t now;
} world;

bool world_begin(world *w, hash_mode mode, uint32_t size); /* false: no memory for the table */
void world_end(world *w);
gob_record *world_find(world *w, uint32_t number); /* checks it against the shadow */
bool world_insert(world *w, uint32_t number);      /* an absent one; false: no memory */
void world_set_deadline(world *w, uint32_t number, int64_t deadline);
void world_erase(world *w, gob_record *r);
void world_erase_several(world *w, const uint32_t *numbers, size_t count); /* those that are there, all at once */
void world_swept(world *w, uint64_t removed); /* tells the shadow what a sweep returned */
void world_clear(world *w);
void world_verify(world *w); /* every key, the count, and gob_table_check */

#endif /* HARNESS_H */
