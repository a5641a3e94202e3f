import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_core():
    """A loop that moves between cores loses its caches; not every system lets us say so."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    yield
    os.sched_setaffinity(0, before)
