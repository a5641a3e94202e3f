"""What docs/limits.md says and its examples cannot show by themselves: its tests, and the size of an entry."""

import re
import subprocess
import sys

import goblin
from doc_examples import ROOT

PAGE = ROOT / "docs" / "limits.md"


def test_page_tests_pass_as_they_stand(tmp_path):
    section = PAGE.read_text(encoding="utf-8").partition("\n## Tests\n")[2].partition("\n## ")[0]
    conftest, tests, *_ = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    (tmp_path / "test_mail.py").write_text(tests, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", tmp_path],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout


def test_entry_of_a_decorator_with_short_keys_has_about_120_bytes():
    counters = goblin.Counters()

    @goblin.rate_limit("5/minute", key="{user}", store=counters, name="service.mail.send_mail:8")
    def send_mail(user):
        pass

    for number in range(20_000):
        send_mail(f"user{number:07}")
    assert 100 <= counters.stats().memory_bytes / 20_000 <= 140


def test_page_says_per_process_on_its_first_screen():
    first = PAGE.read_text(encoding="utf-8").splitlines()[:45]
    text = "\n".join(first)
    for needed in ("in the memory of one process", "four workers", "up to 80", "Divide", "Sticky", "RedisCounters"):
        assert needed in text, needed
