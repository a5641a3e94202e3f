"""goblin: atomic, expiring int64 counters inside the process.

    >>> import goblin
    >>> counters = goblin.Counters()
    >>> counters.increx("rate:user42", 60)  # count, and open a window of 60 seconds on the first hit
    1
    >>> counters.incrbound("quota:user42", 3, 10)  # count only while it stays within 10
    3
"""

from goblin._clock import ManualClock
from goblin._core import Counters, Stats

__all__ = ["Counters", "ManualClock", "Stats"]

__version__ = "0.1.0.dev0"
