"""The three rate limiting algorithms once more, exact and slow: what the core's verdicts are compared with.

Written from the rules, not from the code, and with other arithmetic: fractions, lists of hits, and no packing. One
object is one key. `hit` is the call; `passes` says in one line when a hit is admitted, and everything else is derived
from it. The wait is found in three ways that share nothing: `wait_by_steps` tries every nanosecond, `wait_by_bisection`
halves the time ahead, `wait_by_formula` computes it. test_limit_references.py has them agree; the random histories use
the formula.

Times and periods are whole nanoseconds. `period` None is a count that never ends (fixed window only).
"""

from fractions import Fraction
from math import ceil, floor

NEVER = -(2**63)
INT64_MAX = 2**63 - 1
HORIZON_NS = 2**63 - 2
SLIDING_LIMIT_MAX = 2**31 - 1


def first_passing(passes, low, high):
    """The first instant in low..high at which it passes, given that it passes at `high` and does not cease to."""
    while low < high:
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle + 1
    return low


class Reference:
    """What the three have in common. A subclass says `expired`, `passes`, `remaining`, `spend`, `wait_by_formula`."""

    def hit(self, now, limit, period, cost=1, burst=None):
        """What remains after the hit, or minus the nanoseconds until it can pass, or NEVER."""
        verdict = self.look(now, limit, period, cost, burst)
        if cost and verdict >= 0:
            self.spend(now, limit, period, cost, burst)
            return self.remaining(now, limit, period, burst)
        return verdict

    def look(self, now, limit, period, cost=1, burst=None):
        """The verdict without the hit; where it passes, what remains before it."""
        self.check(now, limit, period, cost, burst)
        if cost and (limit == 0 or cost > self.quota(limit, burst)):
            return NEVER
        if cost == 0 or self.passes(now, limit, period, cost, burst):
            return self.remaining(now, limit, period, burst)
        return self.refusal(now, limit, period, cost, burst)

    def refusal(self, now, limit, period, cost, burst):
        return -self.wait_by_formula(now, limit, period, cost, burst)

    def quota(self, limit, burst):
        """The largest cost that can ever pass."""
        return limit

    def check(self, now, limit, period, cost, burst):
        if cost < 0 or limit < 0 or (burst is not None and burst < 1) or (period is not None and period <= 0):
            raise ValueError
        if limit and period is not None and now + self.reach(limit, period, burst) > HORIZON_NS:
            raise ValueError

    def reset(self, now, limit, period, burst=None):
        """Nanoseconds until a hit of the whole quota would pass; -1 for never."""
        asked = (now, limit, period, self.quota(limit, burst), burst)
        if limit and self.passes(*asked):
            return 0
        wait = -self.refusal(*asked) if limit else -NEVER
        return -1 if wait == -NEVER else wait

    def wait_by_steps(self, now, limit, period, cost, burst=None):
        at = now
        while not self.passes(at, limit, period, cost, burst):
            at += 1
        return at - now

    def wait_by_bisection(self, now, limit, period, cost, burst=None):
        def passes(at):
            return self.passes(at, limit, period, cost, burst)

        return first_passing(passes, now, self.end) - now


class FixedWindow(Reference):
    """The costs of a window's hits, and when it ends (None: it does not)."""

    def __init__(self):
        self.costs, self.end = [], None

    def put(self, value, end):
        """As by `set` and `expire`; value None: the key is gone."""
        self.costs, self.end = [] if value is None else [value], end

    def live(self, now):
        return [] if self.end is not None and now >= self.end else self.costs

    def count(self, now):
        return sum(self.live(now))

    def reach(self, limit, period, burst):
        return period

    def passes(self, now, limit, period, cost, burst=None):
        return self.count(now) + cost <= limit

    def remaining(self, now, limit, period, burst=None):
        return max(0, min(limit - self.count(now), INT64_MAX))  # a count may have been set to anything

    def spend(self, now, limit, period, cost, burst=None):
        self.costs = self.live(now)
        if not self.costs or self.end is None:
            self.end = None if period is None else now + period
        self.costs = [*self.costs, cost]

    def refusal(self, now, limit, period, cost, burst):
        if self.end is None:
            return NEVER
        return -self.wait_by_formula(now, limit, period, cost, burst)

    def wait_by_formula(self, now, limit, period, cost, burst=None):
        return self.end - now

    # Giving back

    def stamp(self, now, limit, period, at=None, burst=None):
        return self.end

    def refund(self, stamp, now, limit, period, cost, burst=None):
        live = self.live(now)
        given = min(cost, max(0, sum(live)))
        if not live or self.end != stamp or not given:
            return False
        self.costs = [sum(live) - given]
        return True


