"""Redis' glob rules on bytes, read once into steps: what `scan_iter(match=...)` means, in the model.

    *        any bytes, also none          [abc]  [a-z]  [z-a]   one of these; a range may be written either way round
    ?        any one byte                  [^abc]                one byte that is not one of these
    \\x       x itself, inside [] too       [abc   (no end)       reads as if closed at the end; `[]` matches nothing

A backslash that ends the pattern stands for itself. Inside brackets a `]` always closes (also as the first), and
`x-y` is a range whatever y is, so `[a-]` is the unclosed range from `]` to `a`. Bytes compare as unsigned numbers.
"""

ANY_RUN = None  # the step that `*` becomes; every other step is the set of bytes it accepts
ANY_BYTE = frozenset(range(256))


def compile_glob(pattern: bytes) -> list:
    steps, at = [], 0
    while at < len(pattern):
        char = pattern[at : at + 1]
        at += 1
        if char == b"*":
            steps.append(ANY_RUN)
        elif char == b"?":
            steps.append(ANY_BYTE)
        elif char == b"[":
            accepted, at = read_brackets(pattern, at)
            steps.append(accepted)
        else:
            if char == b"\\" and at < len(pattern):
                char = pattern[at : at + 1]
                at += 1
            steps.append(frozenset(char))
    return steps


def read_brackets(pattern: bytes, at: int) -> tuple[frozenset, int]:
    """The set of bytes, and where the pattern goes on, from just behind the `[`."""
    negated = pattern[at : at + 1] == b"^"
    at += negated
    accepted = set()
    while at < len(pattern):
        if pattern[at] == ord("\\") and at + 1 < len(pattern):
            accepted.add(pattern[at + 1])
            at += 2
        elif pattern[at] == ord("]"):
            at += 1
            break
        elif at + 2 < len(pattern) and pattern[at + 1] == ord("-"):
            low, high = sorted((pattern[at], pattern[at + 2]))
            accepted.update(range(low, high + 1))
            at += 3
        else:
            accepted.add(pattern[at])
            at += 1
    return frozenset(ANY_BYTE - accepted if negated else accepted), at


def matches(steps: list, data: bytes) -> bool:
    """Whether all of `data` fits, in at most len(data) * len(steps) tries.

    After a `*` the shortest run is tried first; when a later step fails, only the *last* `*` takes one byte more. The
    earlier ones need no second chance, since whatever they could give up the last one can take: no exponential search.
    """
    step = at = 0
    star, resume = -1, 0
    while at < len(data):
        if step < len(steps) and steps[step] is ANY_RUN:
            if step == len(steps) - 1:
                return True
            star, resume = step, at
            step += 1
        elif step < len(steps) and data[at] in steps[step]:
            step += 1
            at += 1
        elif star >= 0:
            resume += 1
            step, at = star + 1, resume
        else:
            return False
    return all(rest is ANY_RUN for rest in steps[step:])
