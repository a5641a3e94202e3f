-- The three algorithms, for scripts that judge hits: the rules of the in-process store, in the same words and order.
-- Exact to the nanosecond, on a clock of microseconds; only the end of a fixed window is rounded up, to a millisecond.

local NEVER = INT64_MIN
local WORDS_OF_A_QUOTA = 5

-- From ARGV: the algorithm's kind, amount, period in ns (0: it never ends), burst, how far ahead a deadline can be set.
local function read_quota(at)
  return {
    kind = ARGV[at],
    amount = big(ARGV[at + 1]),
    period = big(ARGV[at + 2]),
    burst = big(ARGV[at + 3]),
    horizon = big(ARGV[at + 4]),
  }
end

-- limit - used, between 0 and 2^63 - 1: `used` may be negative (a counter can be set to anything).
local function room(limit, used)
  local left = sub(limit, used)
  return left.negative and ZERO or least(left, INT64_MAX)
end

-- Each takes a state, the time, a quota and a cost, and gives a verdict and, where the hit passes, the state after it.
-- A verdict's `reset` is nil for never. false: the entry is of another kind.

local function fixed_window(state, now_ns, quota, cost)
  if state.kind ~= "counter" then
    return false
  end
  local verdict, after = {}, nil
  local value, deadline = state.value, state.deadline
  local total = add(value, cost)
  local fits = compare(total, quota.amount) <= 0
  if fits and #cost > 0 then
    if not deadline and #quota.period > 0 then
      deadline = up_to_ms(add(now_ns, quota.period))
    end
    value = total
    after = put(value, deadline)
    after.running, after.has_ttl = state.running, state.has_ttl
  end
  verdict.remaining = room(quota.amount, value)
  if fits or #cost == 0 then
    verdict.result = verdict.remaining
  else
    verdict.result = deadline and sub(now_ns, deadline) or NEVER
  end
  if #quota.amount > 0 then
    if not is_positive(value) then
      verdict.reset = ZERO
    elseif deadline then
      verdict.reset = sub(deadline, now_ns)
    end
  end
  return verdict, after
end

-- Nanoseconds until the weighted count is at most `most`, which it is not now; `end_ns` is the current window's. The
-- weight falls as k, the part of the previous window that still counts, falls by one a nanosecond. If the current count
-- alone is too much, the wait goes on into the next window, where it is the previous one's.
local function sliding_wait(previous, current, end_ns, period, most, now_ns)
  local weight = previous
  if compare(current, most) > 0 then
    weight, end_ns = current, add(end_ns, period)
  else
    most = sub(most, current)
  end
  -- floor(weight x k / period) <= most  <=>  k <= ceil((most + 1) x period / weight) - 1
  local k = sub(divide_up(mul(add(most, ONE), period), weight), ONE)
  k = least(k, sub(period, ONE))
  return sub(sub(sub(end_ns, ONE), k), now_ns)
end

local function sliding_window(state, now_ns, quota, cost)
  local period = quota.period
  local previous, current, end_ns = ZERO, ZERO, add(now_ns, period)
  if state.exists then
    if state.kind ~= "sliding-window" then
      return false
    end
    previous, current, end_ns = state.previous, state.current, sub(state.deadline, period)
    if compare(now_ns, end_ns) >= 0 then -- the next window has begun
      previous, current, end_ns = current, ZERO, state.deadline
    end
  end
  local verdict, after = {}, nil
  -- Nanoseconds of the previous window later than now - period; more than that only where the period asked is not the
  -- one that set the deadline, or the clock was set back.
  local k = least(sub(sub(end_ns, ONE), now_ns), sub(period, ONE))
  local weighted = add(current, (divide(mul(previous, k), period)))
  if #cost > 0 and compare(add(weighted, cost), quota.amount) <= 0 then
    current, weighted = add(current, cost), add(weighted, cost)
    after = {exists = true, kind = "sliding-window", deadline = add(end_ns, period)}
    after.previous, after.current = previous, current
  end
  verdict.remaining = room(quota.amount, weighted)
  if after or #cost == 0 then
    verdict.result = verdict.remaining
  else
    verdict.result = sub(ZERO, sliding_wait(previous, current, end_ns, period, sub(quota.amount, cost), now_ns))
  end
  if #quota.amount > 0 then
    verdict.reset = #weighted == 0 and ZERO or sliding_wait(previous, current, end_ns, period, ZERO, now_ns)
  end
  return verdict, after
end

-- (TAT - now) x limit, exactly; 0 if the arrival time has passed. The excess is the part of a nanosecond that the
-- deadline was rounded up by; one that belongs to a larger limit counts as 0.
local function ahead_of(state, now_ns, amount)
  if not state.exists then
    return ZERO
  end
  local left = sub(state.deadline, now_ns)
  if not is_positive(left) then
    return ZERO
  end
  local ahead = mul(left, amount)
  return compare(state.excess, amount) < 0 and sub(ahead, state.excess) or ahead
end

-- The inverse: TAT = now + ahead / limit.
local function state_ahead(state, now_ns, amount, ahead)
  local whole, rest = divide(ahead, amount)
  local excess = ZERO
  if #rest > 0 then
    whole, excess = add(whole, ONE), sub(amount, rest)
  end
  local deadline = add(now_ns, whole)
  return {exists = true, kind = "gcra", deadline = deadline, excess = excess, told = state.told or ZERO}
end

local function gcra(state, now_ns, quota, cost)
  if state.exists and state.kind ~= "gcra" then
    return false
  end
  if #quota.amount == 0 then -- cost is 0: nothing can ever pass
    return {result = ZERO, remaining = ZERO}
  end
  local verdict, after = {}, nil
  local full = mul(quota.burst, quota.period)
  local ahead = ahead_of(state, now_ns, quota.amount)
  if #cost > 0 then
    local asked = add(ahead, mul(cost, quota.period))
    if compare(asked, full) > 0 then
      verdict.result = sub(ZERO, divide_up(sub(asked, full), quota.amount))
    else
      ahead = asked
      after = state_ahead(state, now_ns, quota.amount, asked)
    end
  end
  local used = compare(full, ahead) < 0 and quota.burst or divide_up(ahead, quota.period)
  verdict.remaining = sub(quota.burst, used)
  verdict.result = verdict.result or verdict.remaining
  local left = after and after.deadline or (state.exists and state.deadline)
  left = left and sub(left, now_ns) or ZERO
  verdict.reset = left.negative and ZERO or left
  return verdict, after
end

local ALGORITHMS = {["counter"] = fixed_window, ["sliding-window"] = sliding_window, ["gcra"] = gcra}

-- One hit on one limit: "ok", verdict, state after it or nil; or what is wrong.
local function judge(state, now_ns, quota, cost)
  local hopeless = #cost > 0 and (#quota.amount == 0 or compare(cost, quota.burst) > 0)
  if compare(add(now_ns, quota.horizon), HORIZON_NS) > 0 then
    return "bad_time"
  end
  local verdict, after = ALGORITHMS[quota.kind](state, now_ns, quota, hopeless and ZERO or cost)
  if not verdict then
    return "wrong_kind"
  end
  if hopeless then
    verdict.result = NEVER
  end
  return "ok", verdict, after
end
