"""The exact numbers of the scripts against Python's own: random ones, and those at the edges of limbs and int64."""

import random

from goblin.redis import _client
from redis_stores import client  # noqa: F401 - a fixture
from scale import SEED, size

EDGES = [
    base + step
    for base in (0, 10**7, 10**14, 10**21, 2**31, 2**53, 2**63, 2**64, 2**127, 10**7 * (10**7 - 1))
    for step in (-2, -1, 0, 1, 2)
]
# Words come in threes, "operation a b"; a reply for each.
PROGRAM = b"""
local replies = {}
for i = 1, #ARGV, 3 do
  local operation, a, b = ARGV[i], big(ARGV[i + 1]), big(ARGV[i + 2])
  local reply
  if operation == "text" then
    reply = text(a)
  elseif operation == "compare" then
    reply = string.format("%d", compare(a, b))
  elseif operation == "add" then
    reply = text(add(a, b))
  elseif operation == "sub" then
    reply = text(sub(a, b))
  elseif operation == "mul" then
    reply = text(mul(a, b))
  elseif operation == "fits" then
    reply = fits_int64(a) and "1" or "0"
  elseif operation == "divide_up" then
    reply = text(divide_up(a, b))
  else
    local quotient, rest = divide(a, b)
    reply = text(quotient) .. " " .. text(rest)
  end
  replies[#replies + 1] = reply
end
return replies
"""


def expected(operation, a, b):
    return {
        "text": lambda: f"{a}",
        "compare": lambda: f"{(a > b) - (a < b)}",
        "add": lambda: f"{a + b}",
        "sub": lambda: f"{a - b}",
        "mul": lambda: f"{a * b}",
        "fits": lambda: f"{int(-(2**63) <= a < 2**63)}",
        "divide": lambda: f"{a // b} {a % b}",
        "divide_up": lambda: f"{-(-a // b)}",
    }[operation]()


def check(client, rows):  # noqa: F811
    script = client.register_script(_client._TEXTS["now"].rpartition(b"\n--")[0] + PROGRAM)
    replies = script(args=[word for row in rows for word in row])
    for row, reply in zip(rows, replies, strict=True):
        assert reply.decode() == expected(*row), row


def rows_of(pairs):
    for a, b in pairs:
        yield from ((operation, a, b) for operation in ("text", "compare", "add", "sub", "mul", "fits"))
        if b:
            yield from ((operation, abs(a), abs(b)) for operation in ("divide", "divide_up"))


def test_numbers_at_every_edge_are_exact(client):  # noqa: F811
    signed = [*EDGES, *(-edge for edge in EDGES)]
    for a in signed:
        check(client, list(rows_of((a, b) for b in signed)))


def test_numbers_at_random_are_exact(client):  # noqa: F811
    print(f"GOBLIN_SEED={SEED}")
    rng = random.Random(SEED)

    def number():
        # Long runs of nines and zeros are where a guessed limb of a quotient is off by one.
        digits = "".join(rng.choice(["0" * 7, "9" * 7, f"{rng.randrange(10**7):07}"]) for _ in range(rng.randint(1, 6)))
        return int(digits[rng.randint(0, 6) :] or "0") * rng.choice([1, 1, -1])

    for _ in range(size(20, soak=20_000)):
        check(client, list(rows_of((number(), number()) for _ in range(100))))
