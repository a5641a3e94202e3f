"""Tests of integrations are skipped aloud where their library is not installed, and fail where a gate asks for them."""

import pytest

from integrations_installed import missing, needs


def test_missing_names_what_is_not_installed():
    assert missing("json", "asyncio.events") == ""
    assert missing("json", "no_such_library") == "not installed: no_such_library (pip install '.[test]')"


@pytest.mark.parametrize("value", ["", "0"])
def test_needs_without_the_library_skips_with_the_reason(monkeypatch, value):
    monkeypatch.setenv("GOBLIN_REQUIRE_INTEGRATIONS", value)
    with pytest.raises(pytest.skip.Exception, match="not installed: no_such_library"):
        needs("json", "no_such_library")


def test_needs_where_it_is_required_fails(monkeypatch):
    monkeypatch.setenv("GOBLIN_REQUIRE_INTEGRATIONS", "1")
    with pytest.raises(pytest.fail.Exception, match="no_such_library .*GOBLIN_REQUIRE_INTEGRATIONS is set"):
        needs("no_such_library")
    needs("json")  # passes
