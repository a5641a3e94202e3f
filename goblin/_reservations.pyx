"""Reservations: who sleeps on one, and what becomes of it when he gives up. Called by _decide and the core."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int64_t

from itertools import islice

# For the inline functions of _args.pxd: they are compiled into this module, and look the name up here.
from goblin import errors  # no-cython-lint
from goblin._args cimport Key, as_int64, as_key
from goblin._rules cimport GCRA, OK, REFUSED, Quota, State, Status
from goblin._step cimport (
    Step, Store, begin, finish, gob_lock_acquire, gob_lock_release, leave, lock, read_clock, unlock,
)


# ---- giving up a reservation -----------------------------------------------------------------------------------------
#
# A reservation moved an entry from one state to another. If it is still in that other state, nobody has reserved since,
# and it is put back; then so are slots directly before it that were given up earlier. Otherwise somebody behind it has
# been told his time, and nobody may be put beside him: the slot stays empty, and is noted in case he gives up as well.
# A note says: state after the given-up slot -> state before it. All this ends when the time that the waiter was told has
# come; and until then nothing is refunded on that key (see skip_told), so in between its states only rise. Noting comes
# before looking, so of two threads that give up neighbouring slots at once, at least one sees both.

cdef object state_tuple(const State *state):
    return (state.deadline_ns, state.value) if state.exists else None


cdef bytes key_bytes(object key):
    cdef Key k
    as_key(key, &k)
    return PyBytes_FromStringAndSize(k.data, <Py_ssize_t>k.length)


# Who sleeps on a reservation, by key: state after his slot -> the time that he was told.

cdef int note_told(Store *store, dict told, list keys, list states, int64_t at_ns, int64_t now_ns) except -1:
    """`states`: after the reservation, one a key."""
    gob_lock_acquire(&store.notes)
    try:
        for key, state in zip(keys, states):
            data = key_bytes(key)
            drop_passed_told(told, data, now_ns)
            told.setdefault(data, {})[state] = at_ns
        for data in first_two(told):  # others in turn, so that what nobody asks for goes as well
            drop_passed_told(told, data, now_ns)
    finally:
        gob_lock_release(&store.notes)
    return 0


cdef int drop_passed_told(dict told, bytes data, int64_t now_ns) except -1:
    """From the front: on one key the times that are told only rise."""
    sleepers = told.pop(data, {})
    while sleepers:
        after = next(iter(sleepers))
        if sleepers[after] > now_ns:
            told[data] = sleepers  # now the last in turn
            break
        del sleepers[after]
    return 0


cdef int skip_told(Store *store, dict told, list keys, const Quota *quotas, int64_t *marks_ns) except -1:
    """Unmark what cannot be refunded now: under gcra, where somebody sleeps on a reservation. His hit counts from his
    own time, so a smaller TAT would let others through that he leaves no room for."""
    cdef int64_t now_ns
    cdef Py_ssize_t i
    if told:
        now_ns = now_of(store)
        gob_lock_acquire(&store.notes)
        try:
            for i in range(len(keys)):
                if quotas[i].kind == GCRA:
                    data = key_bytes(keys[i])
                    drop_passed_told(told, data, now_ns)
                    if data in told:
                        marks_ns[i] = -1
        finally:
            gob_lock_release(&store.notes)
    return 0


cdef int64_t now_of(Store *store) noexcept:
    cdef int64_t now_ns
    lock(&store.shards[0])
    now_ns = read_clock(&store.shards[0])
    unlock(&store.shards[0])
    return now_ns


cdef object exact_mark(object mark):
    cdef int64_t mark_ns
    as_int64(mark, "stamp", &mark_ns)
    return mark_ns


cdef object exact_state(object state):
    """(deadline, value) as exact ints, or None: what a note can be kept under."""
    cdef int64_t deadline_ns, value
    if state is None:
        return None
    if type(state) is not tuple or len(state) != 2:
        raise TypeError("a stamp's states are None or (deadline_ns, value)")
    as_int64(state[0], "stamp", &deadline_ns)
    as_int64(state[1], "stamp", &value)
    return deadline_ns, value


cdef tuple state_under(Store *store, const Key *key):
    """(state tuple or None, now)."""
    cdef Step step
    begin(store, key, &step)
    leave(&step)
    if step.state.exists and step.state.kind == GCRA:
        return (step.state.deadline_ns, step.state.value), step.now_ns
    return None, step.now_ns


cdef bint swap_state(Store *store, const Key *key, tuple expected, object replacement) except? -1:
    """Put `replacement` in the place of `expected`, if that is what is there."""
    cdef Step step
    cdef Status status = REFUSED
    cdef int64_t deadline_ns = expected[0], value = expected[1], new_deadline_ns = 0, new_value = 0
    if replacement is not None:
        new_deadline_ns, new_value = replacement
    begin(store, key, &step)
    if (step.state.exists and step.state.kind == GCRA
            and step.state.deadline_ns == deadline_ns and step.state.value == value):
        step.state.deadline_ns = new_deadline_ns  # in the past, also of no state: finish() removes the entry
        step.state.value = new_value
        status = OK
    return finish(key, &step, status) == OK


cdef int unreserve_stamps(Store *store, dict given_up, dict told, object stamps) except -1:
    cdef Key k
    cdef list rows = [
        (key_bytes(key), exact_mark(mark), exact_state(before), exact_state(after))
        for key, _quota, mark, before, after in stamps
    ]
    for data, told_ns, before, after in rows:
        if after is None:
            continue  # a hit, not a reservation: refund() is for those
        as_key(data, &k)
        wake(store, told, data, after)
        state, now_ns = state_under(store, &k)
        if told_ns <= now_ns:
            continue  # his time has come: to the limit he has run, and his place may be another's by now
        notes = note(store, given_up, data, after, (before, told_ns))
        while state is not None:
            slot = take_note(store, notes, state)
            if slot is None or slot[1] <= now_ns:
                break
            if not swap_state(store, &k, state, slot[0]):
                notes = note(store, given_up, data, state, slot)
            state, now_ns = state_under(store, &k)
        drop_passed_notes(store, given_up, data, INT64_MAX if state is None else now_ns, now_ns)
    return 0


# Whatever touches the notes, given_up and told, does so under store.notes, on GIL builds under the GIL; nothing in there
# waits or runs anybody's code, so each of these is one step. Not the dicts' own critical sections: under contention such
# a lock is handed to a sleeping thread, and after a fork the child has no such thread. The store's lock the hooks of
# fork take, see _core.pyx.

cdef int wake(Store *store, dict told, bytes data, tuple after) except -1:
    gob_lock_acquire(&store.notes)
    try:
        told.get(data, {}).pop(after, None)
    finally:
        gob_lock_release(&store.notes)
    return 0


cdef dict note(Store *store, dict given_up, bytes data, tuple after, tuple slot):
    """The notes about that key, with one more: state after the slot -> (state before it, the time that was told)."""
    gob_lock_acquire(&store.notes)
    try:
        notes = given_up.setdefault(data, {})
        notes[after] = slot
    finally:
        gob_lock_release(&store.notes)
    return notes


cdef tuple take_note(Store *store, dict notes, tuple after):
    gob_lock_acquire(&store.notes)
    try:
        slot = notes.pop(after, None)
    finally:
        gob_lock_release(&store.notes)
    return slot


cdef int drop_passed_notes(Store *store, dict given_up, bytes data, int64_t before_ns, int64_t now_ns) except -1:
    """Once its time has come, a slot cannot be given up any more; of this key all that were told a time until
    `before_ns` go, of two others in turn those until now, so that notes nobody asks for go as well."""
    gob_lock_acquire(&store.notes)
    try:
        drop_passed(given_up, data, before_ns)
        for other in first_two(given_up):
            drop_passed(given_up, other, now_ns)
    finally:
        gob_lock_release(&store.notes)
    return 0


cdef int drop_passed(dict given_up, bytes data, int64_t now_ns) except -1:
    notes = given_up.pop(data, {})
    for after in [after for after, slot in notes.items() if slot[1] <= now_ns]:
        del notes[after]
    if notes:
        given_up[data] = notes  # now the last in turn
    return 0


cdef list first_two(dict notes):
    return list(islice(notes, 2))


cdef int forget_given_up(Store *store, dict given_up, object key) except -1:
    """The entry is removed or replaced: its notes must not meet a new one that happens to have the same states."""
    data = key_bytes(key)
    gob_lock_acquire(&store.notes)
    try:
        given_up.pop(data, None)
    finally:
        gob_lock_release(&store.notes)
    return 0


cdef int forget_everything(Store *store, dict given_up, dict told) except -1:
    gob_lock_acquire(&store.notes)
    try:
        given_up.clear()
        told.clear()
    finally:
        gob_lock_release(&store.notes)
    return 0
