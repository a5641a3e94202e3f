-- Give back what a hit still weighs, each limit by itself. ARGV: clock, cost, then for each key its quota and its mark:
-- the deadline that the hit left behind; under gcra its own time. Replies whether anything was given back.
local now_ns = read_clock()
local cost = big(ARGV[2])

local function taken_back(count)
  return is_positive(count) and sub(count, least(cost, count))
end

-- The state after it, or nil.
local function refunded(state, quota, mark)
  if not state.exists or state.kind ~= quota.kind or #cost == 0 then
    return nil
  end
  if quota.kind == "counter" then
    local left = compare(state.deadline or INT64_MAX, mark) == 0 and taken_back(state.value)
    if left then
      state.value = left
      return state
    end
  elseif quota.kind == "sliding-window" then
    local next_end_ns = sub(state.deadline, quota.period)
    local left
    if compare(state.deadline, mark) == 0 then
      left = taken_back(state.current) -- which is the previous one's by now, if nobody has hit since
      state.current = left or state.current
    elseif compare(next_end_ns, mark) == 0 and compare(now_ns, next_end_ns) < 0 then
      left = taken_back(state.previous)
      state.previous = left or state.previous
    end
    return left and state or nil
  else
    -- The cost's intervals less the time since the hit; not before now; not while somebody sleeps on a reservation: he
    -- has been told his time, and an earlier TAT would let others through that he leaves no room for.
    local ahead = ahead_of(state, now_ns, quota.amount)
    if compare(state.told, now_ns) > 0 or compare(mul(quota.burst, quota.period), ahead) < 0 then
      return nil
    end
    local since_ns = sub(now_ns, mark)
    local passed = is_positive(since_ns) and mul(since_ns, quota.amount) or ZERO
    local given = sub(mul(cost, quota.period), passed)
    if is_positive(given) then
      local left = sub(ahead, given)
      return state_ahead(state, now_ns, quota.amount, left.negative and ZERO or left)
    end
  end
end

local given = false
for i, key in ipairs(KEYS) do
  local at = 3 + (i - 1) * (WORDS_OF_A_QUOTA + 1)
  local quota = read_quota(at)
  local state = load(key, now_ns)
  if state.exists and state.kind == quota.kind then
    local after = refunded(state, quota, big(ARGV[at + WORDS_OF_A_QUOTA]))
    if after then
      keep(key, after, now_ns)
      given = true
    end
  end
end
return {"ok", given and "1" or "0"}
