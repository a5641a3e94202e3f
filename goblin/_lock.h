/* Locks and atomics of a store. On GIL builds both are nothing and a store has one shard: the interpreter's lock is
 * held from the first touch of a step to the last. On free-threaded CPython a store is 64 shards by some bits of the
 * hash, each with a lock of its own, so that threads on different keys seldom meet. */
#ifndef GOB_LOCK_H
#define GOB_LOCK_H

#include "_port.h"
#include <Python.h>

#ifdef Py_GIL_DISABLED

#define GOB_SHARDS 64
/* Bits 30 to 35: the index of a segment uses lower ones (up to about 27), the directory higher ones. */
#define GOB_SHARD_OF(hash, mask) (((uint32_t)((hash) >> 30)) & (mask))
typedef PyMutex gob_lock;
#define gob_lock_release(l) PyMutex_Unlock(l)

/* A shard is held for some ten nanoseconds, so whoever finds it taken looks again for about a microsecond first: left to
 * itself a PyMutex asks the system for another thread's turn at once, which takes ten times as long as the wait. */
GOB_FN void gob_lock_acquire(gob_lock *l) {
    int looks = 64;
    while (GOB_UNLIKELY(__atomic_load_n(&l->_bits, __ATOMIC_RELAXED) & 1) && looks-- > 0) GOB_PAUSE();
    PyMutex_Lock(l);
}

/* The larger of the two, which *most then is: one reading of a clock for all shards. */
GOB_FN int64_t gob_raise_to(int64_t *most, int64_t reading) {
    int64_t seen = __atomic_load_n(most, __ATOMIC_ACQUIRE);
    while (reading > seen)
        if (__atomic_compare_exchange_n(most, &seen, reading, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return reading;
    return seen;
}
GOB_FN int64_t gob_load(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
GOB_FN void gob_store(int64_t *p, int64_t value) { __atomic_store_n(p, value, __ATOMIC_RELEASE); }

/* A store is shared by many threads: without this they would all count references to it in one cache line. */
GOB_FN void gob_defer_refcount(PyObject *object) {
#if PY_VERSION_HEX >= 0x030E0000
    PyUnstable_Object_EnableDeferredRefcount(object);
#else
    (void)object;
#endif
}

#else

#define GOB_SHARDS 1
#define GOB_SHARD_OF(hash, mask) ((void)(mask), 0)
typedef char gob_lock;
#define gob_lock_acquire(l) ((void)(l))
#define gob_lock_release(l) ((void)(l))

GOB_FN int64_t gob_raise_to(int64_t *most, int64_t reading) {
    if (reading > *most) *most = reading;
    return *most;
}
GOB_FN int64_t gob_load(const int64_t *p) { return *p; }
GOB_FN void gob_store(int64_t *p, int64_t value) { *p = value; }
GOB_FN void gob_defer_refcount(PyObject *object) { (void)object; }

#endif
#endif /* GOB_LOCK_H */
