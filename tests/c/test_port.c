/* _port.h against the compiler's own 128-bit integers. The Makefile builds this twice: with the builtins, and with
 * the fallbacks (GOB_PORTABLE). */
#include "harness.h"

#if !defined(__SIZEOF_INT128__)
#error "this test needs a compiler with __int128; the header does not"
#endif
typedef __int128 wide;
typedef unsigned __int128 uwide;

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const int64_t edges[] = {
    INT64_MIN,     INT64_MIN + 1, INT64_MIN + 2, INT64_MIN / 2 - 1, INT64_MIN / 2, INT64_MIN / 2 + 1,
    -4294967297,   -4294967296,   -4294967295,   -3037000500,       -3037000499,   -2147483649,
    -2147483648,   -2147483647,   -1000000000,   -65536,            -3,            -2,
    -1,            0,             1,             2,                 3,             65536,
    1000000000,    2147483646,    2147483647,    2147483648,        3037000499,    3037000500,
    4294967295,    4294967296,    4294967297,    INT64_MAX / 3,     INT64_MAX / 2, INT64_MAX / 2 + 1,
    INT64_MAX - 2, INT64_MAX - 1, INT64_MAX,
};

/* A number with a random count of significant bits: uniform ones would nearly all be close to 2^64. */
static uint64_t random_size(void) {
    uint64_t x = random64();
    return x >> (random64() % 64);
}

typedef bool (*overflow_function)(int64_t a, int64_t b, int64_t *out);

static void check_overflow(overflow_function function, int64_t a, int64_t b, wide exact) {
    const int64_t untouched = 0x5AFE5AFE5AFE5AFE;
    int64_t out = untouched;
    bool fits = exact >= INT64_MIN && exact <= INT64_MAX;
    CHECK(function(a, b, &out) == !fits);
    CHECK(out == (fits ? (int64_t)exact : untouched));
}

static void check_pair(int64_t a, int64_t b) {
    check_overflow(gob_add_overflows, a, b, (wide)a + b);
    check_overflow(gob_sub_overflows, a, b, (wide)a - b);
    check_overflow(gob_mul_overflows, a, b, (wide)a * b);
}

static uwide uwide_of(gob_u128 x) { return (uwide)x.high << 64 | x.low; }

static gob_u128 u128_of(uwide x) {
    gob_u128 result;
    result.high = (uint64_t)(x >> 64);
    result.low = (uint64_t)x;
    return result;
}

static void check_division(uwide a, uint64_t divisor) {
    uint64_t remainder = 77, quotient = gob_u128_divide(u128_of(a), divisor, &remainder);
    if (a / divisor > UINT64_MAX) {
        CHECK(quotient == UINT64_MAX);
    } else {
        CHECK(quotient == (uint64_t)(a / divisor));
        CHECK(remainder == (uint64_t)(a % divisor));
    }
}

static void check_wide(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    uwide ab = (uwide)a << 64 | b, cd = (uwide)c << 64 | d;
    CHECK(uwide_of(gob_u128_product(a, b)) == (uwide)a * b);
    CHECK(uwide_of(gob_u128_from(a)) == a);
    CHECK(uwide_of(gob_u128_add(u128_of(ab), u128_of(cd))) == ab + cd);
    CHECK(uwide_of(gob_u128_sub(u128_of(ab), u128_of(cd))) == ab - cd);
    CHECK(gob_u128_less(u128_of(ab), u128_of(cd)) == (ab < cd));
    if (c) {
        check_division(ab, c);
        /* Round the edges of one quotient: the last number of it, and the first of the next. */
        check_division((uwide)c * b, c);
        check_division((uwide)c * b + (c - 1), c);
        check_division((uwide)c * b - 1, c);
    }
}

static void overflow_at_boundaries_and_at_random(void) {
    size_t i, j;
    int delta;
    for (i = 0; i < COUNT(edges); i++) {
        for (j = 0; j < COUNT(edges); j++) check_pair(edges[i], edges[j]);
        /* The partner that makes the result just fit, and its neighbours. */
        for (delta = -2; delta <= 2; delta++) {
            int64_t a = edges[i];
            uint64_t d = (uint64_t)(int64_t)delta;
            check_pair(a, (int64_t)((uint64_t)INT64_MAX - (uint64_t)a + d));
            check_pair(a, (int64_t)((uint64_t)INT64_MIN - (uint64_t)a + d));
            check_pair(a, (int64_t)((uint64_t)a - (uint64_t)INT64_MAX + d));
            check_pair(a, (int64_t)((uint64_t)a - (uint64_t)INT64_MIN + d));
            if (a != 0 && a != -1) {
                check_pair(a, (int64_t)((uint64_t)(INT64_MAX / a) + d));
                check_pair(a, (int64_t)((uint64_t)(INT64_MIN / a) + d));
            }
        }
    }
    for (i = 0; i < 200000; i++) {
        int64_t a = (int64_t)random_size(), b = (int64_t)random_size();
        check_pair(random64() & 1 ? a : (int64_t)(0 - (uint64_t)a), random64() & 1 ? b : (int64_t)(0 - (uint64_t)b));
    }
}

static void wide_arithmetic_at_edges_and_at_random(void) {
    static const uint64_t marks[] = {
        0,          1,          2,          3,          1000000000,     UINT32_MAX - 1, UINT32_MAX,
        (uint64_t)UINT32_MAX + 1, (uint64_t)UINT32_MAX + 2, INT64_MAX - 1, INT64_MAX, (uint64_t)INT64_MAX + 1,
        UINT64_MAX - UINT32_MAX,  UINT64_MAX - 1,           UINT64_MAX,
    };
    size_t a, b, c, d, i;
    for (a = 0; a < COUNT(marks); a++)
        for (b = 0; b < COUNT(marks); b++)
            for (c = 0; c < COUNT(marks); c++)
                for (d = 0; d < COUNT(marks); d += 2) check_wide(marks[a], marks[b], marks[c], marks[d]);
    for (i = 0; i < 50000; i++) check_wide(random_size(), random_size(), random_size(), random_size());
}

static void clock_goes_forward(void) {
    int64_t before = gob_monotonic_ns(), now = before;
    int i;
    for (i = 0; i < 1000; i++) {
        int64_t next = gob_monotonic_ns();
        CHECK(next >= now);
        now = next;
    }
    while (now == before) now = gob_monotonic_ns();
    CHECK(before > 0);
}

void test_port(void) {
    overflow_at_boundaries_and_at_random();
    wide_arithmetic_at_edges_and_at_random();
    clock_goes_forward();
}
