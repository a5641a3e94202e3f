"""The signatures; the docstrings are in _clock.pyx."""

from datetime import timedelta
from typing import SupportsIndex

from typing_extensions import disjoint_base

@disjoint_base
class ManualClock:
    def __init__(self, now_ns: SupportsIndex = 0) -> None: ...
    @property
    def now_ns(self) -> int: ...
    def advance(self, seconds: float | SupportsIndex | timedelta) -> None: ...
    def advance_ns(self, ns: SupportsIndex) -> None: ...
