"""``python -m goblin`` as a process, under ``-W error -bb``: options, pipe, terminal. Its language is test_shell.py's."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import goblin
import goblin.__main__

SHELL = [sys.executable, "-W", "error", "-bb", "-m", "goblin"]
# Not the checkout: `python -m` would take the goblin of the current folder for the installed one.
FOLDER = Path(__file__).parent
PIPES = {"cwd": FOLDER, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
ON_WINDOWS = sys.platform == "win32"


@pytest.fixture(autouse=True)
def heed_interrupts():
    """Who runs `make test &` or nohup has us ignore SIGINT, and what is ignored the shells would inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def run(*options, typed=b""):
    """``python -m goblin`` with its input piped; nothing on standard error is part of every test."""
    finished = subprocess.run([*SHELL, *options], input=typed, capture_output=True, timeout=60, cwd=FOLDER, check=False)
    assert finished.stderr == b""
    return finished.returncode, finished.stdout


def test_process_piped_prints_one_reply_per_command_and_exits_0():
    typed = b'INCR k\n\n# a comment\nNOPE\nINCR \xff\nGET "k\nSET k\nGET k'
    status, printed = run(typed=typed)
    assert status == 0
    assert printed.decode().split("\n") == [
        "(integer) 1",
        "(error) ERR unknown command 'NOPE'",
        "(integer) 1",
        "Invalid argument(s)",
        "(error) ERR wrong number of arguments for 'set' command",
        '"1"',
        "",
    ]


def test_process_quit_leaves_the_rest_unread():
    assert run(typed=b"INCR k\nQUIT\nINCR k\n") == (0, b"(integer) 1\n")


def test_process_without_input_prints_nothing():
    assert run() == (0, b"")


def test_process_echo_prints_commands_comments_and_empty_lines():
    typed = b"127.0.0.1:6379> SET k  1  # \xff\n\n  # note\n#@advance 5\nGET 'k\nquit\n"
    printed = b"> SET k  1  # \xff\nOK\n\n# note\n#@advance 5\n> GET 'k\nInvalid argument(s)\n> quit\n"
    assert run("--echo", typed=typed) == (0, printed)


def test_process_manual_clock_advances_by_lines():
    typed = b"INCREX k 60\n#@advance 59.5\nPTTL k\n#@advance 0.5\nPTTL k\n"
    assert run("--manual-clock", typed=typed) == (0, b"(integer) 1\n(integer) 500\n(integer) -2\n")


def test_process_version_prints_it():
    assert run("--version") == (0, f"goblin {goblin.__version__}{os.linesep}".encode())


def test_process_help_names_every_option():
    status, printed = run("-h")
    assert status == 0
    for option in (b"--manual-clock", b"--echo", b"--version", b"--help"):
        assert option in printed


def test_process_unknown_option_exits_2():
    finished = subprocess.run(
        [*SHELL, "--nope"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, cwd=FOLDER, check=False
    )
    assert finished.returncode == 2 and b"--nope" in finished.stderr


@pytest.mark.skipif(ON_WINDOWS, reason="Unix pipes and signals")
def test_process_reader_gone_ends_quietly():
    with subprocess.Popen(SHELL, **PIPES) as process:
        process.stdout.close()
        process.stdin.write(b"INCR k\n")
        process.stdin.flush()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 0
        process.stdin.close()


@pytest.mark.skipif(ON_WINDOWS, reason="Unix pipes and signals")
def test_process_interrupted_while_piped_exits_130_without_traceback():
    with subprocess.Popen(SHELL, **PIPES) as process:
        process.stdin.write(b"INCR k\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"(integer) 1\n"  # It replies at once, and now waits for the next line.
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 130


@pytest.mark.skipif(ON_WINDOWS, reason="closing standard streams is a Unix shell's affair")
@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_process_with_a_closed_stream_ends_quietly(closed):
    finished = subprocess.run(
        ["sh", "-c", f'echo INCR k | "$@" {closed}', "sh", *SHELL],
        capture_output=True,
        timeout=60,
        cwd=FOLDER,
        check=False,
    )
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, b"", b"")


def test_typed_lines_are_read_where_there_is_no_readline_too(monkeypatch, capsys):
    """Windows has none. In this process: in one of its own it could not be taken away."""
    class Keyboard:
        encoding = "utf-8"

        def reconfigure(self, errors):
            assert errors == "surrogateescape"

    typed = iter(["INCR k", "GET \udcff"])
    monkeypatch.setitem(sys.modules, "readline", None)  # to import it raises ImportError
    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.setattr("builtins.input", lambda prompt: next(typed, None) or raise_end_of_file())
    assert list(goblin.__main__._typed_lines()) == [b"INCR k", b"GET \xff"]
    assert capsys.readouterr().out.startswith("goblin: HELP lists the commands")


def raise_end_of_file():
    raise EOFError


class Terminal:
    """``python -m goblin`` on a pseudo-terminal."""

    def __init__(self):
        import pty

        self._master, slave = pty.openpty()
        # A dumb terminal: line editing without escape sequences.
        self.process = subprocess.Popen(
            SHELL, stdin=slave, stdout=slave, stderr=slave, cwd=FOLDER, env={**os.environ, "TERM": "dumb"}
        )
        os.close(slave)

    def type(self, keys):
        os.write(self._master, keys)

    def read_to(self, end):
        """What is printed, up to and including `end`."""
        printed = b""
        while end not in printed:
            assert select.select([self._master], [], [], 30)[0], printed
            printed = (printed + os.read(self._master, 1024)).replace(b"\r\n", b"\n")
        return printed

    def interrupt(self):
        """Send Ctrl-C's signal until something is printed."""
        # CPython notices one that comes between its looking for keys and its waiting for them only at the next key.
        for _ in range(30):
            self.process.send_signal(signal.SIGINT)
            if select.select([self._master], [], [], 1)[0]:
                break

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.fixture
def terminal():
    pytest.importorskip("pty")
    terminal = Terminal()
    yield terminal
    terminal.close()


def test_terminal_session_shows_prompt_and_replies(terminal):
    assert terminal.read_to(b"goblin> ") == b"goblin: HELP lists the commands, QUIT leaves.\ngoblin> "
    terminal.type(b"INCREX k 60\n")
    assert terminal.read_to(b"goblin> ") == b"INCREX k 60\n(integer) 1\ngoblin> "
    terminal.type(b"nope\n")
    assert terminal.read_to(b"goblin> ").endswith(b"(error) ERR unknown command 'nope'\ngoblin> ")
    terminal.type(b"quit\n")
    assert terminal.process.wait(timeout=60) == 0


def test_terminal_undecodable_bytes_reach_the_store(terminal):
    terminal.read_to(b"goblin> ")
    terminal.type(b"INCR k\xff\n")
    assert b"(integer) 1\n" in terminal.read_to(b"\ngoblin> ")
    terminal.type(b"KEYS *\n")
    assert b'1) "k\\xff"\n' in terminal.read_to(b"\ngoblin> ")


def test_terminal_interrupt_gives_up_the_line_only(terminal):
    terminal.read_to(b"goblin> ")
    terminal.type(b"INCR k")
    terminal.read_to(b"INCR k")
    terminal.interrupt()
    terminal.read_to(b"goblin> ")
    terminal.type(b"EXISTS k\n")
    assert b"(integer) 0\n" in terminal.read_to(b"\ngoblin> ")
    terminal.type(b"\x04")
    assert terminal.process.wait(timeout=60) == 0
