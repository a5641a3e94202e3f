"""Threads that race: started together, switched between as often as Python can, and what they raise is raised here."""

import sys
import threading

SHORTEST_SWITCH_INTERVAL = 1e-6  # seconds; it says nothing where there is no GIL
GUARD_SECONDS = 300  # nothing here takes that long: only against hanging


def race(*functions):
    """Call them all at once, each in a thread of its own; their results, in order."""
    results, errors, barrier = [None] * len(functions), [], threading.Barrier(len(functions))
    usual_interval = sys.getswitchinterval()
    sys.setswitchinterval(SHORTEST_SWITCH_INTERVAL)

    def guarded(number):
        try:
            barrier.wait(GUARD_SECONDS)
            results[number] = functions[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,), daemon=True) for number in range(len(functions))]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GUARD_SECONDS)
            assert not thread.is_alive(), f"a thread hangs; raised so far: {errors}"
    finally:
        sys.setswitchinterval(usual_interval)
    if errors:
        raise errors[0]
    return results


class Work:
    """`busy` until `count` workers are done: for threads that go on beside them."""

    def __init__(self, count):
        self.left, self.lock = count, threading.Lock()

    @property
    def busy(self):
        return self.left > 0

    def worker(self, function, *args):
        """A function for race() that calls this one and counts as one of the workers."""

        def run():
            try:
                return function(*args)
            finally:
                with self.lock:
                    self.left -= 1

        return run
