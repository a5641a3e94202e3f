# One step on one shard: take the lock, read the clock, find the record; later keep what a rule made of it, and let go.
#
# Everything between begin() and finish() is plain C: no Python object is created or dropped, so nothing of Python's
# (a collector's run, another thread's turn) can come in between.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from goblin cimport _rules as rules
from goblin._args cimport Key
from goblin._rules cimport (
    CHOSEN, NO_MEMORY, NO_ROOM, OK, PINNED, REFUSED, REFUSING, State, Status, goes_before,
)
from goblin._table cimport (
    GOB_FREE, GOB_MALLOC, GOB_NO_DEADLINE, GOB_UNLIKELY, gob_expired, gob_hand, gob_hand_at, gob_monotonic_ns, gob_probe,
    gob_probe_begin, gob_probe_end, gob_record, gob_table, gob_table_erase, gob_table_erase_several, gob_table_find,
    gob_table_insert, gob_table_tend, gob_victim,
)


# A map with what its steps need beside it.
cdef struct Shard:
    gob_table table
    int64_t *manual_ns  # the reading of a ManualClock, which the owner keeps alive; NULL: the system's clock
    int64_t latest_ns   # the latest reading: what the store judges, arms and reports by
    uint64_t reclaimed  # expired entries removed or used again, ever
    uint32_t ticks      # steps so far; every 64th pays for a share of the sweep
    uint64_t max_keys   # entries stored, at most
    bint evicts         # when full, an entry with a TTL makes room; otherwise only expired ones do
    uint64_t evicted    # entries that have made room, ever
    gob_hand victims    # where the search for the next one goes on


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


# ---- making room ----------------------------------------------------------------------------------------------------------

cdef enum:
    VICTIM_LOOKS = 16  # records looked at for each entry too many
    FEW_VICTIMS = 8    # that many at once need no allocation
    FRESH = -1         # the deadline of a record that the running step has made: real ones are not negative


cdef inline gob_record *choose_victim(Shard *self, int64_t now_ns) noexcept nogil:
    """Of the next records that the hand comes to: an expired one, or the one to be evicted; NULL if there is none."""
    cdef gob_record *record
    cdef gob_record *best = NULL
    cdef int look
    for look in range(VICTIM_LOOKS):
        record = gob_hand_at(&self.table, &self.victims)
        if record == NULL:
            continue
        self.victims.number += 1
        if record.deadline == FRESH or record.flags & (PINNED | CHOSEN):
            continue
        if gob_expired(record, now_ns):
            return record
        # Never an entry without a TTL: stock and balances are not to be forgotten.
        if self.evicts and record.deadline != GOB_NO_DEADLINE and (best == NULL or goes_before(record, best)):
            best = record
    return best


cdef inline bint make_room(Shard *self, int64_t now_ns) noexcept nogil:
    """Bring the number of entries back to the most that is allowed, all of it or nothing. The step's own entries are
    pinned or fresh."""
    cdef gob_victim few[FEW_VICTIMS]
    cdef gob_victim *victims = few
    cdef uint64_t i, found = 0, needed = self.table.count - self.max_keys
    if needed > FEW_VICTIMS:
        victims = NULL if needed > <uint64_t>1 << 40 else <gob_victim *>GOB_MALLOC(needed * sizeof(gob_victim))
        if victims == NULL:
            return False
    while found < needed:
        victims[found].record = choose_victim(self, now_ns)
        if victims[found].record == NULL:
            break
        victims[found].hash = victims[found].record.hash
        victims[found].record.flags |= CHOSEN
        found += 1
    if found == needed:
        for i in range(found):
            if gob_expired(victims[i].record, now_ns):
                self.reclaimed += 1
            else:
                self.evicted += 1
        gob_table_erase_several(&self.table, victims, found)
    else:
        for i in range(found):
            victims[i].record.flags &= ~CHOSEN
    if victims != few:
        GOB_FREE(victims)
    return found == needed


# ---- keeping --------------------------------------------------------------------------------------------------------------

cdef inline Status create(Shard *self, const Key *key, Step *step) noexcept nogil:
    """A record for a new entry. Whoever makes one pays for a share of the sweep, so dead entries stay few."""
    cdef gob_record *record
    self.reclaimed += gob_table_tend(&self.table, step.now_ns)
    record = gob_table_insert(&self.table, key.hash, key.data, key.length)
    if record == NULL:
        return NO_MEMORY
    record.value = step.state.value
    record.deadline = step.state.deadline_ns
    record.kind = step.state.kind
    if GOB_UNLIKELY(self.table.count > self.max_keys):
        record.flags = PINNED
        if not make_room(self, step.now_ns):
            gob_table_erase(&self.table, record)
            return NO_ROOM
        record = gob_table_find(&self.table, key.hash, key.data, key.length)  # making room moves records
        record.flags = 0
    return OK


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
        return create(self, key, step)
    record.value = step.state.value
    record.deadline = step.state.deadline_ns
    record.kind = step.state.kind
    record.flags = 0
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


cdef inline Status finish_verdict(Shard *self, const Key *key, Step *step, Status status, bint refused) noexcept nogil:
    """As finish(), and mark the entry if it refused."""
    if refused and step.state.exists:
        step.record.flags = REFUSING
    return finish(self, key, step, status)


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


cdef inline gob_record *find_slot(Shard *self, const Slot *slot) noexcept nogil:
    return gob_table_find(&self.table, slot.key.hash, slot.key.data, slot.key.length)


cdef inline void mark_refusing(Shard *self, const Slot *slot) noexcept nogil:
    cdef gob_record *record = find_slot(self, slot)
    if record != NULL:
        record.flags = REFUSING


cdef inline void undo_several(Shard *self, const Slot *slots, Py_ssize_t count) noexcept nogil:
    cdef gob_record *record
    cdef Py_ssize_t i
    for i in range(count):
        record = find_slot(self, &slots[i])
        if record != NULL and record.deadline == FRESH:
            gob_table_erase(&self.table, record)
        elif record != NULL:
            record.flags &= ~PINNED


cdef inline Status keep_several(Shard *self, const Slot *slots, Py_ssize_t count, int64_t now_ns) noexcept nogil:
    """Keep all states or none: first every key gets a record, then there is room for them, then they get their states."""
    cdef gob_record *record
    cdef Py_ssize_t i
    cdef uint64_t made = 0
    for i in range(count):
        record = find_slot(self, &slots[i])
        if record == NULL:
            record = gob_table_insert(&self.table, slots[i].key.hash, slots[i].key.data, slots[i].key.length)
            if record == NULL:
                undo_several(self, slots, i)
                return NO_MEMORY
            record.deadline = FRESH
            made += 1
        record.flags |= PINNED
    if GOB_UNLIKELY(self.table.count > self.max_keys) and made > 0 and not make_room(self, now_ns):
        undo_several(self, slots, count)
        return NO_ROOM
    for i in range(count):
        record = find_slot(self, &slots[i])
        if record.deadline != FRESH and gob_expired(record, now_ns):
            self.reclaimed += 1
        record.value = slots[i].state.value
        record.deadline = slots[i].state.deadline_ns
        record.kind = slots[i].state.kind
        record.flags = 0
    for made in range(made):
        self.reclaimed += gob_table_tend(&self.table, now_ns)  # each creation pays its share of the sweep
    return OK
