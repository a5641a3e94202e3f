"""ratelimit: a decorated function, one count for all its calls: it has no keys. A refused call returns None."""

import ratelimit

name = "ratelimit"
distribution = "ratelimit"
works = ("hot", "refused", "decorator")
keyed = False
hit = "ok = function(key)"


def setup(limit, seconds):
    @ratelimit.limits(calls=limit, period=seconds, raise_on_limit=False)
    def function(user):
        return True

    return {"function": function}
