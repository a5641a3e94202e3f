"""The same random programs on the core and on a real server, both on their own running clocks.

Operations go in batches: the core runs one, call by call, then the server gets all of it in one pipeline, then replies
are compared. Both have run the batch between two readings of our clock, so a deadline of one is at most that far from
the other's, and no comparison asks for more. Most TTLs are hours. Short ones have a set of keys and batches of their
own: such a batch must be over before the first of them could end, and the next one begins when the last has ended, with
5 ms to spare on both sides; half way all is compared. A batch that took too long to be judged so is void: both stores
start anew, and it is counted.

A seed stands for two programs, one of each sort of batch. How they alternate is up to the clocks; they share no key.

Where goblin means to differ is written in DIFFERENCES; after such an operation the server is brought back to the core's
state, so that it can be compared again.
"""

import collections
import random
import time
from typing import NamedTuple

import goblin
from catalogue import INT64_MAX, INT64_MIN
from programs import LONG_KEYS, ODD_KEYS, ORDINARY_KEYS, Generator, Profile
from redis_engine import COMMANDS, RedisStore, as_goblin_raises, load_scripts, topic_of
from redis_server import pause
from rows import as_bytes

BATCH = 200
NEAR_DEADLINE_MS = 5
SHORT_MS = [60, 61, 75, 90]
SAFE_MS = min(SHORT_MS) - 2 * NEAR_DEADLINE_MS  # since the start of a batch with short TTLs: none can have ended
LOOK_MS = 30  # likewise, when to look whether any has
LONGEST_BATCH_MS = 250
BRIEF_AT_MOST_EVERY = 8  # batches: where all are too slow for short TTLs, there is still something to compare

BRIEF_KEYS = [(b"brief:%d" % n, f"brief:{n}") for n in range(10)]
TEXTS_NO_NUMBER = [b"+5", b" 5", b"05", b"-0", b"", b"5.0", b"0x5", b"1_000", b"5\0", b"9223372036854775808"]
TEXTS_NO_NUMBER += ["٣".encode()]  # another script's three

# Named twice: twice as often as in other programs.
METHODS = tuple(
    "increx increx pincrex pincrex pincrex incrbound incrbound decrpos decrpos incr incrby decr decrby "
    "get set set getset getdel getex getex mget mset delete exists "
    "expire expire pexpire pexpire persist persist ttl pttl __iter__ scan_iter clear".split()
)
ORDINARY = Profile(
    keys=[*ORDINARY_KEYS * 6, *ODD_KEYS, *ODD_KEYS, *LONG_KEYS],
    bad_arguments=0.06,
    bad_keys=["a"],  # what is no key is no matter for a server
    bad_integers=[2**63, -(2**63) - 1, 2**64, -(2**70)],
    bad_values=[*TEXTS_NO_NUMBER, *(text.decode() for text in TEXTS_NO_NUMBER), 2**63, 2**63, -(2**63) - 1],
    bad_times=[2**63, -(2**63) - 1, 2**64],
    timedeltas=False,
    # Mostly one that no other call uses, so that a TTL set anew is seen; some equal ones, for gt and lt.
    seconds=[3_600 + 977 * n for n in range(200)] + [86_400] * 80 + [2**31, 9_000_000_000],
    too_far=0.12,
    methods=METHODS,
    fewest_keys=1,
    ex_with_px=False,
)
BRIEF = ORDINARY._replace(keys=BRIEF_KEYS, short_ms=SHORT_MS)


class Refused(NamedTuple):
    """An error as a reply: its class, and what it is about."""

    error: str
    topic: str


class Step(NamedTuple):
    """One operation, and what the core had under its key before (of the first, where there are several)."""

    method: str
    args: tuple
    kwargs: dict
    value: int | None
    left: int  # as pttl says it


# ---- What is wrong with a call --------------------------------------------------------------------------------------

ADDERS = {"incr", "incrby", "decr", "decrby"}
SETTERS = {"set", "getset", "mset"}
SCRIPTED = {"increx", "pincrex", "incrbound", "decrpos"}
OPTION_UNITS_MS = {"ex": 1_000, "px": 1, "seconds": 1_000}
ARGUMENT_UNITS_MS = {"increx": 1_000, "pincrex": 1, "expire": 1_000, "pexpire": 1}
MOST_MS = 9_100_000_000_000  # what int64 nanoseconds hold, less the clock's own reading; no time here lies between
MOST_REDIS_MS = INT64_MAX - 4 * 10**12  # likewise, for milliseconds on the wall clock

