"""`goblin.testing` as other people's tests use it: in a pytest run of its own."""

import subprocess
import sys

import pytest

import goblin

pytest_plugins = ["pytester"]

SERVICE = """
    import goblin

    @goblin.rate_limit("2/minute", key="{user}")
    def send(user):
        return "sent"

    @goblin.rate_limit("1/hour", on_limit="wait")
    async def slowly():
        return "done"
"""


@pytest.fixture
def project(pytester, monkeypatch):
    """A project with a decorated function and the plugin; its tests are run by `project(text)`."""
    pytester.makepyfile(service=SERVICE)
    pytester.makeconftest('pytest_plugins = ["goblin.testing"]')
    pytester.syspathinsert()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds, and are none of ours

    def run(text):
        pytester.makepyfile(text)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error")

    before = goblin.set_default_store(None)
    yield run
    goblin.set_default_store(before)


def test_plugin_store_is_the_default_and_its_clock_is_moved_by_the_test(project):
    run = project("""
        import asyncio
        import goblin
        import pytest
        from service import send, slowly

        def test_refused_until_the_minute_is_over(goblin_store, goblin_clock):
            assert goblin.default_store() is goblin_store
            send("ann"), send("ann")
            with pytest.raises(goblin.RateLimitExceeded):
                send("ann")
            goblin_clock.advance(60)
            assert send("ann") == "sent"

        def test_waiting_moves_the_clock(goblin_store, goblin_clock):
            assert [asyncio.run(slowly()) for _ in range(2)] == ["done", "done"]
            assert goblin_clock.now_ns == 3600 * 10**9
    """)
    run.assert_outcomes(passed=2)


def test_plugin_every_test_starts_with_an_empty_store(project):
    run = project("""
        import pytest
        from service import send

        @pytest.fixture(autouse=True)
        def fresh(goblin_store):
            yield
            assert len(goblin_store) == 1

        @pytest.mark.parametrize("n", range(3))
        def test_two_pass(n, goblin_clock):
            assert goblin_clock.now_ns == 0
            send("ann"), send("ann")
    """)
    run.assert_outcomes(passed=3)


def test_plugin_restores_the_store_that_was_there_before(project):
    mine = goblin.Counters()
    goblin.set_default_store(mine)
    run = project("""
        import goblin

        before = goblin.default_store()

        def test_fails(goblin_store):
            assert goblin.default_store() is goblin_store is not before
            assert False, "on purpose"

        def test_afterwards():
            assert goblin.default_store() is before

        def test_error_in_a_later_fixture(goblin_store, no_such_fixture):
            pass

        def test_after_that():
            assert goblin.default_store() is before
    """)
    run.assert_outcomes(passed=2, failed=1, errors=1)
    assert goblin.default_store() is mine


def test_plugin_where_no_store_was_there_before_leaves_none(project):
    project("def test_it(goblin_store): pass").assert_outcomes(passed=1)
    assert goblin.set_default_store(None) is None


def test_plugin_clock_alone_leaves_the_default_store(project):
    run = project("""
        import goblin

        def test_it(goblin_clock):
            assert isinstance(goblin_clock, goblin.ManualClock)
    """)
    run.assert_outcomes(passed=1)
    assert goblin.set_default_store(None) is None


def test_plugin_is_imported_by_nothing_in_goblin():
    program = "import sys, goblin, goblin.decorators; assert not {'goblin.testing', 'pytest'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
