"""Fixtures for the tests of whoever uses goblin: a default store whose clock stands still until the test moves it.

Put ``pytest_plugins = ["goblin.testing"]`` into the ``conftest.py`` at the root of your tests. This module alone
imports pytest, and nothing in goblin imports this module.
"""

from collections.abc import Iterator

import pytest

from goblin import Counters, ManualClock, set_default_store

__all__ = ["goblin_clock", "goblin_store"]


@pytest.fixture
def goblin_clock() -> ManualClock:
    """The clock of `goblin_store`, at 0 when the test begins: ``goblin_clock.advance(60)`` is a minute.

    Alone it changes nothing: ask for `goblin_store` as well.
    """
    return ManualClock()


@pytest.fixture
def goblin_store(goblin_clock: ManualClock) -> Iterator[Counters]:
    """An empty store on `goblin_clock`, the default store for the time of the test.

    Limiters and decorators without a ``store`` of their own use it, also those made before, at import: they look the
    default up at every call. Waiting calls do not sleep on it, they move the clock. Afterwards the store that was there
    before is the default again, as it was.

    Named in ``pytest.mark.usefixtures``, or used by an ``autouse`` fixture of yours, it lets every test start afresh::

        @pytest.fixture(autouse=True)
        def fresh_limits(goblin_store): ...

        def test_third_mail_within_a_minute_is_refused(goblin_clock):
            send_mail("ann"), send_mail("ann")  # @goblin.rate_limit("2/minute", key="{user}")
            with pytest.raises(goblin.RateLimitExceeded):
                send_mail("ann")
            goblin_clock.advance(60)
            send_mail("ann")
    """
    store = Counters(clock=goblin_clock)
    before = set_default_store(store)
    yield store
    set_default_store(before)
