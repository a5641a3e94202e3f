"""Reservations that waiters of this process have given up, and that could not be put back at once.

A waiter behind has been told his time, so a slot that is given up in the middle stays empty. It is noted here, and goes
back with the slot behind it once that is given up as well. Other processes do not know of it: there it stays empty.
"""

from __future__ import annotations

import os
import threading

# (deadline_ns, excess, told_ns) of an entry: the first two say which state it is.
State = tuple[int, int, int]
Slot = tuple[State, State | None, int]  # the state after it, the one before it, and the time that was told


class GivenUp:
    """Notes by key, of this process alone: a forked child begins with none."""

    def __init__(self) -> None:
        self._lock, self._process = threading.Lock(), os.getpid()
        self._notes: dict[bytes, dict[tuple[int, int], Slot]] = {}

    def _guard(self) -> threading.Lock:
        """The lock guards the dicts, is held for no call of anybody else's, and promises no order.

        In a forked child it may be held by a thread that does not exist there, and the waiters are its parent's: both
        are made anew.
        """
        if self._process != os.getpid():
            self._lock, self._notes, self._process = threading.Lock(), {}, os.getpid()
        return self._lock

    def note(self, key: bytes, slot: Slot) -> list[Slot]:
        """Note one more; returns all of that key. Of two threads that do so at once, at least one sees both."""
        with self._guard():
            notes = self._notes.setdefault(key, {})
            notes[slot[0][:2]] = slot
            return list(notes.values())

    def settle(self, key: bytes, put_back: list[Slot], now_ns: int) -> None:
        """Drop what has been put back, and what can no longer be: once its time has come, a slot is not given up."""
        with self._guard():
            for slot in put_back:
                self._notes.get(key, {}).pop(slot[0][:2], None)
            # Two others in turn, so that notes which nobody asks for go as well.
            for other in (key, *list(self._notes)[:2]):
                notes = self._notes.pop(other, {})
                notes = {after: slot for after, slot in notes.items() if slot[2] > now_ns}
                if notes:
                    self._notes[other] = notes  # now the last in turn

    def forget(self, keys: list[bytes]) -> None:
        """The entries are removed or replaced: a note must not meet a new one that happens to have the same states."""
        if self._notes:
            with self._guard():
                for key in keys:
                    self._notes.pop(key, None)

    def clear(self) -> None:
        with self._guard():
            self._notes.clear()

    def __len__(self) -> int:
        return sum(map(len, list(self._notes.values())))