class SlidingWindow(Reference):
    """The hits of the current window and of the one before, by the end of the window after the current one."""

    def __init__(self):
        self.before, self.current, self.end = [], [], 0

    def windows(self, now, period):
        """(start of the window that `now` lies in, costs in the one before, costs in it), reckoned from the end."""
        if now >= self.end:
            return now, [], []
        start = self.end - 2 * period
        if now >= start + period:
            return start + period, self.current, []
        return start, self.before, self.current

    def weighted(self, now, period):
        start, before, current = self.windows(now, period)
        # How many of the nanoseconds start - period .. start - 1 are later than now - period.
        overlap = start - 1 - max(start - period - 1, now - period)
        overlap = max(0, min(overlap, period - 1))
        return floor(Fraction(sum(before) * overlap, period)) + sum(current)

    def check(self, now, limit, period, cost, burst):
        super().check(now, limit, period, cost, burst)
        if limit > SLIDING_LIMIT_MAX:
            raise ValueError

    def reach(self, limit, period, burst):
        return 2 * period

    def passes(self, now, limit, period, cost, burst=None):
        return self.weighted(now, period) + cost <= limit

    def remaining(self, now, limit, period, burst=None):
        return max(0, limit - self.weighted(now, period))

    def spend(self, now, limit, period, cost, burst=None):
        start, before, current = self.windows(now, period)
        self.before, self.current, self.end = before, [*current, cost], start + 2 * period

    def wait_by_formula(self, now, limit, period, cost, burst=None):
        """Within this window by what the one before may still weigh; else within the next, by what this one may."""
        start, before, current = self.windows(now, period)
        for opening, old, new in ((start, sum(before), sum(current)), (start + period, sum(current), 0)):
            room = limit - cost - new  # what the floored share of the old window may still be
            if room < 0:
                continue
            # The largest k with floor(old * k / period) <= room; the overlap is period - 1 - (at - opening).
            most = period - 1 if old == 0 else min(period - 1, ceil(Fraction((room + 1) * period, old)) - 1)
            return max(now, opening, opening + period - 1 - most) - now
        raise AssertionError("a cost within the limit passes in the next window")

    # Giving back

    def stamp(self, now, limit, period, at=None, burst=None):
        return self.end

    def refund(self, stamp, now, limit, period, cost, burst=None):
        """Off the window that it was counted in, while that one or the next is running."""
        if now >= self.end:
            return False
        if self.end == stamp:
            given = min(cost, sum(self.current))
            self.current = [sum(self.current) - given]
        elif self.end == stamp + period and now < stamp:
            given = min(cost, sum(self.before))
            self.before = [sum(self.before) - given]
        else:
            return False
        return given > 0


class Gcra(Reference):
    """The theoretical arrival time, as a fraction of a nanosecond, and the limit that it was last written with."""

    def __init__(self):
        self.tat, self.limit, self.end = Fraction(0), 1, 0

    def put(self, tat, limit):
        """A state is kept as the TAT rounded up, and by how much, in limit-ths: `end` is what `ttl` shows."""
        self.tat, self.limit, self.end = tat, limit, ceil(tat)

    def arrival(self, now, limit):
        """The TAT as a call with this limit reads it; an instant that has passed counts as now."""
        parts = (self.end - self.tat) * self.limit
        assert parts.denominator == 1 and 0 <= parts < self.limit
        parts = 0 if parts >= limit else parts
        return max(Fraction(now), self.end - Fraction(parts, limit))

    def quota(self, limit, burst):
        return limit if burst is None else burst

    def reach(self, limit, period, burst):
        return ceil(Fraction(self.quota(limit, burst) * period, limit))

    def passes(self, now, limit, period, cost, burst=None):
        interval = Fraction(period, limit)
        return self.arrival(now, limit) + cost * interval <= now + self.quota(limit, burst) * interval

    def remaining(self, now, limit, period, burst=None):
        if limit == 0:
            return 0
        return max(0, self.quota(limit, burst) - ceil((self.arrival(now, limit) - now) * Fraction(limit, period)))

    def spend(self, now, limit, period, cost, burst=None):
        self.put(self.arrival(now, limit) + cost * Fraction(period, limit), limit)

    def wait_by_formula(self, now, limit, period, cost, burst=None):
        return ceil(self.arrival(now, limit) + (cost - self.quota(limit, burst)) * Fraction(period, limit)) - now

    # Giving back

    def stamp(self, now, limit, period, at=None, burst=None):
        return now if at is None else at

    def refund(self, stamp, now, limit, period, cost, burst=None):
        """What the hit still weighs: its intervals less the time since; nothing while someone waits for his."""
        arrival = self.arrival(now, limit)
        interval = Fraction(period, limit)
        weight = cost * interval - max(0, now - stamp)
        if weight <= 0 or arrival <= now or arrival > now + self.quota(limit, burst) * interval:
            return False
        self.put(max(Fraction(now), arrival - weight), limit)
        return True


