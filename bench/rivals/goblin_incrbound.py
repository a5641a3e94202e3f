"""goblin: a bounded counter, armed when it is made."""

import goblin

name = "goblin incrbound"
distribution = "goblin-counters"
hit = "ok = counters.incrbound(key, 1, limit, seconds=seconds) != -1"


def setup(limit, seconds):
    return {"counters": goblin.Counters(), "seconds": seconds, "limit": limit}
