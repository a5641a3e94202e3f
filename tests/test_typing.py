"""The comparisons of typing_check.py, without the type checkers: it runs these itself, and takes too long for here.

A check that lets everything pass would be of no use, so each comparison is shown what it must complain of.
"""

import types
from pathlib import Path

import pytest

from typing_check import BAD, OK, Found, disagreements, expectations, is_artefact, names_not_used, public_names

EXPECTED = {("a.py", 3): {"arg-type", "reportArgumentType"}}


def test_expectations_are_read_from_comments():
    text = "x = 1\n\nf(2)  # expect: arg-type, reportArgumentType\ng(3)  # expected\n"
    assert expectations(Path("a.py"), text) == EXPECTED


def test_disagreements_of_what_was_expected_are_none():
    assert list(disagreements(EXPECTED, [Found("a.py", 3, "arg-type", "no")])) == []
    assert (
        list(disagreements(EXPECTED, [Found("a.py", 3, "misc", "and"), Found("a.py", 3, "reportArgumentType", "no")]))
        == []
    )
    assert list(disagreements({}, [])) == []


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([], "a.py:3: passes, and must be refused"),
        ([Found("a.py", 3, "misc", "no")], "a.py:3: no  [misc] is not what was expected: arg-type, reportArgumentType"),
        ([Found("a.py", 3, "arg-type", "no"), Found("a.py", 4, "misc", "why")], "a.py:4: why  [misc]"),
        ([Found("b.py", 3, "arg-type", "no")], "a.py:3: passes"),
    ],
)
def test_disagreements_are_told(found, complaint):
    assert complaint in "\n".join(disagreements(EXPECTED, found))


def test_examples_that_must_be_refused_say_so_and_hold_enough():
    lines = [line for path in BAD for line in expectations(path, path.read_text(encoding="utf-8"))]
    assert len(lines) >= 80
    assert not any(expectations(path, path.read_text(encoding="utf-8")) for path in OK)


def test_names_that_no_example_uses_are_told():
    class Store:
        def incr(self): ...
        def forgotten(self): ...
        def _private(self): ...

    Store.__module__ = "lib.core"
    module = types.SimpleNamespace(__name__="lib", __all__=["Store", "LIMIT"], Store=Store, LIMIT=5)
    assert list(public_names(module)) == ["Store", "Store.incr", "Store.forgotten", "LIMIT"]
    assert names_not_used(public_names(module), ["lib.Store().incr()"]) == ["Store.forgotten", "LIMIT"]
    assert names_not_used(public_names(module), ["x.Store().incr", "f(forgotten=LIMIT)"]) == []


def test_artefacts_of_stubtest_are_told_from_faults():
    name = "<callable subtype of object>"
    head = "Stub: in file decorators.py:-1\nRuntime:\nMISSING"
    lists = (
        "Names exported in the stub but not at runtime: {}\nRuntime:\nNames exported at runtime but not in the stub: {}"
    )
    assert is_artefact(f"error: goblin.decorators.{name}1 is not present at runtime\n{head}")
    assert is_artefact("error: goblin.decorators.__all__ names\n" + lists.format([name, f"{name}1"], []))
    assert not is_artefact(f"error: goblin.decorators.quota is not present at runtime\n{head}")
    assert not is_artefact("error: goblin.decorators.__all__ names\n" + lists.format([name, "quota"], []))
    assert not is_artefact("error: goblin.decorators.__all__ names\n" + lists.format([name], ["quota"]))
    assert not is_artefact(f"error: goblin.f is inconsistent\nStub:\ndef (x: {name})")
