"""goblin: `RateLimiter.hit`, a fixed window; it makes a Decision."""

import goblin

name = "goblin RateLimiter.hit"
distribution = "goblin-counters"
hit = "ok = limiter.hit(key).allowed"


def setup(limit, seconds):
    return {"limiter": goblin.RateLimiter(goblin.Limit(limit, seconds), store=goblin.Counters())}
