"""goblin: a decorated function with a budget for each key, filled in from its argument."""

import goblin

name = "goblin decorator, a budget a key"
distribution = "goblin-counters"
works = ("decorator",)
hit = "ok = function(key)"
refusal = goblin.RateLimitExceeded


def setup(limit, seconds):
    @goblin.rate_limit(goblin.Limit(limit, seconds), key="{user}", store=goblin.Counters())
    def function(user):
        return True

    return {"function": function}
