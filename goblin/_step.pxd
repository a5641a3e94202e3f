# One step on one shard: take the lock, read the clock, find the record; later keep what a rule made of it, and let go.
#
# Everything between begin() and finish() is plain C: no Python object is created or dropped, so nothing of Python's
# (a collector's run, another thread's turn) can come in between.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from goblin cimport _rules as rules
from goblin._args cimport Key
from goblin._rules cimport BAD_TIME, CHOSEN, NO_MEMORY, NO_ROOM, OK, PINNED, REFUSING, State, Status, goes_before
from goblin._table cimport (
    GOB_FREE, GOB_MALLOC, GOB_NO_DEADLINE, GOB_UNLIKELY, gob_coarse_ns, gob_expired, gob_hand, gob_hand_at,
    gob_monotonic_ns, gob_probe, gob_probe_begin, gob_probe_end, gob_record, gob_table, gob_table_erase,
    gob_table_erase_several, gob_table_find, gob_table_insert, gob_table_tend, gob_victim,
)


cdef extern from "_lock.h" nogil:
    enum:
        GOB_SHARDS
    uint32_t GOB_SHARD_OF(uint64_t hash, uint32_t mask)
    ctypedef struct gob_lock:
        pass
    void gob_lock_acquire(gob_lock *lock)
    void gob_lock_release(gob_lock *lock)
    int64_t gob_raise_to(int64_t *most, int64_t reading)
    int64_t gob_load(const int64_t *p)
    void gob_store(int64_t *p, int64_t value)

cdef extern from "_lock.h":
    void gob_defer_refcount(object shared)


# A map with what its steps need beside it.
cdef struct Shard:
    gob_lock mutex      # guards all of the shard: see lock()
    uint32_t ticks      # steps so far; every 64th pays for a share of the sweep
    int64_t latest_ns   # the latest reading of the system's clock
    Store *store
    gob_table table
    uint64_t reclaimed  # expired entries removed or used again, ever
    uint64_t evicted    # live entries that have made room, ever
    uint64_t max_keys   # entries stored, at most
    gob_hand victims    # where the search for the next one to make room goes on
    uint64_t apart[2]   # five cache lines in all: what every step writes shares none with the next shard's


# All of a store's C state. Its owner, a Counters, embeds it and keeps alive what it points to.
cdef struct Store:
    Shard shards[GOB_SHARDS]
    uint32_t shard_mask        # 0: only the first is used
    bint evicts                # when full, an entry with a TTL makes room; otherwise only expired ones do
    const int64_t *manual_ns   # the reading of a ManualClock; NULL: the system's clock
    int64_t coarse_lag_ns      # taken off the coarse reading: a ManualClock's, for tests
    int64_t *margin_ns         # to 0, or to how far beyond the coarse clock a deadline must be: see begin_coarse()
    int64_t latest_manual_ns   # its latest reading, for all shards together
    Store *next_store          # of all there are, for forks; free-threaded builds only
    Store *previous_store
    bint held_for_fork         # its locks are: see _core.pyx
    gob_lock notes             # guards what _reservations.pyx notes; taken before shards


# One step: its shard, what was found there, and what is to be kept.
cdef struct Step:
    Shard *shard
    gob_record *record  # expired or live; NULL: none
    State state         # of a live record, else absent()
    int64_t now_ns      # the time; of a step that is not exact: later than it is by less than the margin
    bint exact


cdef inline Shard *shard_of(Store *store, const Key *key) noexcept nogil:
    return &store.shards[GOB_SHARD_OF(key.hash, store.shard_mask)]


# ---- the lock and the clock ------------------------------------------------------------------------------------------

cdef inline void lock(Shard *self) noexcept nogil:
    """Guards the shard: its map, counts and latest reading, from the first look to the last write of a step.

    Under the GIL it is the GIL: nothing between lock and unlock releases it. Otherwise it is a PyMutex, which lets the
    interpreter stop the world while we wait. Whoever takes several takes them in the order of the shards. Not promised:
    any order among waiters.
    """
    gob_lock_acquire(&self.mutex)


cdef inline void unlock(Shard *self) noexcept nogil:
    gob_lock_release(&self.mutex)


cdef inline void lock_all(Store *store) noexcept nogil:
    cdef uint32_t i
    for i in range(store.shard_mask + 1):
        lock(&store.shards[i])


