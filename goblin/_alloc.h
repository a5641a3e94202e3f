/* The map's allocator inside Python: the raw domain, which needs no GIL and which tracemalloc and PYTHONMALLOC=debug
 * can see. */
#ifndef GOB_ALLOC_H
#define GOB_ALLOC_H

#include <Python.h>

#define GOB_MALLOC PyMem_RawMalloc
#define GOB_FREE PyMem_RawFree

#endif /* GOB_ALLOC_H */
