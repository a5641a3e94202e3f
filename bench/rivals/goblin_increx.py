"""goblin: the counter itself, compared with the limit by the caller."""

import goblin

name = "goblin increx"
distribution = "goblin-counters"
hit = "ok = counters.increx(key, seconds) <= limit"


def setup(limit, seconds):
    return {"counters": goblin.Counters(), "seconds": seconds, "limit": limit}
