"""The documentation is true: its examples run. What is an example, and how they are written: doc_examples.py."""

import re
import unittest

import pytest

import goblin
from doc_examples import PAGES, ROOT, docstring_examples, examples_of, fences_of, run_docstring
from integrations_installed import needs
from redis_server import skip_or_fail_if_missing

SKIP = re.compile(r"<!--+\s*;?\s*skip\b.*")
SKIP_WITH_REASON = re.compile(r'<!-- skip: next "[^"]{10,}" -->$')
# Fences that a reader takes for examples, and that would not run.
NOT_OURS = {"py", "pycon", "python3", "Python", "doctest", "shell-session", "redis", "{code-block}", "{doctest}"}

# Pages whose examples use other libraries.
USING_OTHERS = {
    "docs/flask-limiter-slowapi.md": ("limits", "flask", "flask_limiter", "slowapi", "starlette", "httpx2"),
}


def page_id(page):
    return page.relative_to(ROOT).as_posix()


# slowapi's own, on Python 3.14.
@pytest.mark.filterwarnings("ignore:'asyncio.iscoroutinefunction' is deprecated:DeprecationWarning:slowapi")
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_page_examples_run(page, monkeypatch, tmp_path, request):
    needs(*USING_OTHERS.get(page_id(page), ()))
    monkeypatch.chdir(tmp_path)  # an example that writes a file does not write it into the checkout
    if "REDIS_URL" in page.read_text(encoding="utf-8"):
        skip_or_fail_if_missing()
        server = request.getfixturevalue("redis_server")
        server.connect()("FLUSHALL")
        monkeypatch.setenv("REDIS_URL", f"unix://{server.socket}")
    before = goblin.set_default_store(None)  # what one page's limits have used is nothing to the next
    try:
        for example in examples_of(page):
            try:
                example.evaluate()
            except unittest.SkipTest:
                pass  # its reason is asserted below
    finally:
        goblin.set_default_store(before)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_page_skips_give_a_reason(page):
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if SKIP.search(line):
            assert SKIP_WITH_REASON.match(line), f'{page}:{number}: write <!-- skip: next "the reason" -->'


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_page_fences_are_named_so_that_they_run(page):
    for number, language in fences_of(page):
        assert language not in NOT_OURS, f"{page}:{number}: the fence of an example is `python` or `console`"


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_page_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text):
        assert (page.parent / target).exists(), f"{page}: no such file: {target}"


@pytest.mark.parametrize("test", list(docstring_examples()), ids=lambda test: test.name)
def test_docstring_examples_run(test):
    report = run_docstring(test)
    if report:
        pytest.fail(report, pytrace=False)


def test_reference_lists_every_public_name():
    text = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    directives = re.findall(r"^\.\. (?:auto\w+|data):: ([\w.]+)(?:\n   :members: (.*))?", text, re.MULTILINE)
    listed = {name for name, _ in directives}
    listed |= {f"{name}.{member}" for name, members in directives for member in members.split(", ")}
    expected = set(goblin.__all__)
    expected |= {f"Counters.{name}" for name in vars(goblin.Counters) if not name.startswith("_")}
    assert expected - listed == set(), "add these to a page of docs/reference/"


def test_site_has_every_page():
    """Sphinx would say so too; but not every change is followed by `make docs`."""
    entries = {
        (page.parent / entry).resolve().with_suffix(".md")
        for page in PAGES
        for toctree in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
        for entry in re.findall(r"^[\w./-]+$", toctree, re.M)
    }
    pages = {page for page in PAGES if page.is_relative_to(ROOT / "docs")}
    assert pages - entries == {ROOT / "docs" / "index.md"}, "name these in a toctree, such as that of docs/index.md"
    assert not entries - pages


def test_readme_is_short_and_says_which_clock():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") < 150
    for needed in ("CLOCK_MONOTONIC", "suspend", "goblin-counters", "make demo", "make test"):
        assert needed in text, needed
