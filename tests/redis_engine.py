"""A redis-server as an engine of the contract tests: the names of `Counters`, each one command or one script.

`COMMANDS` says for every method which command asks for the same, and how its reply reads in Python. What no command
does in one step is a script: `increx` and `incrbound` as they are usually written in Lua (count, then arm), with two
corrections that goblin makes: the time is checked before anything is counted, and a running TTL is never armed anew.
Lua's numbers are doubles: these scripts are right within +-2**53 and no further.
"""

import itertools
import time

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

# ---- Scripts --------------------------------------------------------------------------------------------------------

CHECK_TIME = """
local period = tonumber(ARGV[AT])
if not period or period ~= math.floor(period) or math.abs(period) > MOST then
  return redis.error_reply("ERR invalid expire time in script")
end
"""
INCREX = """
local endless = redis.call("pttl", KEYS[1]) < 0
local current = redis.call("incr", KEYS[1])
if tonumber(current) == 1 and endless then
  redis.call("EXPIRE", KEYS[1], ARGV[1])
end
return current
"""
INCRBOUND = """
local v = tonumber(redis.call("get", KEYS[1]) or "0")
if v + tonumber(ARGV[1]) <= tonumber(ARGV[2]) then
  local total = redis.call("incrby", KEYS[1], ARGV[1])
  if ARGV[3] and redis.call("pttl", KEYS[1]) < 0 then
    redis.call("expire", KEYS[1], ARGV[3])
  end
  return total
end
return -1
"""
DECRPOS = """
local v = tonumber(redis.call("get", KEYS[1]) or "0")
if v > 0 then
  return redis.call("decr", KEYS[1])
end
return -1
"""
# INCR and EXPIRE together. The reply is the text, which no double has cut short.
ADD_AND_EXPIRE = """
if tonumber(ARGV[2]) <= 0 then
  return redis.error_reply("ERR invalid expire time in script")
end
redis.call("ADD", KEYS[1], ARGV[1])
redis.call("EXPIRE", KEYS[1], ARGV[2])
return redis.call("get", KEYS[1])
"""
MOST = {"expire": INT64_MAX // 10**9, "pexpire": INT64_MAX // 10**6}


def check_time(argument, unit):
    return CHECK_TIME.replace("AT", str(argument)).replace("MOST", str(MOST[unit]))


SCRIPTS = {
    "increx": check_time(1, "expire") + INCREX.replace("EXPIRE", "expire"),
    "pincrex": check_time(1, "pexpire") + INCREX.replace("EXPIRE", "pexpire"),
    "incrbound": INCRBOUND,
    "incrbound_seconds": check_time(3, "expire") + INCRBOUND,
    "decrpos": DECRPOS,
}
SCRIPTS |= {
    f"{add}_{expire}": check_time(2, expire) + ADD_AND_EXPIRE.replace("ADD", add).replace("EXPIRE", expire)
    for add in ("incrby", "decrby")
    for expire in MOST
}

# ---- Methods as commands --------------------------------------------------------------------------------------------


def as_it_is(reply):
    return reply


def number(reply):
    return None if reply is None else int(reply)


def numbers(reply):
    return [None if text is None else int(text) for text in reply]


def truth(reply):
    return reply == 1


def is_stored(reply):
    return reply is not None  # OK, or nil where nx or xx refused


def nothing(reply):
    return None


def script(name, *words):
    return (name, *words)  # the name stands for EVALSHA and its digest: see RedisStore.words


def times(ex, px):
    return (*(() if ex is None else ("EX", ex)), *(() if px is None else ("PX", px)))


def flags(**given):
    return tuple(name.upper() for name, value in given.items() if value)


def command_of_increx(key, seconds):
    return script("increx", key, seconds), as_it_is


def command_of_pincrex(key, milliseconds):
    return script("pincrex", key, milliseconds), as_it_is


def command_of_incrbound(key, delta, max, *, seconds=None):
    if seconds is None:
        return script("incrbound", key, delta, max), as_it_is
    return script("incrbound_seconds", key, delta, max, seconds), as_it_is


def command_of_decrpos(key):
    return script("decrpos", key), as_it_is


def adding(by_one, by_any):
    def command_of_adding(key, amount=None, *, ex=None, px=None):
        assert ex is None or px is None, "no command or script takes both"
        if ex is None and px is None:
            return ((by_one, key) if amount is None else (by_any, key, amount)), as_it_is
        amount = 1 if amount is None else amount
        if px is None:
            return script(f"{by_any.lower()}_expire", key, amount, ex), number
        return script(f"{by_any.lower()}_pexpire", key, amount, px), number

    return command_of_adding


def command_of_set(key, value, *, ex=None, px=None, keepttl=False, nx=False, xx=False, get=False):
    words = ("SET", key, value, *times(ex, px), *flags(keepttl=keepttl, nx=nx, xx=xx, get=get))
    return words, number if get else is_stored


def command_of_getex(key, *, ex=None, px=None, persist=False):
    return ("GETEX", key, *times(ex, px), *flags(persist=persist)), number


def command_of_mset(mapping):
    return ("MSET", *(word for pair in mapping.items() for word in pair)), nothing


def command_of_mget(*keys):
    if len(keys) == 1 and not isinstance(keys[0], (str, bytes)):
        (keys,) = keys
    return ("MGET", *keys), numbers


def command_of_expire(key, seconds, *, nx=False, xx=False, gt=False, lt=False):
    return ("EXPIRE", key, seconds, *flags(nx=nx, xx=xx, gt=gt, lt=lt)), truth


def command_of_pexpire(key, milliseconds, *, nx=False, xx=False, gt=False, lt=False):
    return ("PEXPIRE", key, milliseconds, *flags(nx=nx, xx=xx, gt=gt, lt=lt)), truth


COMMANDS = {
    "increx": command_of_increx,
    "pincrex": command_of_pincrex,
    "incrbound": command_of_incrbound,
    "decrpos": command_of_decrpos,
    "incr": adding("INCR", "INCRBY"),
    "incrby": adding("INCR", "INCRBY"),
    "decr": adding("DECR", "DECRBY"),
    "decrby": adding("DECR", "DECRBY"),
    "get": lambda key: (("GET", key), number),
    "set": command_of_set,
    "getset": lambda key, value: (("GETSET", key, value), number),
    "getdel": lambda key: (("GETDEL", key), number),
    "getex": command_of_getex,
    "mget": command_of_mget,
    "mset": command_of_mset,
    "delete": lambda *keys: (("DEL", *keys), as_it_is),
    "exists": lambda *keys: (("EXISTS", *keys), as_it_is),
    "expire": command_of_expire,
    "pexpire": command_of_pexpire,
    "persist": lambda key: (("PERSIST", key), truth),
    "ttl": lambda key: (("TTL", key), as_it_is),
    "pttl": lambda key: (("PTTL", key), as_it_is),
    "clear": lambda: (("FLUSHDB",), nothing),
}
NONE_GIVEN = {"MGET": [], "MSET": None, "DEL": 0, "EXISTS": 0}  # the server wants at least one key

# What a refusal says -> what it is about. A script's error has the command's text and then where in the script.
TOPICS = {
    "would overflow": "overflow",
    "value is not an integer or out of range": "integer",
    "invalid expire time": "time",
    "syntax error": "conflict",
    "options at the same time are not compatible": "conflict",
    "cannot be given together": "conflict",  # goblin's own words for it
}


def topic_of(text):
    for words, topic in TOPICS.items():
        if words in text:
            return topic
    raise AssertionError(f"an error that nobody expected: {text}")


# ---- The engine -----------------------------------------------------------------------------------------------------


class TimeLeft(int):
    """A TTL of a server, whose clock runs: equal to what it was when the row began, `lost_ms` ago.

    Rows say what a TTL is on a clock that stands still. Since then the server may have lost what the row took, and no
    more; it has never gained anything, but for the millisecond that rounding may give.
    """

    def __new__(cls, left, lost_ms, unit_ms=1):
        self = super().__new__(cls, left)
        self.lost_ms, self.unit_ms = lost_ms, unit_ms
        return self

    def __eq__(self, other):
        lost = (int(other) - int(self)) * self.unit_ms
        return -1 <= lost <= self.lost_ms + self.unit_ms

    def __ne__(self, other):
        return not self == other

    __hash__ = None


class RedisStore:
    """`Counters` by name, on a connection of its own. Refusals become the classes that goblin raises."""

    def __init__(self, ask, digests):
        self._ask, self._digests = ask, digests
        self._started_ns, self.advanced_ms = time.monotonic_ns(), 0

    def words(self, command):
        """A command's words as they go to the server."""
        name, *rest = command
        return ("EVALSHA", self._digests[name], 1, *rest) if name in self._digests else command

    def _call(self, name, args, kwargs):
        command, read = COMMANDS[name](*args, **kwargs)
        if len(command) == 1 and command[0] in NONE_GIVEN:
            return NONE_GIVEN[command[0]]
        try:
            return read(self._ask(*self.words(command)))
        except self._ask.error as refusal:
            raise as_goblin_raises(refusal, command) from None

    def _left(self, reply, unit_ms):
        if reply < 0:
            return reply
        lost_ms = (time.monotonic_ns() - self._started_ns) // 10**6 + 1 - self.advanced_ms
        return TimeLeft(reply, lost_ms, unit_ms)

    def ttl(self, key):
        return self._left(self._call("ttl", (key,), {}), 1_000)

    def pttl(self, key):
        return self._left(self._call("pttl", (key,), {}), 1)

    def get(self, key, default=None):
        value = self._call("get", (key,), {})
        return default if value is None else value

    def __contains__(self, key):
        return self.exists(key) == 1

    def __getitem__(self, key):
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __delitem__(self, key):
        if self.delete(key) == 0:
            raise KeyError(key)

    def __len__(self):
        return self._ask("DBSIZE")

    def scan_iter(self, match=None):
        cursor, seen = 0, set()  # SCAN may give a key twice
        while cursor != b"0":
            cursor, keys = self._ask("SCAN", cursor, "MATCH", "*" if match is None else match, "COUNT", 1_000)
            yield from (spelt_as_text(key) for key in keys if key not in seen)
            seen.update(keys)

    def __iter__(self):
        return self.scan_iter()

    def items(self):
        keys = iter(self)
        while some := list(itertools.islice(keys, 1_000)):
            yield from ((key, value) for key, value in zip(some, self.mget(some), strict=True) if value is not None)

    def _check(self):
        """Nothing to look into: the server's memory is its own affair."""


def method_of(name):
    def method(self, *args, **kwargs):
        return self._call(name, args, kwargs)

    method.__name__ = name
    return method


for _name in COMMANDS.keys() - vars(RedisStore).keys():
    setattr(RedisStore, _name, method_of(_name))


def spelt_as_text(key):
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key


def as_goblin_raises(refusal, command):
    topic = topic_of(str(refusal))
    beyond = any(type(word) is int and not INT64_MIN <= word <= INT64_MAX for word in command)
    kind = OverflowError if topic == "overflow" or topic == "integer" and beyond else ValueError
    return kind(str(refusal))


def load_scripts(ask):
    """{name: digest}, for EVALSHA."""
    return {name: ask("SCRIPT", "LOAD", text) for name, text in SCRIPTS.items()}
