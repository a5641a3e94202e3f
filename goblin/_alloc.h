/* The map's allocator inside Python: the raw domain, which needs no GIL and which tracemalloc and PYTHONMALLOC=debug
 * can see. In debug builds it counts, and can be told to fail: goblin._core._fail_allocation(). */
#ifndef GOB_ALLOC_H
#define GOB_ALLOC_H

#include <Python.h>

#ifdef GOB_DEBUG

#include <stdint.h>

typedef struct gob_debug_state {
    int64_t allocations; /* of the map, asked for so far, failed ones included */
    int64_t fail_at;     /* the one that fails; 0: none */
    int force_hash;      /* every key gets `hash`: goblin._core._force_hash() */
    uint64_t hash;
} gob_debug_state;

/* One for all compiled modules, each of which includes this file: the first leaves it in `sys`, the others find it. */
static inline gob_debug_state *gob_debug(void) {
    static gob_debug_state own, *shared = NULL;
    if (!shared) {
        PyObject *capsule = PySys_GetObject("_goblin_debug");
        if (capsule) {
            shared = (gob_debug_state *)PyCapsule_GetPointer(capsule, NULL);
        } else {
            shared = &own;
            capsule = PyCapsule_New(&own, NULL, NULL);
            if (!capsule || PySys_SetObject("_goblin_debug", capsule) < 0) Py_FatalError("goblin: no debug state");
            Py_DECREF(capsule);
        }
    }
    return shared;
}

static inline void *gob_debug_malloc(size_t size) {
    gob_debug_state *state = gob_debug();
    return ++state->allocations == state->fail_at ? NULL : PyMem_RawMalloc(size);
}

#define GOB_DEBUGGING 1
#define GOB_MALLOC gob_debug_malloc

static inline int64_t gob_debug_allocations(void) { return gob_debug()->allocations; }

static inline void gob_debug_fail(int64_t n) { gob_debug()->fail_at = n > 0 ? gob_debug()->allocations + n : 0; }

static inline void gob_debug_force_hash(int force, uint64_t hash) {
    gob_debug()->force_hash = force;
    gob_debug()->hash = hash;
}

#define GOB_HASH(own) (gob_debug()->force_hash ? (Py_hash_t)gob_debug()->hash : (own))

#else

#define GOB_DEBUGGING 0
#define GOB_MALLOC PyMem_RawMalloc
#define GOB_HASH(own) (own)
/* Never called, but named by the core. */
#define gob_debug_allocations() ((int64_t)0)
#define gob_debug_fail(n) ((void)(n))
#define gob_debug_force_hash(force, hash) ((void)(force), (void)(hash))

#endif

#define GOB_FREE PyMem_RawFree

#endif /* GOB_ALLOC_H */
