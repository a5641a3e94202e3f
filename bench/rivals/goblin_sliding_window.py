"""goblin: `Counters.sliding_window`."""

import goblin

name = "goblin sliding_window"
distribution = "goblin-counters"
hit = "ok = counters.sliding_window(key, limit, seconds) >= 0"


def setup(limit, seconds):
    return {"counters": goblin.Counters(), "seconds": seconds, "limit": limit}
