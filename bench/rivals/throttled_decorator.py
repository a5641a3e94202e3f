"""throttled-py: a decorated function, whose key stands in the decorator."""

from datetime import timedelta

from throttled import MemoryStore, Throttled, exceptions, rate_limiter

name = "throttled-py decorator"
distribution = "throttled-py"
works = ("decorator",)
keyed = False
hit = "ok = function(key)"
refusal = exceptions.LimitedError


def setup(limit, seconds):
    quota = rate_limiter.per_duration(timedelta(seconds=seconds), limit)

    @Throttled(key="function", using="fixed_window", quota=quota, store=MemoryStore())
    def function(user):
        return True

    return {"function": function}
