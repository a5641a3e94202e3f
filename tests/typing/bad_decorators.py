"""What the type checkers must refuse of decorated functions. `# expect:` as in bad_counters.py."""

import goblin


@goblin.rate_limit("5/minute")
def plain(a: int, *, b: str = "") -> bytes:
    return b.encode() * a


plain("1")  # expect: arg-type, reportArgumentType
plain()  # expect: call-arg, reportCallIssue
plain(1, "x")  # expect: call-arg, reportCallIssue
plain(1, c="x")  # expect: call-arg, reportCallIssue
plain.reset("x")  # expect: arg-type, reportArgumentType
text: str = plain(1)  # expect: assignment, reportAssignmentType


@goblin.rate_limit("5/minute")
async def coroutine(a: int) -> bytes:
    return b"x" * a


result: bytes = coroutine(1)  # expect: assignment, reportAssignmentType

goblin.rate_limit()  # expect: call-overload, reportCallIssue
goblin.rate_limit(5)  # expect: call-overload, reportArgumentType
goblin.rate_limit("5/minute", on_limit="sleep")  # expect: call-overload, reportArgumentType
goblin.rate_limit("5/minute", "user:{user}")  # expect: call-overload, reportCallIssue
goblin.quota(5)  # expect: call-overload, reportCallIssue
