"""Iteration over a store, a segment at a time."""
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memset

from goblin._glob cimport glob_match
from goblin._rules cimport COUNTER
from goblin._step cimport Shard, Store, lock, read_clock, unlock
from goblin._table cimport gob_item, gob_page, gob_page_free, gob_table_page


cdef object scan(object owner, Store *store, bytes pattern, bint with_values):
    """An iterator over the store's keys that match the pattern (None: all), or over its (key, value) pairs."""
    cdef _Scan iterator = _Scan.__new__(_Scan)
    iterator.owner = owner
    iterator.store = store
    iterator.pattern = pattern
    iterator.with_values = with_values
    return iterator


cdef object key_object(const unsigned char *data, Py_ssize_t length):
    """str where the bytes are UTF-8, else bytes."""
    cdef Py_ssize_t i
    cdef bytes copied
    for i in range(length):
        if data[i] >= 0x80:
            break
    else:
        return PyUnicode_DecodeUTF8(<const char *>data, length, NULL)
    # A failing decode builds an exception, which may run anything; it must not read a page that is replaced meanwhile.
    copied = PyBytes_FromStringAndSize(<const char *>data, length)
    try:
        return copied.decode()
    except UnicodeDecodeError:
        return copied


@cython.final
@cython.no_gc_clear  # its only reference is to the store, which never refers to it
cdef class _Scan:
    """Iterates over a store in pages: one segment is copied as bytes, then one key at a time is made of them."""
    cdef object owner  # keeps the store alive
    cdef Store *store
    cdef uint32_t shard
    cdef gob_page page
    cdef uint32_t at
    cdef bytes pattern
    cdef bint with_values

    def __cinit__(self):
        memset(&self.page, 0, sizeof(gob_page))

    def __dealloc__(self):
        gob_page_free(&self.page)

    def __iter__(self):
        return self

    @cython.critical_section  # on free-threaded builds two threads may share an iterator
    def __next__(self):
        cdef const gob_item *item
        cdef const unsigned char *data
        cdef int64_t value
        while True:
            while self.at < self.page.count:
                item = &self.page.items[self.at]
                data = self.page.keys + item.key_at
                self.at += 1
                if self.with_values and item.kind != COUNTER:
                    continue  # what a limiter keeps there is no count
                if self.pattern is not None and not glob_match(
                        self.pattern, len(self.pattern), data, item.key_len):
                    continue
                value = item.value  # before any object is made: that may run anything, this iterator included
                key = key_object(data, item.key_len)
                return (key, value) if self.with_values else key
            if self.page.done:
                gob_page_free(&self.page)
                if self.shard == self.store.shard_mask:
                    raise StopIteration
                self.shard += 1
                self.page.done = False
            self._next_page()

    cdef int _next_page(self) except -1:
        cdef bint copied
        cdef Shard *shard = &self.store.shards[self.shard]
        lock(shard)
        copied = gob_table_page(&shard.table, read_clock(shard), &self.page)
        unlock(shard)
        if not copied:
            raise MemoryError()
        self.at = 0
        return 0
