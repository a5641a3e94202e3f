"""What the type checkers must refuse. `# expect:` names mypy's code and pyright's rule for the line."""

from datetime import timedelta
from decimal import Decimal

import goblin

counters = goblin.Counters()

# Keys
counters.incr(5)  # expect: arg-type, reportArgumentType
counters.incr(None)  # expect: arg-type, reportArgumentType
counters.incr(("a", "b"))  # expect: arg-type, reportArgumentType
counters.get(bytearray(b"k"))  # expect: call-overload, reportArgumentType
counters.exists("a", 5)  # expect: arg-type, reportArgumentType
counters.mget("a", None)  # expect: call-overload, reportArgumentType
counters.mget([1, 2])  # expect: list-item, reportArgumentType
counters[5]  # expect: index, reportArgumentType
del counters[5]  # expect: arg-type, reportArgumentType

# Numbers
counters.incr("k", 1.5)  # expect: arg-type, reportArgumentType
counters.incr("k", "5")  # expect: arg-type, reportArgumentType
counters.incr("k", None)  # expect: arg-type, reportArgumentType
counters.decrby("k", Decimal(2))  # expect: arg-type, reportArgumentType
counters.incrbound("k", 1, 10.0)  # expect: arg-type, reportArgumentType
counters.incrbound("k", timedelta(1), 10)  # expect: arg-type, reportArgumentType
counters.most_common("3")  # expect: arg-type, reportArgumentType

# Times
counters.increx("k", 0.5)  # expect: arg-type, reportArgumentType
counters.increx("k", None)  # expect: arg-type, reportArgumentType
counters.pexpire("k", "60")  # expect: arg-type, reportArgumentType
counters.incr("k", ex=0.5)  # expect: arg-type, reportArgumentType

# Values
counters.set("k", 1.5)  # expect: call-overload, reportArgumentType
counters.getset("k", None)  # expect: arg-type, reportArgumentType
counters.mset({"k": 1.5})  # expect: dict-item, reportArgumentType
counters.mset([("k", 1)])  # expect: arg-type, reportArgumentType

# Missing, surplus, misnamed; options by position
counters.increx("k")  # expect: call-arg, reportCallIssue
counters.incrbound("k", 1)  # expect: call-arg, reportCallIssue
counters.increx("k", 60, 5)  # expect: call-arg, reportCallIssue
counters.increx("k", ttl=60)  # expect: call-arg, reportCallIssue
counters.incr("k", 1, 60)  # expect: call-arg, reportCallIssue
counters.incrbound("k", 1, 10, 60)  # expect: call-arg, reportCallIssue
counters.expire("k", 60, True)  # expect: call-arg, reportCallIssue
counters.set("k", 1, 60)  # expect: call-overload, reportCallIssue
goblin.Counters(goblin.ManualClock())  # expect: call-arg, reportCallIssue
goblin.Counters(capacity=5)  # expect: call-arg, reportCallIssue
goblin.Counters(max_keys="5")  # expect: arg-type, reportArgumentType
goblin.Counters(on_full="drop")  # expect: arg-type, reportArgumentType
goblin.Counters(clock=5)  # expect: arg-type, reportArgumentType

# Replies
refused: None = counters.incrbound("k", 1, 10)  # expect: assignment, reportAssignmentType
total: int = counters.get("k")  # expect: assignment, reportAssignmentType
old: bool = counters.set("k", 1, get=True)  # expect: assignment, reportAssignmentType
counters["k"] = 5  # expect: index, reportIndexIssue
counters.stats().keys = 5  # expect: misc, reportAttributeAccessIssue
counters.colour = 5  # expect: attr-defined, reportAttributeAccessIssue
