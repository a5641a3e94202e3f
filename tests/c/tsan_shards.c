/* Threads on a map in shards, each under a lock of its own, for ThreadSanitizer: the layout and the order of the locks
 * are those of goblin/_step.pxd, which Cython's output would bury. A step of one key; a step of several keys; a look
 * through everything a segment at a time, as iteration has it; a sweep and a clear of all shards.
 *
 *     build/tsan/shards        races are reported by the sanitizer, which then exits with 66
 *     build/tsan/unlocked      the same without the locks (-DUNLOCKED): it has to report some
 */
#include "_table.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SHARDS 64
#define THREADS 8
#define KEYS 4000
#ifdef UNLOCKED
#define STEPS 2000 /* the first race ends it */
#define LOCK(s) ((void)(s))
#define UNLOCK(s) ((void)(s))
#else
#define STEPS 120000
#define LOCK(s) pthread_mutex_lock(&(s)->mutex)
#define UNLOCK(s) pthread_mutex_unlock(&(s)->mutex)
#endif
#define CHECK(condition) ((condition) ? (void)0 : check_failed(__LINE__, #condition))

typedef struct shard {
    pthread_mutex_t mutex;
    gob_table table;
} shard;

static shard shards[SHARDS];
static int64_t clock_ns; /* atomic, as a ManualClock's reading is */
static int64_t added;    /* atomic: what all threads have added to the keys that stay */

_Noreturn static void check_failed(int line, const char *what) {
    fprintf(stderr, "%s:%d: %s\n", __FILE__, line, what);
    exit(1);
}

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static uint64_t hash_of(uint32_t number) { return mix(number + UINT64_C(0x9E3779B97F4A7C15)); }
static shard *shard_of(uint32_t number) { return &shards[(hash_of(number) >> 30) & (SHARDS - 1)]; }

/* Every eighth is too long to lie in its record. */
static size_t key_of(uint32_t number, unsigned char key[64]) {
    size_t length = number % 8 == 7 ? 40 : 10;
    memset(key, 'k', length);
    memcpy(key + length - 4, &number, 4);
    return length;
}

/* Only under the lock: add to the record, make it where it is missing. */
static void add(uint32_t number, int64_t amount, int64_t deadline) {
    unsigned char key[64];
    size_t length = key_of(number, key);
    gob_table *t = &shard_of(number)->table;
    gob_record *r = gob_table_find(t, hash_of(number), key, length);
    if (!r) {
        gob_table_tend(t, __atomic_load_n(&clock_ns, __ATOMIC_ACQUIRE));
        r = gob_table_insert(t, hash_of(number), key, length);
        CHECK(r);
    }
    r->value += amount;
    r->deadline = deadline;
}

static void remove_key(uint32_t number) {
    unsigned char key[64];
    size_t length = key_of(number, key);
    gob_table *t = &shard_of(number)->table;
    gob_record *r = gob_table_find(t, hash_of(number), key, length);
    if (r) gob_table_erase(t, r);
}

/* Keys below 64 stay for good and are summed up in the end; the others come and go. */
static void one_key(uint64_t random, int64_t now) {
    uint32_t number = (uint32_t)(random % KEYS);
    shard *s = shard_of(number);
    LOCK(s);
    if (number < 64) {
        add(number, 1, GOB_NO_DEADLINE);
        __atomic_fetch_add(&added, 1, __ATOMIC_RELAXED);
    } else if (random >> 32 & 1) {
        add(number, 1, now + (int64_t)(random >> 33 & 1023));
    } else {
        remove_key(number);
    }
    UNLOCK(s);
}

/* Four keys at once, their shards locked in order. */
static void several_keys(uint64_t random) {
    uint64_t locked = 0;
    uint32_t numbers[4], i;
    for (i = 0; i < 4; i++) {
        numbers[i] = (uint32_t)(random >> (16 * i) & 63);
        locked |= UINT64_C(1) << (shard_of(numbers[i]) - shards);
    }
    for (i = 0; i < SHARDS; i++)
        if (locked >> i & 1) LOCK(&shards[i]);
    for (i = 0; i < 4; i++) add(numbers[i], 1, GOB_NO_DEADLINE);
    __atomic_fetch_add(&added, 4, __ATOMIC_RELAXED);
    for (i = 0; i < SHARDS; i++)
        if (locked >> i & 1) UNLOCK(&shards[i]);
}

/* The copies are read without a lock. */
static void look_through(int64_t now) {
    uint32_t i, at;
    uint64_t seen = 0;
    for (i = 0; i < SHARDS; i++) {
        gob_page page;
        memset(&page, 0, sizeof page);
        while (!page.done) {
            LOCK(&shards[i]);
            CHECK(gob_table_page(&shards[i].table, now, &page));
            UNLOCK(&shards[i]);
            for (at = 0; at < page.count; at++) {
                seen += page.items[at].key_len > 0 && page.keys[page.items[at].key_at] == 'k';
            }
        }
        gob_page_free(&page);
    }
    CHECK(seen >= 64);
}

static void all_shards(uint64_t random, int64_t now) {
    uint32_t i;
    for (i = 0; i < SHARDS; i++) LOCK(&shards[i]);
    for (i = 0; i < SHARDS; i++) {
        if (random & 1) gob_table_sweep_all(&shards[i].table, now);
        CHECK(!gob_table_check(&shards[i].table));
    }
    for (i = 0; i < SHARDS; i++) UNLOCK(&shards[i]);
}

static void *work(void *number) {
    uint64_t state = (uint64_t)(uintptr_t)number << 40;
    uint32_t step;
    for (step = 0; step < STEPS; step++) {
        uint64_t random = mix(++state);
        int64_t now = __atomic_add_fetch(&clock_ns, 1, __ATOMIC_ACQ_REL);
        if (step % 4096 == 4095)
            all_shards(random, now);
        else if (step % 1024 == 1023)
            look_through(now);
        else if (step % 16 == 15)
            several_keys(random);
        else
            one_key(random, now);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    uint32_t i;
    int64_t sum = 0;
    for (i = 0; i < SHARDS; i++) {
        pthread_mutex_init(&shards[i].mutex, NULL);
        CHECK(gob_table_init(&shards[i].table));
    }
    for (i = 0; i < 64; i++) add(i, 0, GOB_NO_DEADLINE);
    for (i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1)) == 0);
    for (i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (i = 0; i < 64; i++) {
        unsigned char key[64];
        size_t length = key_of(i, key);
        gob_record *r = gob_table_find(&shard_of(i)->table, hash_of(i), key, length);
        CHECK(r);
        sum += r->value;
    }
    CHECK(sum == added);
    for (i = 0; i < SHARDS; i++) gob_table_free(&shards[i].table);
    printf("%d threads, %d steps each, %lld hits on the keys that stay: none lost\n", THREADS, STEPS, (long long)sum);
    return 0;
}
