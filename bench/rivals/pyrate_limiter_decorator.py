"""PyrateLimiter: a decorated function, whose key stands in the decorator; one that is refused waits."""

from pyrate_limiter import Limiter, Rate

name = "PyrateLimiter decorator"
distribution = "pyrate-limiter"
works = ("decorator",)
keyed = False
hit = "ok = function(key)"
probe = "ok = limiter.try_acquire('function', blocking=False)"


def setup(limit, seconds):
    limiter = Limiter(Rate(limit, 1_000 * seconds))

    @limiter.as_decorator(name="function")
    def function(user):
        return True

    return {"function": function, "limiter": limiter}


def close(names):
    names["limiter"].close()
