"""The transcripts under docs/, run through the real ``python -m goblin --manual-clock``, compared verbatim.

``--echo`` prints commands, comments and empty lines as a transcript has them. So a transcript is right if feeding it
without its replies gives back the whole of it, but for the remarks beside replies.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

# Not the checkout: `python -m` would take the goblin of the current folder for the installed one.
FOLDER = Path(__file__).resolve().parent
TRANSCRIPTS = sorted((FOLDER.parent / "docs" / "transcripts").glob("*.txt"))
SHELL = [sys.executable, "-W", "error", "-bb", "-m", "goblin"]


def typed_lines(transcript):
    """What a user types of a transcript: commands, comments, empty lines."""
    return "".join(line for line in transcript.splitlines(keepends=True) if line.startswith((">", "#", "\n")))


def without_remarks(transcript):
    """The transcript without the remarks beside its replies."""
    return re.sub(r"^(?![>#])(.*?) +#.*$", r"\1", transcript, flags=re.MULTILINE)


def play(transcript):
    finished = subprocess.run(
        [*SHELL, "--manual-clock", "--echo"],
        input=typed_lines(transcript).encode(),
        capture_output=True,
        check=True,
        timeout=60,
        cwd=FOLDER,
    )
    assert finished.stderr == b""
    return finished.stdout.decode()


def test_transcripts_directory_has_the_three_pages_and_the_patterns():
    assert {"increx", "incrbound", "incr", "patterns"} <= {path.stem for path in TRANSCRIPTS}


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_played_gives_its_replies_verbatim(path):
    transcript = path.read_text(encoding="utf-8")
    assert play(transcript) == without_remarks(transcript)


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript_leaves_no_gaps(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert "..." not in lines
    assert any(line.startswith("> ") for line in lines)
    # Without the commands there would be nothing to prove: each must have a reply.
    for command, reply in zip(lines, [*lines[1:], ""]):
        if command.startswith("> "):
            assert reply and not reply.startswith((">", "#")), command


def test_without_remarks_keeps_commands_comments_and_plain_replies():
    transcript = '# a  # b\n> GET k   # why\n"1"\n(integer) 2      # two\n(error) ERR x\n'
    assert without_remarks(transcript) == '# a  # b\n> GET k   # why\n"1"\n(integer) 2\n(error) ERR x\n'


def test_typed_lines_leaves_the_replies_out():
    assert typed_lines('# note\n> GET k\n"1"\n\n#@advance 2\n(nil)\n') == "# note\n> GET k\n\n#@advance 2\n"
