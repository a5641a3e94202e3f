# One step on one shard: take the lock, read the clock, find the record; later keep what a rule made of it, and let go.
#
# Everything between begin() and finish() is plain C: no Python object is created or dropped, so nothing of Python's
# (a collector's run, another thread's turn) can come in between.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from goblin cimport _rules as rules
from goblin._args cimport Key
from goblin._rules cimport NO_MEMORY, OK, State, Status
from goblin._table cimport (
    GOB_NO_DEADLINE, GOB_UNLIKELY, gob_expired, gob_monotonic_ns, gob_probe, gob_probe_begin, gob_probe_end,
    gob_record, gob_table, gob_table_erase, gob_table_find, gob_table_insert, gob_table_tend,
)


# A map with what its steps need beside it.
cdef struct Shard:
    gob_table table
    int64_t *manual_ns  # the reading of a ManualClock, which the owner keeps alive; NULL: the system's clock
    int64_t latest_ns   # the latest reading: what the store judges, arms and reports by
    uint64_t reclaimed  # expired entries removed or used again, ever
    uint32_t ticks      # steps so far; every 64th pays for a share of the sweep


# One step on one key: what was found, and what is to be kept.
cdef struct Step:
    gob_record *record  # expired or live; NULL: none
    State state         # of a live record, else absent()
    int64_t now_ns


cdef inline void lock(Shard *self) noexcept nogil:
    """Guards the whole shard. Under the GIL it is the GIL: nothing between lock and unlock releases it."""
    pass


cdef inline void unlock(Shard *self) noexcept nogil:
    pass


cdef inline int64_t read_clock(Shard *self) noexcept nogil:
    """The latest reading so far: a clock set back stands still. Only under the lock."""
    cdef int64_t reading_ns
    if self.manual_ns == NULL:
        reading_ns = gob_monotonic_ns()
    else:
        reading_ns = self.manual_ns[0]
        if reading_ns == GOB_NO_DEADLINE:  # 2**63-1 stands for "never": such a key must not expire even then
            reading_ns -= 1
    if reading_ns > self.latest_ns:
        self.latest_ns = reading_ns
    return self.latest_ns


cdef inline void load(Step *step) noexcept nogil:
    """The state under the record that was found. An expired one counts as absent."""
    if step.record != NULL and not gob_expired(step.record, step.now_ns):
        step.state.value = step.record.value
        step.state.deadline_ns = step.record.deadline
        step.state.kind = step.record.kind
        step.state.exists = True
    else:
        step.state = rules.absent()


cdef inline void begin(Shard *self, const Key *key, Step *step) noexcept nogil:
    """Take the lock, read the clock, find the record."""
    cdef gob_probe probe
    lock(self)
    probe = gob_probe_begin(&self.table, key.hash)
    step.now_ns = read_clock(self)  # while the record's cache lines come
    step.record = gob_probe_end(probe, key.hash, key.data, key.length)
    load(step)


cdef inline Status keep(Shard *self, const Key *key, Step *step) noexcept nogil:
    """Write the state back: update, create or remove."""
    cdef gob_record *record = step.record
    if record != NULL and gob_expired(record, step.now_ns):
        self.reclaimed += 1  # removed, or used again for a new entry
    if not step.state.exists or step.state.deadline_ns <= step.now_ns:
        if record != NULL:
            gob_table_erase(&self.table, record)
        return OK
    if record == NULL:
        # Whoever creates an entry pays for a share of the sweep: so dead entries stay a small part of all.
        self.reclaimed += gob_table_tend(&self.table, step.now_ns)
        record = gob_table_insert(&self.table, key.hash, key.data, key.length)
        if record == NULL:
            return NO_MEMORY
    record.value = step.state.value
    record.deadline = step.state.deadline_ns
    record.kind = step.state.kind
    return OK


cdef inline void leave(Shard *self, int64_t now_ns) noexcept nogil:
    """Let go of the lock. Every 64th step sweeps a little first, so a store that is only hit gives memory back too."""
    self.ticks += 1
    if GOB_UNLIKELY(self.ticks % 64 == 0):
        self.reclaimed += gob_table_tend(&self.table, now_ns)
    unlock(self)


cdef inline Status finish(Shard *self, const Key *key, Step *step, Status status) noexcept nogil:
    """Keep what an admitting rule made of the state, then leave."""
    if status == OK:
        status = keep(self, key, step)
    leave(self, step.now_ns)
    return status


cdef inline void begin_several(Shard *self, Step *step) noexcept nogil:
    lock(self)
    step.now_ns = read_clock(self)


cdef inline void look_up(Shard *self, const Key *key, Step *step) noexcept nogil:
    """As begin(), inside a step that has begun."""
    step.record = gob_table_find(&self.table, key.hash, key.data, key.length)
    load(step)


# A key and the state to keep under it, for steps on several keys.
cdef struct Slot:
    Key key
    State state


cdef enum:
    FRESH = -1  # the deadline of a record that the running step has made: real ones are not negative


cdef inline bint keep_several(Shard *self, const Slot *slots, Py_ssize_t count, int64_t now_ns) noexcept nogil:
    """Keep all states or, without memory, none: first every key gets a record, then every record its state."""
    cdef gob_record *record
    cdef Py_ssize_t i, made
    cdef uint64_t before = self.table.count
    for i in range(count):
        if gob_table_find(&self.table, slots[i].key.hash, slots[i].key.data, slots[i].key.length) == NULL:
            record = gob_table_insert(&self.table, slots[i].key.hash, slots[i].key.data, slots[i].key.length)
            if record == NULL:
                for made in range(i):
                    record = gob_table_find(
                        &self.table, slots[made].key.hash, slots[made].key.data, slots[made].key.length)
                    if record != NULL and record.deadline == FRESH:
                        gob_table_erase(&self.table, record)
                return False
            record.deadline = FRESH
    for i in range(count):
        record = gob_table_find(&self.table, slots[i].key.hash, slots[i].key.data, slots[i].key.length)
        if record.deadline != FRESH and gob_expired(record, now_ns):
            self.reclaimed += 1
        record.value = slots[i].state.value
        record.deadline = slots[i].state.deadline_ns
        record.kind = slots[i].state.kind
    for before in range(before, self.table.count):
        self.reclaimed += gob_table_tend(&self.table, now_ns)  # each creation pays its share of the sweep
    return True
