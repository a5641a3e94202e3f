"""goblin: `RateLimiter.allow`, a fixed window."""

import goblin

name = "goblin RateLimiter.allow"
distribution = "goblin-counters"
hit = "ok = limiter.allow(key)"


def setup(limit, seconds):
    return {"limiter": goblin.RateLimiter(goblin.Limit(limit, seconds), store=goblin.Counters())}