cdef inline void unlock_all(Store *store) noexcept nogil:
    cdef uint32_t i
    for i in range(store.shard_mask + 1):
        unlock(&store.shards[i])


cdef inline int64_t read_clock(Shard *self) noexcept nogil:
    """The latest reading so far: a clock set back stands still. Only under the lock."""
    cdef int64_t reading_ns
    if self.store.manual_ns == NULL:
        reading_ns = gob_monotonic_ns()
        if reading_ns > self.latest_ns:
            self.latest_ns = reading_ns
        return self.latest_ns
    reading_ns = gob_load(self.store.manual_ns)
    if reading_ns == GOB_NO_DEADLINE:  # 2**63-1 stands for "never": such a key must not expire even then
        reading_ns -= 1
    return gob_raise_to(&self.store.latest_manual_ns, reading_ns)


# ---- the coarse clock ------------------------------------------------------------------------------------------------
#
# Reading the exact clock is a quarter of what a call costs. An entry whose deadline is far away is alive by any clock, so
# a step that admits, and arms nothing, may judge by the coarse one. How far is far: the coarse clock lags, by how much has
# no bound, but a lag of more than the margin is a pause of the machine. If there is one, an expiry is noticed late by the
# lag, never early. All else reads the exact clock: an entry near its deadline, or absent; every refusal; every arming.
# An exact reading is kept, and the coarse one judged as not before it, so what one thread has seen expire no other sees
# alive. An entry without a TTL is alive whatever the time: for that no clock is read at all, and a refusal stands.

cdef enum:
    LEAST_MARGIN_NS = 100_000_000  # or MARGIN_TICKS ticks, if that is more
    MARGIN_TICKS = 25

cdef extern from *:
    """
    #define GOB_DECADES_NS ((int64_t)1 << 61)  /* 73 years: no clock of a system gets from one reading to the next in that */
    """
    const int64_t DECADES_NS "GOB_DECADES_NS"


cdef inline int64_t latest_possible(Shard *self, int64_t margin_ns) noexcept nogil:
    """What the time is at most, if the coarse clock does not lag by more than the margin. Only under the lock."""
    cdef int64_t reading_ns, latest_ns
    if self.store.manual_ns == NULL:
        reading_ns = gob_coarse_ns()
        latest_ns = self.latest_ns
    else:
        reading_ns = gob_load(self.store.manual_ns)
        latest_ns = gob_load(&self.store.latest_manual_ns)
    reading_ns -= self.store.coarse_lag_ns
    if reading_ns < latest_ns:
        reading_ns = latest_ns
    # No deadline but "none" is beyond 2**63-2.
    return reading_ns + margin_ns if reading_ns < GOB_NO_DEADLINE - margin_ns else GOB_NO_DEADLINE - 1


cdef inline int64_t lag_ns(const Step *step) noexcept nogil:
    return step.now_ns - gob_coarse_ns() + step.shard.store.coarse_lag_ns


cdef inline void be_exact(Step *step, int64_t margin_ns) noexcept nogil:
    """Read the exact clock, and the coarse one after it, so that no turn of another's in between makes it look late. One
    that lags by half the margin is not to be trusted: the process goes without."""
    step.now_ns = read_clock(step.shard)
    step.exact = True
    if step.shard.store.manual_ns == NULL and lag_ns(step) > margin_ns >> 1:
        gob_store(step.shard.store.margin_ns, 0)


# ---- one key ---------------------------------------------------------------------------------------------------------

cdef inline void load(Step *step) noexcept nogil:
    """The state under the record that was found. An expired one counts as absent."""
    if step.record != NULL and not gob_expired(step.record, step.now_ns):
        step.state.value = step.record.value
        step.state.deadline_ns = step.record.deadline
        step.state.kind = step.record.kind
        step.state.exists = True
    else:
        step.state = rules.absent()


cdef inline void begin(Store *store, const Key *key, Step *step) noexcept nogil:
    """Take the lock, read the clock, find the record."""
    cdef gob_probe probe
    step.shard = shard_of(store, key)
    lock(step.shard)
    probe = gob_probe_begin(&step.shard.table, key.hash)
    step.now_ns = read_clock(step.shard)  # while the record's cache lines come
    step.exact = True
    step.record = gob_probe_end(probe, key.hash, key.data, key.length)
    load(step)


