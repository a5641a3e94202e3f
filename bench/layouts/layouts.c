/* Which layout for the counters? The same keys and hashes through four candidates; prints Markdown.
 *
 *     layouts [n = 1000000] [rounds = 9]
 *
 * For Linux with glibc: it reads /proc/self/statm and malloc_usable_size. Run it through run.sh, which pins it to one
 * core. Everything that depends on a fresh heap is measured in a child process of its own. */
#define _GNU_SOURCE
#include "common.h"
/* common.h first */
#include "layout_apart.h"
#include "layout_arrays.h"
#include "layout_chosen.h"
#include "layout_fat.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEY = 16, MOST_ROUNDS = 99 };

static uint64_t mix64(uint64_t x) {
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
    return x ^ (x >> 31);
}

static void make_key(uint64_t number, unsigned char key[KEY]) {
    memcpy(key, "rate:000", 8);
    memcpy(key + 8, &number, 8);
}

/* What a call brings: streamed from memory in the order of use, so that only the table is accessed at random. */
typedef struct call {
    uint64_t hash;
    unsigned char key[KEY];
} call;

static void *shared(size_t size) { /* what a child leaves for its parent */
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(2);
    return p;
}

static uint64_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long total, resident;
    if (!file || fscanf(file, "%llu %llu", &total, &resident) != 2) exit(2);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Processor time of this thread: other processes' turns on the core are not in it (what they do to the caches is). */
static int64_t thread_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static long preemptions(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}

/* ---- what is measured, once for each layout: macros, so that each is compiled into its own loop -------------------- */

typedef struct figures {
    double create_ns, erase_ns, asked, from_malloc, resident;
} figures;

typedef struct layout {
    const char *title, *short_title;
    void *(*build)(const call *calls, uint64_t n);
    double (*increment)(void *table, const call *calls, uint64_t n);
    double (*increment_in_turn)(void *table, const call *calls, uint64_t n);
    void (*create)(figures *result, uint64_t n, bool spread);
    void (*time_each)(uint32_t *ns, uint64_t n);
} layout;

static const int64_t now_ns = 1000;

#define DEFINE(NAME)                                                                                                   \
    static void *NAME##_build(const call *calls, uint64_t n) {                                                         \
        NAME *t = (NAME *)malloc(sizeof *t);                                                                           \
        uint64_t i;                                                                                                    \
        NAME##_init(t, false);                                                                                         \
        for (i = 0; i < n; i++) NAME##_find_or_insert(t, calls[i].hash, calls[i].key, KEY);                            \
        return t;                                                                                                      \
    }                                                                                                                  \
    /* Calls that do not wait for each other: the processor overlaps their cache misses. */                            \
    static double NAME##_increment(void *table, const call *calls, uint64_t n) {                                       \
        NAME *t = (NAME *)table;                                                                                       \
        int64_t begun = thread_ns();                                                                                   \
        uint64_t i;                                                                                                    \
        for (i = 0; i < n; i++) {                                                                                      \
            int64_t *value = NAME##_find_or_insert(t, calls[i].hash, calls[i].key, KEY);                               \
            if (now_ns >= value[1]) value[0] = 0;                                                                      \
            value[0]++;                                                                                                \
        }                                                                                                              \
        return (double)(thread_ns() - begun) / (double)n;                                                              \
    }                                                                                                                  \
    /* Each call's hash is known only when the one before has its result. */                                           \
    static double NAME##_increment_in_turn(void *table, const call *calls, uint64_t n) {                               \
        NAME *t = (NAME *)table;                                                                                       \
        int64_t begun = thread_ns();                                                                                   \
        uint64_t i, nothing = 0;                                                                                       \
        for (i = 0; i < n; i++) {                                                                                      \
            int64_t *value = NAME##_find_or_insert(t, calls[i].hash ^ nothing, calls[i].key, KEY);                     \
            if (now_ns >= value[1]) value[0] = 0;                                                                      \
            nothing = (uint64_t)++value[0] >> 63;                                                                      \
        }                                                                                                              \
        return (double)(thread_ns() - begun) / (double)n;                                                              \
    }                                                                                                                  \
    static void NAME##_create(figures *result, uint64_t n, bool spread) {                                              \
        uint64_t before = resident_bytes(), malloc_before = malloc_bytes, i;                                           \
        unsigned char key[KEY];                                                                                        \
        int64_t begun = thread_ns();                                                                                   \
        NAME t;                                                                                                        \
        NAME##_init(&t, spread);                                                                                       \
        for (i = 0; i < n; i++) {                                                                                      \
            make_key(i, key);                                                                                          \
            *NAME##_find_or_insert(&t, mix64(i), key, KEY) = 1;                                                        \
        }                                                                                                              \
        result->create_ns = (double)(thread_ns() - begun) / (double)n;                                                 \
        result->asked = (double)NAME##_bytes(&t) / (double)n;                                                          \
        result->from_malloc = (double)(malloc_bytes - malloc_before) / (double)n;                                      \
        result->resident = (double)(resident_bytes() - before) / (double)n;                                            \
        begun = thread_ns();                                                                                           \
        for (i = 0; i < n; i++) {                                                                                      \
            make_key(i, key);                                                                                          \
            NAME##_erase(&t, mix64(i), key, KEY);                                                                      \
        }                                                                                                              \
        result->erase_ns = (double)(thread_ns() - begun) / (double)n;                                                  \
    }                                                                                                                  \
    /* UINT32_MAX for a call in which, perhaps, another process had the core. */                                       \
    static void NAME##_time_each(uint32_t *ns, uint64_t n) {                                                           \
        long switches = preemptions();                                                                                 \
        unsigned char key[KEY];                                                                                        \
        uint64_t i;                                                                                                    \
        NAME t;                                                                                                        \
        NAME##_init(&t, false);                                                                                        \
        for (i = 0; i < n; i++) {                                                                                      \
            uint64_t hash = mix64(i);                                                                                  \
            int64_t begun, took;                                                                                       \
            make_key(i, key);                                                                                          \
            begun = gob_monotonic_ns();                                                                                \
            NAME##_find_or_insert(&t, hash, key, KEY);                                                                 \
            took = gob_monotonic_ns() - begun;                                                                         \
            if (took > 5000) {                                                                                         \
                long after = preemptions();                                                                            \
                if (after != switches) took = UINT32_MAX;                                                              \
                switches = after;                                                                                      \
            }                                                                                                          \
            ns[i] = (uint32_t)took;                                                                                    \
        }                                                                                                              \
    }

