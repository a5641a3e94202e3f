/* What differs by compiler or system, each with a portable fallback.
 *
 * Defining GOB_PORTABLE compiles every fallback on any compiler: that is how they are tested where the builtins exist.
 * Everything here is pure arithmetic, a hint, or a clock read: no allocation, no Python.
 */
#ifndef GOB_PORT_H
#define GOB_PORT_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__GNUC__) && !defined(GOB_PORTABLE)
#define GOB_LIKELY(x) __builtin_expect(!!(x), 1)
#define GOB_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define GOB_PREFETCH(p) __builtin_prefetch((p), 1, 3)
#define GOB_SLOW static __attribute__((noinline, unused))
#else
#define GOB_LIKELY(x) (x)
#define GOB_UNLIKELY(x) (x)
#define GOB_PREFETCH(p) ((void)(p))
#define GOB_SLOW static inline
#endif

/* For loops that wait for another core. */
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__)) && !defined(GOB_PORTABLE)
#define GOB_PAUSE() __builtin_ia32_pause()
#elif defined(__GNUC__) && defined(__aarch64__) && !defined(GOB_PORTABLE)
#define GOB_PAUSE() __asm__ volatile("isb")
#else
#define GOB_PAUSE() ((void)0)
#endif

/* GOB_FN: small, on the way of every call. GOB_SLOW: kept out of its callers' code, so that these stay small. (In a
 * header many functions are unused in any one program; both spellings keep that quiet.) */
#define GOB_FN static inline

/* ---- overflow: true when the exact result does not fit, and then *out is untouched ---------------------------- */

GOB_FN bool gob_add_overflows(int64_t a, int64_t b, int64_t *out) {
#if defined(__GNUC__) && !defined(GOB_PORTABLE)
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return true;
    *out = sum;
    return false;
#else
    if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return true;
    *out = a + b;
    return false;
#endif
}

GOB_FN bool gob_sub_overflows(int64_t a, int64_t b, int64_t *out) {
#if defined(__GNUC__) && !defined(GOB_PORTABLE)
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference)) return true;
    *out = difference;
    return false;
#else
    if (b > 0 ? a < INT64_MIN + b : a > INT64_MAX + b) return true;
    *out = a - b;
    return false;
#endif
}

GOB_FN bool gob_mul_overflows(int64_t a, int64_t b, int64_t *out) {
#if defined(__GNUC__) && !defined(GOB_PORTABLE)
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product)) return true;
    *out = product;
    return false;
#else
    if (a != 0 && b != 0) {
        if (a > 0 ? (b > 0 ? a > INT64_MAX / b : b < INT64_MIN / a)
                  : (b > 0 ? a < INT64_MIN / b : b < INT64_MAX / a))
            return true;
    }
    *out = a * b;
    return false;
#endif
}

/* ---- 128-bit unsigned arithmetic: only what exact rate limiting needs ------------------------------------------ */

typedef struct gob_u128 {
    uint64_t high, low;
} gob_u128;

GOB_FN gob_u128 gob_u128_product(uint64_t a, uint64_t b) {
    gob_u128 product;
#if defined(__SIZEOF_INT128__) && !defined(GOB_PORTABLE)
    unsigned __int128 wide = (unsigned __int128)a * b;
    product.high = (uint64_t)(wide >> 64);
    product.low = (uint64_t)wide;
#else
    /* Schoolbook on 32-bit halves; `middle` cannot overflow: (2^32-1)^2 + 2*(2^32-1) < 2^64. */
    uint64_t a_low = (uint32_t)a, a_high = a >> 32, b_low = (uint32_t)b, b_high = b >> 32;
    uint64_t low = a_low * b_low;
    uint64_t middle = a_high * b_low + (low >> 32);
    uint64_t other = a_low * b_high + (uint32_t)middle;
    product.high = a_high * b_high + (middle >> 32) + (other >> 32);
    product.low = (other << 32) | (uint32_t)low;
#endif
    return product;
}

