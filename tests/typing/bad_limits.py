"""What the type checkers must refuse of limits and limiters. `# expect:` as in bad_counters.py."""

import goblin

counters = goblin.Counters()

counters.fixed_window("k", 10)  # expect: call-arg, reportCallIssue
counters.fixed_window("k", 1.5, 60)  # expect: arg-type, reportArgumentType
counters.fixed_window("k", "10/minute", 60)  # expect: arg-type, reportArgumentType
counters.sliding_window("k", 10, None)  # expect: arg-type, reportArgumentType
counters.gcra("k", 10, 60, 1, 20)  # expect: call-arg, reportCallIssue
counters.gcra(("a", 5), 10, 60)  # expect: arg-type, reportArgumentType
counters.decide([("k", ("fixed-window", 10))])  # expect: list-item, reportArgumentType

goblin.Limit("10/minute")  # expect: call-arg, reportCallIssue
goblin.Limit("10", 60)  # expect: arg-type, reportArgumentType
goblin.Limit.parse(10)  # expect: arg-type, reportArgumentType
goblin.Limit(10, 60).burst = 5.5  # expect: assignment, reportAttributeAccessIssue

goblin.RateLimiter(10)  # expect: arg-type, reportArgumentType
goblin.RateLimiter("10/minute", "gcra")  # expect: call-arg, reportCallIssue
goblin.RateLimiter("10/minute", name=5)  # expect: arg-type, reportArgumentType

limiter = goblin.RateLimiter("10/minute")
limiter.hit(1.5)  # expect: arg-type, reportArgumentType
limiter.hit(None)  # expect: arg-type, reportArgumentType
limiter.hit("ann", "2")  # expect: arg-type, reportArgumentType
limiter.refund(5)  # expect: arg-type, reportArgumentType
limiter.acquire("ann", 1, 5)  # expect: call-arg, reportCallIssue
limiter.hit("ann").remaining = 5  # expect: misc, reportAttributeAccessIssue
limiter.limits = ()  # expect: misc, reportAttributeAccessIssue
count: int = limiter.hit("ann")  # expect: assignment, reportAssignmentType
goblin.Decision(True)  # expect: arg-type, reportArgumentType