cdef inline void begin_coarse(Store *store, const Key *key, Step *step) noexcept nogil:
    """As begin(), but by the coarse clock if the entry is alive by it: then ask the rule, and then asks_again()."""
    cdef int64_t margin_ns = gob_load(store.margin_ns)
    if margin_ns == 0:
        begin(store, key, step)
        return
    step.shard = shard_of(store, key)
    lock(step.shard)
    step.record = gob_table_find(&step.shard.table, key.hash, key.data, key.length)
    step.exact = False
    if GOB_UNLIKELY(step.record == NULL):
        be_exact(step, margin_ns)
    elif step.record.deadline == GOB_NO_DEADLINE and store.manual_ns == NULL:
        step.now_ns = step.shard.latest_ns + DECADES_NS
    else:
        step.now_ns = latest_possible(step.shard, margin_ns)
        if GOB_UNLIKELY(gob_expired(step.record, step.now_ns)):
            be_exact(step, margin_ns)
    load(step)


cdef inline bint asks_again(Step *step, Status status) noexcept nogil:
    """Whether the rule must be asked again: by the coarse clock it would have refused, raised, or armed. The exact one has
    been read for it. A rule that replaces a running TTL is not for this: the new deadline could by chance be the old."""
    if step.exact or (step.state.deadline_ns == step.record.deadline
                      and (status == OK or (step.record.deadline == GOB_NO_DEADLINE and status != BAD_TIME))):
        return False
    be_exact(step, gob_load(step.shard.store.margin_ns))
    load(step)
    return True


# ---- making room -----------------------------------------------------------------------------------------------------

cdef enum:
    VICTIM_LOOKS = 16  # records looked at for each entry too many
    FEW_VICTIMS = 8    # that many at once need no allocation
    FRESH = -1         # the deadline of a record that the running step has made: real ones are not negative


cdef inline gob_record *choose_victim(Shard *self, int64_t now_ns) noexcept nogil:
    """Of the next records that the hand comes to: an expired one, or the one to be evicted; NULL if there is none."""
    cdef gob_record *record
    cdef gob_record *best = NULL
    cdef uint64_t looks = 0, passed = 0
    while looks < VICTIM_LOOKS:
        record = gob_hand_at(&self.table, &self.victims)
        if record == NULL:
            looks += 1
            continue
        self.victims.number += 1
        if record.deadline == FRESH or record.flags & (PINNED | CHOSEN):
            # The step's own are no part of the sample: many of them lie side by side, at their segment's end.
            passed += 1
            if passed > self.table.count:
                break
            continue
        looks += 1
        if gob_expired(record, now_ns):
            return record
        # Never an entry without a TTL: stock and balances are not to be forgotten.
        if self.store.evicts and record.deadline != GOB_NO_DEADLINE and (best == NULL or goes_before(record, best)):
            best = record
    return best


cdef inline uint64_t too_many(const Shard *self) noexcept nogil:
    return self.table.count - self.max_keys if self.table.count > self.max_keys else 0


cdef inline uint64_t choose_victims(Shard *self, int64_t now_ns, gob_victim *victims, uint64_t needed) noexcept nogil:
    """How many were found, up to as many as are needed."""
    cdef uint64_t found
    for found in range(needed):
        victims[found].record = choose_victim(self, now_ns)
        if victims[found].record == NULL:
            return found
        victims[found].hash = victims[found].record.hash
        victims[found].record.flags |= CHOSEN
    return needed


cdef inline void remove_victims(Shard *self, int64_t now_ns, gob_victim *victims, uint64_t count) noexcept nogil:
    cdef uint64_t i
    for i in range(count):
        if gob_expired(victims[i].record, now_ns):
            self.reclaimed += 1
        else:
            self.evicted += 1
    gob_table_erase_several(&self.table, victims, count)


