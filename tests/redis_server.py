"""A private redis-server for the tests: on a Unix socket in a folder of its own, gone when the session ends.

Tests take the fixture `redis_server`. On a machine without one, or without redis-py, they are skipped, and the end of
pytest's output says what is missing; with GOBLIN_REQUIRE_REDIS=1 they fail instead, so that a gate cannot pass by
skipping. The fixture `valkey_server` is the same with a valkey-server, which not every system has a package of: where
there is none, its tests are skipped in any case, and the end of the output says so.
"""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time

import pytest

OLDEST = (7, 0)  # the first with the flags of EXPIRE
START_SECONDS = 20  # a loaded machine may take its time; a server that cannot start is not waited for, see below
REPLY_SECONDS = 60


def missing():
    """What keeps us from asking a real server, in one line; empty if nothing does."""
    lacking = []
    if shutil.which("redis-server") is None:
        lacking.append("redis-server is not in PATH (Debian: apt-get install redis-server)")
    if importlib.util.find_spec("redis") is None:
        lacking.append("redis-py is not installed (pip install redis)")
    return " and ".join(lacking)


def is_required():
    return os.environ.get("GOBLIN_REQUIRE_REDIS", "") not in ("", "0")


def skip_or_fail_if_missing():
    """For conftest.py, before a test that takes the fixture: skipped here, all of them make one line of the report."""
    lacking = missing()
    if lacking and is_required():
        pytest.fail(f"nothing is compared with a real Redis: {lacking}; GOBLIN_REQUIRE_REDIS is set", pytrace=False)
    if lacking:
        pytest.skip(f"nothing is compared with a real Redis: {lacking}")


def missing_valkey():
    """The same for a valkey-server."""
    if shutil.which("valkey-server") is None:
        return "valkey-server is not in PATH (Debian 13: apt-get install valkey-server)"
    return missing()


@pytest.fixture(scope="session")
def redis_server():
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def valkey_server():
    if missing_valkey():
        pytest.skip(f"nothing is compared with a real Valkey: {missing_valkey()}")
    with RedisServer("valkey-server") as server:
        yield server


def pause(seconds):
    """Real waiting: a server's clock cannot be moved. The one place where tests sleep."""
    time.sleep(seconds)


# The shell holds the server's life: it ends it when we close its standard input, and so also when we are killed.
KEEPER = 'folder=$1; shift; "$@" </dev/null & read -r _; kill $! 2>/dev/null; wait $!; rm -rf "$folder"'


class RedisServer:
    """A running server. A context manager; `connect()` opens one more connection to it."""

    def __init__(self, program="redis-server", *options):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="goblin-redis-")
        self.socket = os.path.join(self.folder, "s")
        self.log = os.path.join(self.folder, "log")
        self._connections = []
        command = [program, "--port", "0", "--unixsocket", self.socket, "--dir", self.folder]
        command += ["--save", "", "--appendonly", "no", "--daemonize", "no", "--logfile", self.log]
        command += options
        # A sanitizer that is preloaded into us is not for the server.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self._keeper = subprocess.Popen(
            ["sh", "-c", KEEPER, "sh", self.folder, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        try:
            self._wait_until_it_answers()
            with self.connect() as ask:
                self.version = version_of(ask("INFO", "server"))
            if tuple(map(int, self.version.split(".")[:2])) < OLDEST:
                pytest.fail(f"{program} is {self.version}, too old to compare with: 7.0 or newer", pytrace=False)
        except BaseException:
            self.stop()
            raise

    def _wait_until_it_answers(self):
        for _ in range(START_SECONDS * 100):
            with contextlib.suppress(Exception), self.connect() as ask:
                if ask("PING") == b"PONG":
                    return
            pause(0.01)
        text = "no log was written"
        with contextlib.suppress(OSError), open(self.log, encoding="utf-8", errors="replace") as log:
            text = log.read()
        pytest.fail(f"{self.program} did not answer within {START_SECONDS} s:\n{text[-2_000:]}", pytrace=False)

    def connect(self):
        connection = Connection(self.socket)
        self._connections.append(connection)
        return connection

    def stop(self):
        for connection in self._connections:
            connection.close()
        self._keeper.stdin.close()
        self._keeper.wait(timeout=START_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Connection:
    """redis-py's own connection, without the client above it: commands as tuples, replies as the server sends them.

    Strings come as bytes and errors are raised; in `pipeline` they are returned.
    """

    def __init__(self, socket):
        import redis

        self.error = redis.ResponseError
        try:  # several times faster than redis-py's packing, and not there everywhere
            from hiredis import pack_command
        except ImportError:
            self._packed = lambda commands: self._link.pack_commands(commands)
        else:
            self._packed = lambda commands: [b"".join(map(pack_command, commands))]
        self._link = redis.UnixDomainSocketConnection(path=socket, protocol=2, socket_timeout=REPLY_SECONDS)
        self._link.connect()

    def __call__(self, *command):
        link = self._link
        link.send_packed_command(link.pack_command(*command))
        return link.read_response()

    def pipeline(self, commands):
        """One reply per command, sent together (and no transaction: every command is a step of its own)."""
        link = self._link
        link.send_packed_command(self._packed(commands))
        read, error, replies = link.read_response, self.error, []
        for _ in commands:
            try:
                replies.append(read())
            except error as refusal:
                replies.append(refusal)
        return replies

    def close(self):
        self._link.disconnect()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def version_of(info):
    (line,) = [line for line in info.decode().splitlines() if line.startswith("redis_version:")]
    return line.partition(":")[2]
