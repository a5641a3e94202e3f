"""A fixed window as one writes it oneself: a dict of (count, deadline) under a lock. Dead entries are never removed."""

import threading
import time

name = "dict with a lock"
hit = "ok = allow(key)"


def setup(limit, seconds):
    windows, lock, now = {}, threading.Lock(), time.monotonic

    def allow(key):
        instant = now()
        with lock:
            count, deadline = windows.get(key, (0, 0.0))
            if instant >= deadline:
                count, deadline = 0, instant + seconds
            windows[key] = count + 1, deadline
        return count < limit

    return {"allow": allow}
