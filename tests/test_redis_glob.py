"""Random patterns and keys: `scan_iter(match)` finds what KEYS of a real server finds.

Ranges are of ASCII here; what differs beyond, and for patterns of stars alone, is in test_redis_differences.py.
"""

import random

import goblin
from rows import as_bytes
from scale import SEED, rounds

PATTERNS_AT_ONCE = 200
KEYS = 150

IN_PATTERNS = b"aaabbc*****??[[]]^--\\\\"
PIECES = [b"*", b"?", b"[ab]", b"[^a]", b"[a-c]", b"[*-\\]]", b"a", b"b", b"\\*"]
IN_KEYS = b"aaabbbcc*?[]^-\\"
HIGH = b"\x80\xc3\xa4\xff"


def letters(rng, alphabet, most):
    return bytes(rng.choice(alphabet) for _ in range(rng.randrange(most + 1)))


def a_pattern(rng):
    """Letters at random find little, so half are a key with holes; bytes from 0x80 on come where there is no range."""
    if rng.random() < 0.5:
        pattern = letters(rng, IN_PATTERNS, 9)
    else:
        pattern = b"".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 5)))
    if b"-" not in pattern and rng.random() < 0.3:
        at = rng.randrange(len(pattern) + 1)
        pattern = pattern[:at] + bytes([rng.choice(HIGH)]) + pattern[at:]
    return pattern


def is_of_stars(pattern):
    return len(pattern) > 1 and not pattern.strip(b"*")


def test_redis_glob_random_patterns_find_the_same_keys(redis_server, redis_report):
    rng = random.Random(SEED)
    tried = found = 0
    with redis_server.connect() as ask:
        for _ in rounds(20, soak=10_000):
            keys = {b""} | {letters(rng, IN_KEYS + HIGH * (rng.random() < 0.2), 6) for _ in range(KEYS)}
            core = goblin.Counters()
            core.mset({key: 1 for key in keys})
            ask("FLUSHALL")
            ask("MSET", *(word for key in keys for word in (key, 1)))
            patterns = [a_pattern(rng) for _ in range(PATTERNS_AT_ONCE)]
            for pattern, theirs in zip(patterns, ask.pipeline([("KEYS", p) for p in patterns]), strict=True):
                ours = {as_bytes(key) for key in core.scan_iter(pattern)}
                if is_of_stars(pattern):  # Redis finds all but the empty key
                    assert b"" in ours and b"" not in theirs
                    ours.remove(b"")
                assert ours == {*theirs}, f"GOBLIN_SEED={SEED}: {pattern!r}"
                found += len(ours)
            tried += len(patterns)
    redis_report.append(f"random patterns: {tried:,} on about {KEYS} keys, {found / tried:.1f} found by each")
    assert found >= 3 * tried, "patterns that find so little prove little"