/* a + b, a - b modulo 2^128: the callers' ranges keep them exact. */
GOB_FN gob_u128 gob_u128_add(gob_u128 a, gob_u128 b) {
    gob_u128 sum;
    sum.low = a.low + b.low;
    sum.high = a.high + b.high + (sum.low < a.low);
    return sum;
}

GOB_FN gob_u128 gob_u128_sub(gob_u128 a, gob_u128 b) {
    gob_u128 difference;
    difference.low = a.low - b.low;
    difference.high = a.high - b.high - (a.low < b.low);
    return difference;
}

GOB_FN gob_u128 gob_u128_from(uint64_t a) {
    gob_u128 wide;
    wide.high = 0;
    wide.low = a;
    return wide;
}

GOB_FN bool gob_u128_less(gob_u128 a, gob_u128 b) {
    return a.high < b.high || (a.high == b.high && a.low < b.low);
}

/* floor(a / divisor) and the remainder. The quotient saturates at 2^64-1 when it does not fit (the remainder is then
 * meaningless). divisor > 0. */
GOB_FN uint64_t gob_u128_divide(gob_u128 a, uint64_t divisor, uint64_t *remainder) {
    if (a.high >= divisor) {
        *remainder = 0;
        return UINT64_MAX;
    }
    if (a.high == 0) { /* the common case, and several times cheaper than a 128-bit division */
        *remainder = a.low % divisor;
        return a.low / divisor;
    }
#if defined(__SIZEOF_INT128__) && !defined(GOB_PORTABLE)
    {
        unsigned __int128 wide = ((unsigned __int128)a.high << 64) | a.low;
        *remainder = (uint64_t)(wide % divisor);
        return (uint64_t)(wide / divisor);
    }
#else
    {
        /* Long division, a bit at a time. `rest` stays below the divisor, so the bit shifted out of it (carry) only
         * says that the doubled rest is at least the divisor. */
        uint64_t quotient = 0, rest = a.high;
        int bit;
        for (bit = 63; bit >= 0; bit--) {
            uint64_t carry = rest >> 63;
            rest = (rest << 1) | ((a.low >> bit) & 1);
            quotient <<= 1;
            if (carry || rest >= divisor) {
                rest -= divisor;
                quotient |= 1;
            }
        }
        *remainder = rest;
        return quotient;
    }
#endif
}

/* ---- the monotonic clock, nanoseconds ---------------------------------------------------------------------------- */

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

GOB_FN int64_t gob_monotonic_ns(void) {
    /* Split so that no product overflows: the counter may hold decades. */
    LARGE_INTEGER count, frequency;
    QueryPerformanceCounter(&count);
    QueryPerformanceFrequency(&frequency);
    return (int64_t)(count.QuadPart / frequency.QuadPart * 1000000000 +
                     count.QuadPart % frequency.QuadPart * 1000000000 / frequency.QuadPart);
}
#else
#include <time.h>

/* CLOCK_MONOTONIC: never set back; on Linux it does not advance while the machine is suspended. */
GOB_FN int64_t gob_monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}
#endif

/* The coarse clock: the same time as of the last tick, at a quarter of the price. Never ahead of the exact one, but how
 * far behind has no bound: a tick may be late (11 ms were seen where they come every 4), and while a machine is paused
 * none comes. */
#if defined(CLOCK_MONOTONIC_COARSE) && !defined(GOB_PORTABLE)
GOB_FN int64_t gob_coarse_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How long between two ticks; 0: there is no coarse clock. */
GOB_FN int64_t gob_coarse_tick_ns(void) {
    struct timespec tick;
    if (clock_getres(CLOCK_MONOTONIC_COARSE, &tick) != 0) return 0;
    return (int64_t)tick.tv_sec * 1000000000 + tick.tv_nsec;
}
#else
GOB_FN int64_t gob_coarse_ns(void) { return gob_monotonic_ns(); }
GOB_FN int64_t gob_coarse_tick_ns(void) { return 0; }
#endif

#endif /* GOB_PORT_H */
