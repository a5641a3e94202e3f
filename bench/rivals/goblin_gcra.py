"""goblin: `Counters.gcra`."""

import goblin

name = "goblin gcra"
distribution = "goblin-counters"
hit = "ok = counters.gcra(key, limit, seconds) >= 0"


def setup(limit, seconds):
    return {"counters": goblin.Counters(), "seconds": seconds, "limit": limit}