cdef inline Status make_room(Store *store, uint64_t shards, int64_t now_ns) noexcept nogil:
    """Bring these shards (as bits) back to the most entries that they may hold: all of them, or nothing is removed. The
    step's own entries are pinned or fresh."""
    cdef gob_victim few[FEW_VICTIMS]
    cdef gob_victim *victims = few
    cdef uint64_t needed = 0, found = 0, more, chosen
    cdef uint32_t i
    cdef bint enough = True
    for i in range(store.shard_mask + 1):
        if shards >> i & 1:
            needed += too_many(&store.shards[i])
    if needed > FEW_VICTIMS:
        victims = NULL if needed > <uint64_t>1 << 40 else <gob_victim *>GOB_MALLOC(needed * sizeof(gob_victim))
        if victims == NULL:
            return NO_MEMORY
    for i in range(store.shard_mask + 1):
        more = too_many(&store.shards[i]) if enough and shards >> i & 1 else 0
        if more > 0:
            chosen = choose_victims(&store.shards[i], now_ns, victims + found, more)
            found += chosen
            enough = chosen == more
    if enough:
        found = 0
        for i in range(store.shard_mask + 1):
            more = too_many(&store.shards[i]) if shards >> i & 1 else 0
            if more > 0:
                remove_victims(&store.shards[i], now_ns, victims + found, more)
                found += more
    else:
        for more in range(found):
            victims[more].record.flags &= ~CHOSEN
    if victims != few:
        GOB_FREE(victims)
    return OK if enough else NO_ROOM


# ---- keeping ---------------------------------------------------------------------------------------------------------

cdef inline Status create(const Key *key, Step *step) noexcept nogil:
    """A record for a new entry. Whoever makes one pays for a share of the sweep, so dead entries stay few."""
    cdef Shard *shard = step.shard
    cdef gob_record *record
    cdef Status status
    shard.reclaimed += gob_table_tend(&shard.table, step.now_ns)
    record = gob_table_insert(&shard.table, key.hash, key.data, key.length)
    if record == NULL:
        return NO_MEMORY
    record.value = step.state.value
    record.deadline = step.state.deadline_ns
    record.kind = step.state.kind
    if GOB_UNLIKELY(shard.table.count > shard.max_keys):
        record.flags = PINNED
        status = make_room(shard.store, <uint64_t>1 << GOB_SHARD_OF(key.hash, shard.store.shard_mask), step.now_ns)
        if status != OK:
            gob_table_erase(&shard.table, record)
            return status
        record = gob_table_find(&shard.table, key.hash, key.data, key.length)  # making room moves records
        record.flags = 0
    return OK


cdef inline Status keep(const Key *key, Step *step) noexcept nogil:
    """Write the state back: update, create or remove."""
    cdef gob_record *record = step.record
    if GOB_UNLIKELY(not step.state.exists or step.state.deadline_ns <= step.now_ns):
        if record != NULL:
            step.shard.reclaimed += gob_expired(record, step.now_ns)
            gob_table_erase(&step.shard.table, record)
        return OK
    if GOB_UNLIKELY(record == NULL):
        return create(key, step)
    step.shard.reclaimed += gob_expired(record, step.now_ns)  # used again for a new entry
    record.value = step.state.value
    record.deadline = step.state.deadline_ns
    record.kind = step.state.kind
    record.flags = 0
    return OK


cdef inline void tick(Shard *self) noexcept nogil:
    """Every 64th step sweeps a little, so a store that is only hit gives memory back too."""
    self.ticks += 1
    if GOB_UNLIKELY(self.ticks % 64 == 0):
        self.reclaimed += gob_table_tend(&self.table, read_clock(self))


cdef inline void leave(Step *step) noexcept nogil:
    """Let go of the lock."""
    tick(step.shard)
    unlock(step.shard)


cdef inline Status finish(const Key *key, Step *step, Status status) noexcept nogil:
    """Keep what an admitting rule made of the state, then leave."""
    if status == OK:
        status = keep(key, step)
    leave(step)
    return status


cdef inline Status finish_verdict(const Key *key, Step *step, Status status, bint refused) noexcept nogil:
    """As finish(), and mark the entry if it refused."""
    if refused and step.state.exists:
        step.record.flags = REFUSING
    return finish(key, step, status)


# ---- several keys ----------------------------------------------------------------------------------------------------

# A key and the state to keep under it.
cdef struct Slot:
    Key key
    State state


# A step on several keys: the shards that it locks, as bits, and the entries that it has made.
cdef struct Span:
    uint64_t shards
    uint32_t shard_count
    uint64_t made
    int64_t now_ns