EXCLUDE_EACH_OTHER = [{"nx", "xx"}, {"nx", "gt"}, {"nx", "lt"}, {"gt", "lt"}, {"ex", "px"}]
EXCLUDE_EACH_OTHER += [{time, kept} for time in ("ex", "px") for kept in ("keepttl", "persist")]


def outside_int64(number):
    return not INT64_MIN <= number <= INT64_MAX


def times_of(step):
    """[(number, its unit in ms, whether it must be positive)]"""
    method, args, kwargs = step.method, step.args, step.kwargs
    found = [(kwargs[name], unit, name != "seconds") for name, unit in OPTION_UNITS_MS.items() if name in kwargs]
    if method in ARGUMENT_UNITS_MS:
        found.append((args[1], ARGUMENT_UNITS_MS[method], False))
    return found


def bad_value(step):
    """The refusal of a value that is no int64; None if it is one."""
    if step.method not in SETTERS:
        return None
    for value in step.args[0].values() if step.method == "mset" else step.args[1:]:
        if type(value) is int:
            if outside_int64(value):
                return Refused("OverflowError", "integer")
        elif as_bytes(value) in TEXTS_NO_NUMBER:
            return Refused("ValueError", "integer")
    return None


def faults_of(step):
    """What goblin has to refuse, in the order in which it looks."""
    method, args, kwargs = step.method, step.args, step.kwargs
    found = [bad_value(step)] if method in SETTERS else []
    times = times_of(step) if kwargs or method in ARGUMENT_UNITS_MS else ()
    numbers = [number for number, _, _ in times]
    if method in ADDERS or method == "incrbound":
        numbers += args[1:]
    if any(map(outside_int64, numbers)):
        found.append(Refused("OverflowError", "integer"))
    if len(kwargs) > 1 and any(pair <= kwargs.keys() for pair in EXCLUDE_EACH_OTHER):
        found.append(Refused("ValueError", "conflict"))
    for number, unit, positive in times:
        milliseconds = number * unit
        out_of_range = milliseconds > MOST_MS or milliseconds * 10**6 < INT64_MIN
        if not outside_int64(number) and (out_of_range or positive and number <= 0):
            found.append(Refused("ValueError", "time"))
            break
    return [fault for fault in found if fault]


# ---- Where goblin means to differ -----------------------------------------------------------------------------------


class Difference(NamedTuple):
    """Known from the arguments and the state before alone, so that a core that does not keep to it is seen too."""

    reason: str
    where: object  # (Step, its faults) -> whether it applies
    ours: object  # (Step, its faults) -> the replies that the core may give
    theirs: object  # likewise, the server
    restores: bool = False  # one side may have done what the other has not: the server is set to the core's state


ANY_ERROR, NO_ERROR, ANY_REPLY = "any error", "no error", "any reply"


def is_among(reply, replies):
    """`replies` is a list, where True is not 1, or one of the words above."""
    if type(replies) is list:
        return any(type(one) is type(reply) and one == reply for one in replies)
    return replies == ANY_REPLY or (type(reply) is Refused) == (replies == ANY_ERROR)


def first_fault(step, faults):
    return faults[:1]


def is_refused_otherwise(step, faults):
    if len(faults) > 1:
        return True
    return step.method in SCRIPTED | ADDERS and any(outside_int64(number) for number, _, _ in times_of(step))


def reaches_further(step, faults):
    if step.method not in ("set", "getex", "expire", "pexpire") or [fault.topic for fault in faults] != ["time"]:
        return False
    return all(
        (1 if positive else INT64_MIN) <= number * unit <= MOST_REDIS_MS for number, unit, positive in times_of(step)
    )


def is_beyond_doubles(step, faults):
    if step.method not in SCRIPTED or any(fault.topic == "time" for fault in faults):
        return False
    value = step.value or 0
    delta, most = step.args[1:3] if step.method == "incrbound" else (1, 0)
    return max(abs(value), abs(delta), abs(most), abs(value + delta)) > 2**53


def exactly(step, faults):
    return faults[:1] or [counted(step, lambda number: number)]


