"""goblin: a decorated function with one budget."""

import goblin

name = "goblin decorator, one budget"
distribution = "goblin-counters"
works = ("decorator",)
keyed = False
hit = "ok = function(key)"
refusal = goblin.RateLimitExceeded


def setup(limit, seconds):
    @goblin.rate_limit(goblin.Limit(limit, seconds), store=goblin.Counters())
    def function(user):
        return True

    return {"function": function}