DEFINE(chosen)
DEFINE(fat)
DEFINE(apart)
DEFINE(arrays)

#define LAYOUT(NAME) NAME##_build, NAME##_increment, NAME##_increment_in_turn, NAME##_create, NAME##_time_each
static const layout layouts[] = {
    {"(a) 4-byte index, 48-byte records in chunks of 64: `goblin/_table.h`", "(a) chosen", LAYOUT(chosen)},
    {"(b) 64-byte slots, key inside", "(b) fat slots", LAYOUT(fat)},
    {"(c) 32-byte slots, key elsewhere", "(c) key apart", LAYOUT(apart)},
    {"(d) as (a), records in arrays that grow by 1/8", "(d) arrays", LAYOUT(arrays)},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

/* ---- medians and spreads ---------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static void print_median(double *values, int count) {
    double middle = median(values, count);
    printf(" | %.0f (%.0f..%.0f)", middle, values[0], values[count - 1]);
}

/* ---- the three measurements ------------------------------------------------------------------------------------------- */

static void speed(uint64_t n, int rounds, figures created[LAYOUTS][MOST_ROUNDS]) {
    static double overlapped[LAYOUTS][MOST_ROUNDS], in_turn[LAYOUTS][MOST_ROUNDS], samples[MOST_ROUNDS];
    call *calls = (call *)malloc(n * sizeof *calls);
    void *tables[LAYOUTS];
    uint64_t i;
    int which, round;
    if (!calls) exit(2);
    for (i = 0; i < n; i++) {
        make_key(i, calls[i].key);
        calls[i].hash = mix64(i);
    }
    for (which = 0; which < LAYOUTS; which++) tables[which] = layouts[which].build(calls, n);
    for (i = n - 1; i > 0; i--) { /* random order */
        uint64_t other = mix64(i + 12345) % (i + 1);
        call swap = calls[i];
        calls[i] = calls[other];
        calls[other] = swap;
    }
    for (round = 0; round < rounds; round++) {
        for (which = 0; which < LAYOUTS; which++) {
            overlapped[which][round] = layouts[which].increment(tables[which], calls, n);
            in_turn[which][round] = layouts[which].increment_in_turn(tables[which], calls, n);
        }
    }
    printf("Time per operation with %llu live counters, random order, ns of processor time: median (least..most) of\n%d rounds.\n\n",
           (unsigned long long)n, rounds);
    printf("| layout | increment, calls overlap | increment, each waits for the last | creation | removal |\n");
    printf("|---|---|---|---|---|\n");
    for (which = 0; which < LAYOUTS; which++) {
        printf("| %s", layouts[which].title);
        print_median(overlapped[which], rounds);
        print_median(in_turn[which], rounds);
        for (round = 0; round < rounds; round++) samples[round] = created[which][round].create_ns;
        print_median(samples, rounds);
        for (round = 0; round < rounds; round++) samples[round] = created[which][round].erase_ns;
        print_median(samples, rounds);
        printf(" |\n");
    }
    printf("\n");
}

static void in_child(const layout *l, figures *result, uint64_t n, bool spread) {
    figures *f = (figures *)shared(sizeof *f);
    pid_t child;
    int status;
    fflush(stdout);
    child = fork();
    if (child == 0) {
        l->create(f, n, spread);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(2);
    *result = *f;
    munmap(f, sizeof *f);
}

static void bytes(uint64_t n) {
    static const double eighth = 1.0905077326652577; /* 2^(1/8) */
    int which, spread, i;
    printf("Bytes per counter, 16-byte keys, over n = %llu x 2^(i/8), i = 0..8: worst (mean).\n\n",
           (unsigned long long)n);
    printf("| layout | asked for | taken by malloc | resident (RSS) |\n|---|---|---|---|\n");
    for (which = 0; which < LAYOUTS; which++) {
        /* The layouts that split at a fixed count, (b) and (c), also with split points that are spread. */
        for (spread = 0; spread <= (which == 1 || which == 2); spread++) {
            figures worst = {0, 0, 0, 0, 0}, sum = {0, 0, 0, 0, 0}, now;
            double size = (double)n;
            for (i = 0; i <= 8; i++, size *= eighth) {
                in_child(&layouts[which], &now, (uint64_t)size, spread);
                sum.asked += now.asked;
                sum.from_malloc += now.from_malloc;
                sum.resident += now.resident;
                if (now.asked > worst.asked) worst.asked = now.asked;
                if (now.from_malloc > worst.from_malloc) worst.from_malloc = now.from_malloc;
                if (now.resident > worst.resident) worst.resident = now.resident;
            }
            printf("| %s%s | %.1f (%.1f) | %.1f (%.1f) | %.1f (%.1f) |\n", layouts[which].title,
                   spread ? ", each segment with a split point of its own" : "", worst.asked, sum.asked / 9,
                   worst.from_malloc, sum.from_malloc / 9, worst.resident, sum.resident / 9);
        }
    }
    printf("\n");
}

/* The same calls in several fresh processes. What a call itself needs, it needs each time; the least of its times is
 * free of interrupts. The longest of these, and the median of the processes' longest, are printed. */
static void longest(uint64_t n, int rounds) {
    uint32_t *times = (uint32_t *)shared((size_t)rounds * n * sizeof *times);
    double samples[MOST_ROUNDS];
    int which, round;
    printf("The longest single call while growing to %llu counters, us. %d fresh processes each; calls during which the "
           "core\nwas given to another process are dropped.\n\n",
           (unsigned long long)n, rounds);
    printf("| layout | longest (each call's least time over the processes) | median of the processes' longest | "
           "calls over 20 us |\n|---|---|---|---|\n");
    for (which = 0; which < LAYOUTS; which++) {
        uint64_t i, over = 0, worst = 0;
        for (round = 0; round < rounds; round++) {
            uint32_t *mine = times + (size_t)round * n, most = 0;
            pid_t child;
            int status;
            fflush(stdout);
            child = fork();
            if (child == 0) {
                memset(mine, 0, n * sizeof *mine); /* its pages exist before the clock runs */
                layouts[which].time_each(mine, n);
                _exit(0);
            }
            if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(2);
            for (i = 0; i < n; i++)
                if (mine[i] != UINT32_MAX && mine[i] > most) most = mine[i];
            samples[round] = most / 1000.0;
        }
        for (i = 0; i < n; i++) {
            uint32_t least = UINT32_MAX;
            for (round = 0; round < rounds; round++)
                if (times[(size_t)round * n + i] < least) least = times[(size_t)round * n + i];
            if (least == UINT32_MAX) continue;
            if (least > worst) worst = least;
            over += least > 20000;
        }
        printf("| %s | %.1f", layouts[which].title, (double)worst / 1000);
        print_median(samples, rounds);
        printf(" | %llu |\n", (unsigned long long)over);
    }
    printf("\n");
    munmap(times, (size_t)rounds * n * sizeof *times);
}

int main(int argc, char **argv) {
    static figures created[LAYOUTS][MOST_ROUNDS];
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    int rounds = argc > 2 ? atoi(argv[2]) : 9, round, which;
    if (n < 1000 || rounds < 1 || rounds > MOST_ROUNDS) {
        fprintf(stderr, "usage: layouts [n >= 1000] [rounds 1..%d]\n", MOST_ROUNDS);
        return 2;
    }
    for (round = 0; round < rounds; round++)
        for (which = 0; which < LAYOUTS; which++) in_child(&layouts[which], &created[which][round], n, false);
    bytes(n); /* before `speed`, which fills the parent's heap */
    longest(2 * n, rounds < 5 ? rounds : 5);
    speed(n, rounds, created);
    return 0;
}
