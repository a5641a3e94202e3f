"""A fixed window on cachetools' TTL cache, under a lock: a list of one for each key, since setting rearms the TTL."""

import threading

import cachetools

name = "cachetools TTLCache with a lock"
distribution = "cachetools"
hit = "ok = allow(key)"


def setup(limit, seconds):
    windows, lock = cachetools.TTLCache(maxsize=10**9, ttl=seconds), threading.Lock()

    def allow(key):
        with lock:
            count = windows.get(key)
            if count is None:
                windows[key] = [1]
                return limit >= 1
            count[0] += 1
            return count[0] <= limit

    return {"allow": allow}