def in_doubles(step, faults):
    """What the scripts reply: sums and comparisons of doubles, but INCRBY itself adds integers."""
    if step.method == "incrbound" and outside_int64(step.args[1]):
        admitted = counted(step, float) != -1
        return [Refused("OverflowError", "integer") if admitted else -1]
    reply = counted(step, float)
    if type(reply) is Refused or abs(reply) <= 2**53:
        return [reply]
    cut = int(float(reply))
    return [cut] if cut < 2**63 else [INT64_MIN, INT64_MAX]  # C may make of it what it likes


def counted(step, as_number):
    value = step.value or 0
    if step.method == "decrpos":
        return value - 1 if value > 0 else -1
    delta = 1
    if step.method == "incrbound":
        delta, most = step.args[1:3]
        if as_number(value) + as_number(delta) > as_number(most):
            return -1
    total = value + delta
    return Refused("OverflowError", "overflow") if outside_int64(total) else total


def is_too_near_to_tell(step, faults):
    if step.left < 0 or faults or not ("gt" in step.kwargs or "lt" in step.kwargs):
        return False
    ((number, unit, _),) = times_of(step)
    return abs(number * unit - step.left) <= 2 * LONGEST_BATCH_MS


DIFFERENCES = {
    "set stores anything": Difference(
        "SET k abc is stored, and INCR then refuses; goblin's values are integers",
        lambda step, faults: step.method in SETTERS and faults and bad_value(step),
        first_fault,
        lambda step, faults: ANY_REPLY,
        restores=True,
    ),
    "getex looks at the key first": Difference(
        "GETEX of an absent key is nil, whatever the time",
        lambda step, faults: step.method == "getex"
        and step.value is None
        and faults
        and Refused("ValueError", "conflict") not in faults,
        first_fault,
        lambda step, faults: [None],
    ),
    "another fault is named": Difference(
        "of several things wrong, goblin names the first argument and Redis the options; and the scripts call a time "
        "outside int64 too long",
        is_refused_otherwise,
        first_fault,
        lambda step, faults: ANY_ERROR,
    ),
    "milliseconds reach further": Difference(
        "292 million years in milliseconds, 292 years in nanoseconds; and what is past deletes however long it is past",
        reaches_further,
        first_fault,
        lambda step, faults: NO_ERROR,
        restores=True,
    ),
    "numbers are doubles in Lua": Difference(
        "beyond 2**53 the scripts compare and reply what a double holds",
        is_beyond_doubles,
        exactly,
        in_doubles,
        restores=True,
    ),
    "deadlines too near to tell apart": Difference(
        "gt and lt within what lies between the two clocks: a reply of either is right",
        is_too_near_to_tell,
        lambda step, faults: [True, False],
        lambda step, faults: [True, False],
        restores=True,
    ),
}


def difference_of(step):
    """(its name or None, the replies of the core, the replies of the server): None where both give the same."""
    faults = faults_of(step)
    if faults or step.method in SCRIPTED or step.method in ("expire", "pexpire"):
        for name, one in DIFFERENCES.items():
            if one.where(step, faults):
                return name, one.ours(step, faults), one.theirs(step, faults)
    return None, faults or None, None


# ---- Running --------------------------------------------------------------------------------------------------------


def sorted_keys(keys):
    return sorted(map(as_bytes, keys))


ASK = COMMANDS | {
    "__iter__": lambda: (("KEYS", "*"), sorted_keys),
    "scan_iter": lambda match: (("KEYS", match), sorted_keys),
}
WHOLE_STORE = {"__iter__", "scan_iter", "clear"}


class Disagreement(AssertionError):
    """Core and server gave different replies, or hold different counters."""