class TokenBucket:
    """GCRA by its other name, for one limit that does not change: a bucket that refills, in fractions of a token."""

    def __init__(self, limit, period, burst):
        self.rate, self.burst = Fraction(limit, period), burst
        self.tokens, self.at = Fraction(burst), 0

    def hit(self, now, cost):
        """Whole tokens left, or minus the nanoseconds until the cost is there."""
        self.tokens = min(Fraction(self.burst), self.tokens + (now - self.at) * self.rate)
        self.at = now
        if self.tokens >= cost:
            self.tokens -= cost
            return floor(self.tokens)
        return -ceil((cost - self.tokens) / self.rate)


REFERENCES = {"fixed-window": FixedWindow, "sliding-window": SlidingWindow, "gcra": Gcra}


class Outcome:
    """What `decide` replies, and what giving back needs."""

    def __init__(self, verdict, remaining, reset, index, at, spent):
        self.verdict, self.remaining, self.reset, self.index, self.at, self.spent = (
            verdict,
            remaining,
            reset,
            index,
            at,
            spent,
        )


class ReferenceStore:
    """Several limits in one step, refunds, and reservations with what becomes of those that are given up.

    An entry is (key, quota), a quota (algorithm, amount, period in ns, burst or None), and a key has one quota. Beside
    each key's state stands what led to it: a list of changes, each with the state before and after, the last on top. A
    change that was given up is taken off once it is on top; what lies below a live change stays.
    """

    def __init__(self):
        self.keys = {}  # key -> reference
        self.changes = {}  # key -> [[before, after, given up]]

    def reference(self, key, quota):
        return self.keys.setdefault(key, REFERENCES[quota[0]]())

    def decide(self, now, entries, cost=1, mode="hit", max_wait=None):
        pairs = [(self.reference(key, quota), quota[1:]) for key, quota in entries]

        def looks(at):
            """(verdict of a hit at this instant: what would remain after it) for each limit."""
            found = []
            for reference, (limit, period, burst) in pairs:
                verdict = reference.look(at, limit, period, cost, burst)
                # One unit of cost is one unit of what remains, unless the count had been set above the limit.
                found.append(max(0, verdict - cost) if verdict >= 0 else verdict)
            return found

        verdicts, at = looks(now), now
        verdict = min(verdicts)
        index = verdicts.index(verdict)
        if NEVER < verdict < 0 and mode == "reserve" and (max_wait is None or -verdict <= max_wait):
            # A hit made at the instant that is told: it passes, and what it shows is what it would show then.
            at = now - verdict
            verdicts = looks(at)
            assert min(verdicts) >= 0
            index = verdicts.index(min(verdicts))
        spent = cost > 0 and mode != "peek" and (verdict >= 0 or at != now)
        if spent:
            for (key, _), (reference, (limit, period, burst)) in zip(entries, pairs, strict=True):
                before = self.state(key, now)
                reference.spend(at, limit, period, cost, burst)
                self.changes.setdefault(key, []).append([before, self.state(key, now), False, at])
        remaining = min(reference.remaining(at, limit, period, burst) for reference, (limit, period, burst) in pairs)
        reference, (limit, period, burst) = pairs[index]
        return Outcome(verdict, remaining, reference.reset(at, limit, period, burst), index, at, spent)

    def state(self, key, now):
        """A copy of all that a key is, None where it is absent, by which states can be compared."""
        reference = self.keys[key]
        if isinstance(reference, FixedWindow):
            return (sum(reference.live(now)), reference.end) if reference.live(now) else None
        if now >= reference.end:
            return None
        if isinstance(reference, SlidingWindow):
            return sum(reference.before), sum(reference.current), reference.end
        return reference.tat, reference.limit

    def stamps(self, entries, at):
        """To be taken right after a hit that was spent."""
        return [
            (key, quota, self.keys[key].stamp(at, quota[1], quota[2], at), self.changes[key][-1])
            for key, quota in entries
        ]

    def refund(self, now, stamps, cost):
        given = False
        for key, (_, limit, period, burst), stamp, _ in stamps:
            if self.keys[key].refund(stamp, now, limit, period, cost, burst):
                given = True
                changes, state = self.changes[key], self.state(key, now)
                # A refund in full of what lies on top leaves an earlier state: then that is what is on top.
                same = [at for at, (_, after, *_) in enumerate(changes) if after == state]
                changes[:] = changes[: same[-1] + 1] if same else [*changes, [None, state, False, now]]
        return given

    def unreserve(self, now, stamps):
        """Until the time that was told has come: then the hit has run, and its place may be another's."""
        for key, _, _, change in stamps:
            if change[3] <= now:
                continue
            change[2] = True
            if self.state(key, now) is None:
                self.changes[key].clear()
            changes = self.changes[key]
            while changes and changes[-1][2] and changes[-1][3] > now and changes[-1][1] == self.state(key, now):
                before = changes.pop()[0]
                if before is None:
                    changes.clear()
                    self.keys[key] = Gcra()
                else:
                    self.keys[key].put(*before)