cdef inline Span empty_span() noexcept nogil:
    cdef Span span
    span.shards, span.shard_count, span.made, span.now_ns = 0, 0, 0, 0
    return span


cdef inline void add_to_span(Store *store, const Key *key, Span *span) noexcept nogil:
    span.shards |= <uint64_t>1 << GOB_SHARD_OF(key.hash, store.shard_mask)


cdef inline void begin_span(Store *store, Span *span) noexcept nogil:
    """Lock the span's shards, in order, and read the clock: one time for all of them."""
    cdef uint32_t i
    cdef int64_t reading_ns
    for i in range(store.shard_mask + 1):
        if span.shards >> i & 1:
            lock(&store.shards[i])
            span.shard_count += 1
            reading_ns = read_clock(&store.shards[i])
            if reading_ns > span.now_ns:
                span.now_ns = reading_ns
    for i in range(store.shard_mask + 1):
        if span.shards >> i & 1:
            store.shards[i].latest_ns = span.now_ns


@cython.cdivision(True)  # something was made, so there is a shard
cdef inline void leave_span(Store *store, Span *span) noexcept nogil:
    """Each creation pays its share of the sweep, now that no record is held any more; then let go of the locks."""
    cdef uint32_t i
    cdef uint64_t _turn, share = 0
    if span.made > 0:
        share = (span.made + span.shard_count - 1) // span.shard_count
    for i in range(store.shard_mask + 1):
        if span.shards >> i & 1:
            for _turn in range(share):
                store.shards[i].reclaimed += gob_table_tend(&store.shards[i].table, span.now_ns)
            tick(&store.shards[i])
            unlock(&store.shards[i])


cdef inline void look_up(Store *store, const Key *key, const Span *span, Step *step) noexcept nogil:
    """As begin(), inside a span that has begun."""
    step.shard = shard_of(store, key)
    step.now_ns = span.now_ns
    step.record = gob_table_find(&step.shard.table, key.hash, key.data, key.length)
    load(step)


cdef inline gob_record *find_slot(Store *store, const Slot *slot) noexcept nogil:
    return gob_table_find(&shard_of(store, &slot.key).table, slot.key.hash, slot.key.data, slot.key.length)


cdef inline void mark_refusing(Store *store, const Slot *slot) noexcept nogil:
    cdef gob_record *record = find_slot(store, slot)
    if record != NULL:
        record.flags = REFUSING


cdef inline void undo_several(Store *store, const Slot *slots, Py_ssize_t count) noexcept nogil:
    cdef gob_record *record
    cdef Py_ssize_t i
    for i in range(count):
        record = find_slot(store, &slots[i])
        if record != NULL and record.deadline == FRESH:
            gob_table_erase(&shard_of(store, &slots[i].key).table, record)
        elif record != NULL:
            record.flags &= ~PINNED


cdef inline Status keep_several(Store *store, const Slot *slots, Py_ssize_t count, Span *span) noexcept nogil:
    """Keep all states or none: first every key gets a record, then there is room for them, then they get their states."""
    cdef gob_record *record
    cdef Shard *shard
    cdef Py_ssize_t i
    cdef bint full = False
    cdef Status status = OK
    for i in range(count):
        record = find_slot(store, &slots[i])
        if record == NULL:
            shard = shard_of(store, &slots[i].key)
            record = gob_table_insert(&shard.table, slots[i].key.hash, slots[i].key.data, slots[i].key.length)
            if record == NULL:
                undo_several(store, slots, i)
                span.made = 0
                return NO_MEMORY
            record.deadline = FRESH
            span.made += 1
            full = full or too_many(shard) > 0
        record.flags |= PINNED
    if GOB_UNLIKELY(full):
        status = make_room(store, span.shards, span.now_ns)
    if status != OK:
        undo_several(store, slots, count)
        span.made = 0
        return status
    for i in range(count):
        record = find_slot(store, &slots[i])
        if record.deadline != FRESH and gob_expired(record, span.now_ns):
            shard_of(store, &slots[i].key).reclaimed += 1
        record.value = slots[i].state.value
        record.deadline = slots[i].state.deadline_ns
        record.kind = slots[i].state.kind
        record.flags = 0
    return OK