class Comparison:
    """One long random program on both; afterwards, what it was like."""

    def __init__(self, server, seed):
        self.core, self.ask = goblin.Counters(), server.connect()
        self.ask("FLUSHALL")
        self.words = RedisStore(self.ask, load_scripts(self.ask)).words
        self.ordinary = Generator(random.Random(seed), ORDINARY)
        self.brief = Generator(random.Random(seed + 1), BRIEF)
        self.seed, self.batches, self.operations = seed, 0, 0
        self.replies = collections.Counter()  # (method, class of the reply) -> how often
        self.differing = collections.Counter()
        self.with_ttl = self.void = self.states = 0
        self.next_brief = 0
        self.longest_ms = 1  # of the batches since the store was last empty: running TTLs were armed in one of them
        self.loosest_ms = 0
        self.look_ns = self.safe_ns = self.settled_ns = 0  # of the latest batch with short TTLs; settled: all are over

    def run(self, operations):
        """A generator: one step for each batch that was judged."""
        while self.operations < operations:
            now_ns = time.monotonic_ns()
            brief = now_ns >= self.settled_ns and self.batches >= self.next_brief
            if brief:
                self.next_brief = self.batches + BRIEF_AT_MOST_EVERY
                self.compare_states()
            elif now_ns >= self.look_ns:
                self.compare_states(self.safe_ns)
                self.look_ns = 2**63  # once
            judged = self.batch((self.brief if brief else self.ordinary).program(BATCH), brief)
            self.batches += 1
            if judged:
                yield
        pause(max(0, self.settled_ns - time.monotonic_ns()) / 10**9)
        self.compare_states()
        self.core._check()

    def tolerance_ms(self, took_ms):
        """Armed in one batch, read in what took so long; and two clocks that are cut to milliseconds."""
        return self.longest_ms + took_ms + 3

    def batch(self, operations, brief):
        """Run it on both and compare; whether it could be judged."""
        started_ns = time.monotonic_ns()
        steps, commands = [], []
        for operation in operations:
            steps.append(self.on_core(operation, commands))
        answers = iter(self.ask.pipeline(commands))
        ended_ns = time.monotonic_ns()
        took_ms = (ended_ns - started_ns) // 10**6 + 1
        if brief:
            self.look_ns, self.safe_ns = started_ns + LOOK_MS * 10**6, started_ns + SAFE_MS * 10**6
            self.settled_ns = ended_ns + (max(SHORT_MS) + NEAR_DEADLINE_MS + 1) * 10**6
        if took_ms > (SAFE_MS if brief else LONGEST_BATCH_MS):
            self.void += 1
            assert self.void <= 20 + self.batches // 5, f"too slow to compare: {self.void} of {self.batches} void"
            self.core.clear()
            self.ask("FLUSHALL")
            self.longest_ms = 1
            return False
        self.longest_ms = max(self.longest_ms, took_ms)
        tolerance_ms = self.tolerance_ms(took_ms)
        self.loosest_ms = max(self.loosest_ms, tolerance_ms)
        for number, (step, ours, difference, command, read, restoring) in enumerate(steps):
            theirs = self.reply(next(answers), command, read)
            restored = [next(answers) for _ in range(restoring)]
            try:
                self.judge(step, ours, theirs, difference, tolerance_ms, brief)
                assert not any(isinstance(answer, self.ask.error) for answer in restored), restored
            except AssertionError as error:
                raise Disagreement(f"{error}\n{self.story(steps, number)}") from None
        self.operations += len(steps)
        if any(step.method == "clear" for step, *_ in steps):
            self.longest_ms = took_ms
        return True

    def on_core(self, operation, commands):
        """Run it there, and append what the server has to do."""
        method, args, kwargs = operation
        core = self.core
        if method in WHOLE_STORE:
            step = Step(method, args, kwargs, None, -2)
        else:
            key = next(iter(args[0])) if method == "mset" else args[0]
            step = Step(method, args, kwargs, core.get(key), core.pttl(key))
        difference = difference_of(step)
        try:
            ours = getattr(core, method)(*args, **kwargs)
        except (TypeError, ValueError, OverflowError) as error:
            ours = Refused(type(error).__name__, topic_of(str(error)))
        else:
            if method in ("__iter__", "scan_iter"):
                ours = sorted_keys(ours)
        command, read = ASK[method](*args, **kwargs)
        commands.append(self.words(command))
        restoring = 0
        if difference[0] and DIFFERENCES[difference[0]].restores:
            keys = args[0] if method == "mset" else args[:1]
            commands += map(self.restoring, keys)
            restoring = len(keys)
        return step, ours, difference, command, read, restoring

    def restoring(self, key):
        """The command that makes the server's counter what the core's is."""
        value, left = self.core.get(key), self.core.pttl(key)
        if value is None:
            return ("DEL", key)
        return ("SET", key, value) if left == -1 else ("SET", key, value, "PX", left)

    def reply(self, answer, command, read):
        if not isinstance(answer, self.ask.error):
            return read(answer)
        error = as_goblin_raises(answer, command)
        return Refused(type(error).__name__, topic_of(str(error)))

    def judge(self, step, ours, theirs, difference, tolerance_ms, brief):
        name, ours_allowed, theirs_allowed = difference
        if ours_allowed is not None:
            assert is_among(ours, ours_allowed), f"the core gave {ours!r}; right is {ours_allowed}"
        if name is not None:
            assert is_among(theirs, theirs_allowed), f"Redis gave {theirs!r}, not {theirs_allowed}, where {name}"
            self.differing[name] += theirs != ours
        else:
            agreed = self.agree(step.method, ours, theirs, tolerance_ms, brief)
            assert agreed, f"the core gave {ours!r}, Redis {theirs!r}"
        self.replies[step.method, class_of(step.method, ours)] += 1
        self.with_ttl += step.left >= 0

    def agree(self, method, ours, theirs, tolerance_ms, brief):
        if type(ours) is type(theirs) is list and method != "mget" and not brief:
            ours, theirs = ([key for key in keys if not key.startswith(b"brief:")] for keys in (ours, theirs))
        if method in ("ttl", "pttl") and ours >= 0 and theirs >= 0:
            return abs(ours - theirs) <= (tolerance_ms if method == "pttl" else tolerance_ms // 1_000 + 1)
        return ours == theirs and type(ours) is type(theirs)

    def compare_states(self, safe_ns=None):
        """Values and TTLs of all counters, when nothing is near its deadline. Too late for that: nothing is judged."""
        started_ns = time.monotonic_ns()
        keys = self.ask("KEYS", "*")
        values = self.ask.pipeline([("GET", key) for key in keys])
        lefts = self.ask.pipeline([("PTTL", key) for key in keys])
        theirs = {key: (value and int(value), left) for key, value, left in zip(keys, values, lefts, strict=True)}
        ours = {as_bytes(key): (value, self.core.pttl(key)) for key, value in self.core.items()}
        ended_ns = time.monotonic_ns()
        if safe_ns is not None and ended_ns > safe_ns:
            return
        tolerance_ms = self.tolerance_ms((ended_ns - started_ns) // 10**6 + 1)
        self.states += 1
        for key in ours.keys() | theirs.keys():
            value, left = ours.get(key, (None, -2))
            other, other_left = theirs.get(key, (None, -2))
            same_ttl = left == other_left if min(left, other_left) < 0 else abs(left - other_left) <= tolerance_ms
            if value != other or not same_ttl:
                raise Disagreement(
                    f"{self.where()}: {key[:80]!r} is {value} for {left} ms here, {other} for {other_left} ms there"
                )

    def where(self):
        return f"GOBLIN_SEED={self.seed}, batch {self.batches}, after {self.operations:,} operations"

    def story(self, steps, number):
        """What led to it: in this batch, on the same key."""
        asked = {*keys_of(steps[number][0])}
        told = [
            f"{step.method}{step.args} {step.kwargs} (was {step.value}, {step.left} ms): {ours!r}"[:300]
            for step, ours, *_ in steps[: number + 1]
            if not asked or not keys_of(step) or asked & {*keys_of(step)}
        ]
        return "\n".join([self.where(), *told[-25:]])


def keys_of(step):
    if step.method in WHOLE_STORE:
        return []
    keys = step.args if step.method in ("mget", "delete", "exists") else step.args[:1]
    return [as_bytes(key) for key in (keys[0] if step.method == "mset" else keys)]


# ---- What a program was like ----------------------------------------------------------------------------------------


def class_of(method, reply):
    if type(reply) is Refused:
        return reply.topic
    if type(reply) is not int:
        return "list" if type(reply) is list else {None: "nil", True: "yes", False: "no"}[reply]
    if method in ("ttl", "pttl"):
        return {-2: "absent", -1: "endless"}.get(reply, "left")
    if method in ("delete", "exists"):
        return "count" if reply else "0"
    if reply == -1 and method in ("incrbound", "decrpos"):
        return "-1"
    return "1" if reply == 1 and method in ("increx", "pincrex") else "value"


def table_of(replies):
    """Lines of method by class of reply; a method by a line."""
    kinds = sorted({kind for _, kind in replies})
    widths = {kind: max(len(kind), *(len(f"{replies[method, kind]:,}") for method, _ in replies)) for kind in kinds}
    yield " ".join([f"{'':10}", *(f"{kind:>{widths[kind]}}" for kind in kinds)])
    for method in dict.fromkeys(METHODS):
        counts = {kind: f"{replies[method, kind]:,}" if replies[method, kind] else "." for kind in kinds}
        yield " ".join([f"{method:10}", *(f"{count:>{widths[kind]}}" for kind, count in counts.items())])
