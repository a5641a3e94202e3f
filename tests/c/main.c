/* The table's own tests, without Python.
 *
 *     build/asan/tests [--seed N] [--ops N] [--long] [test name ...]
 *
 * Prints the seed; the same seed makes the same run. */
#include "harness.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One translation unit: the table is a header, and compiling it ten times with sanitizers takes longer than the tests. */
#include "harness.c"
#include "test_collisions.c"
#include "test_growth.c"
#include "test_iteration.c"
#include "test_memory.c"
#include "test_port.c"
#include "test_random.c"
#include "test_records.c"
#include "test_starvation.c"
#include "test_sweep.c"

#if defined(__has_feature)
#define HAS_ASAN __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#endif
#if defined(HAS_ASAN) && HAS_ASAN
#define SANITIZED true
#else
#define SANITIZED false
#endif

static const struct {
    const char *name;
    void (*run)(void);
} tests[] = {
    {"port", test_port},           {"records", test_records},       {"growth", test_growth},
    {"iteration", test_iteration}, {"sweep", test_sweep},           {"memory", test_memory},
    {"collisions", test_collisions}, {"starvation", test_starvation}, {"random", test_random},
};

static uint64_t number_of(const char *text) {
    char *end;
    uint64_t number = strtoull(text ? text : "", &end, 0);
    if (!text || end == text || *end) {
        fprintf(stderr, "not a number: %s\n", text ? text : "(nothing)");
        exit(2);
    }
    return number;
}

int main(int argc, char **argv) {
    size_t i;
    int arg, named = 0;
    option.sanitized = SANITIZED;
    option.operations = 1000000;
    option.seed = (uint64_t)gob_monotonic_ns() % 1000000;
    for (arg = 1; arg < argc; arg++) {
        if (strcmp(argv[arg], "--seed") == 0)
            option.seed = number_of(argv[++arg]);
        else if (strcmp(argv[arg], "--ops") == 0)
            option.operations = number_of(argv[++arg]);
        else if (strcmp(argv[arg], "--long") == 0)
            option.extended = true;
        else
            named++;
    }
    printf("seed %llu\n", (unsigned long long)option.seed);
    for (i = 0; i < sizeof tests / sizeof *tests; i++) {
        int64_t begun = gob_monotonic_ns();
        bool wanted = named == 0;
        for (arg = 1; arg < argc; arg++) wanted = wanted || strcmp(argv[arg], tests[i].name) == 0;
        if (!wanted) continue;
        printf("%-12s", tests[i].name);
        fflush(stdout);
        random_restart();
        tests[i].run();
        CHECK(memory.blocks == 0);
        printf(" ok %6.2f s\n", (double)(gob_monotonic_ns() - begun) / 1e9);
        fflush(stdout);
    }
    return 0;
}
