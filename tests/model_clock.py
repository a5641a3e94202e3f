"""The manual clock in plain Python: a number of nanoseconds that moves only when told to."""

import datetime
from fractions import Fraction

from model_args import INT64_MAX, NS_PER_SECOND, integer


class ModelClock:
    """A clock that moves only when told to, within 0..2**63-1; leaving the range raises and moves nothing."""

    def __init__(self, now_ns=0):
        self._ns = 0
        self.advance_ns(now_ns)

    @property
    def now_ns(self) -> int:
        return self._ns

    def advance_ns(self, ns) -> None:
        target = self._ns + integer("ns", ns)
        if not 0 <= target <= INT64_MAX:
            raise OverflowError(f"the clock would leave its range: {target} (allowed: 0 to {INT64_MAX})")
        self._ns = target

    def advance(self, seconds) -> None:
        if isinstance(seconds, datetime.timedelta):
            return self.advance_ns(seconds // datetime.timedelta(microseconds=1) * 1000)
        if not isinstance(seconds, float):
            seconds = integer("seconds", seconds)
        return self.advance_ns(round(Fraction(seconds) * NS_PER_SECOND))
