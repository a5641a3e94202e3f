"""goblin: `Counters.fixed_window`."""

import goblin

name = "goblin fixed_window"
distribution = "goblin-counters"
hit = "ok = counters.fixed_window(key, limit, seconds) >= 0"


def setup(limit, seconds):
    return {"counters": goblin.Counters(), "seconds": seconds, "limit": limit}
