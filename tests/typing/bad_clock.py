"""What the type checkers must refuse of a clock. `# expect:` as in bad_counters.py."""

import goblin

clock = goblin.ManualClock()

clock.now_ns = 5  # expect: misc, reportAttributeAccessIssue
clock.advance("1")  # expect: arg-type, reportArgumentType
clock.advance(None)  # expect: arg-type, reportArgumentType
clock.advance_ns(0.5)  # expect: arg-type, reportArgumentType
clock.advance()  # expect: call-arg, reportCallIssue
goblin.ManualClock(0.5)  # expect: arg-type, reportArgumentType
goblin.ManualClock(1, 2)  # expect: call-arg, reportCallIssue
goblin.ManualClock(start=1)  # expect: call-arg, reportCallIssue
