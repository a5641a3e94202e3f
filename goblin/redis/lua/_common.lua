-- What every script begins with: exact numbers, the clock, and what lies under a key.
--
-- A script is one atomic step: it reads the clock once, loads the entries that it was given, judges, and keeps what has
-- changed. Bad arguments never come here: Python refuses them. ARGV[1] is "" for the server's clock; tests put
-- microseconds there.

-- ---- exact numbers -------------------------------------------------------------------------------------------------
--
-- Lua's own numbers are doubles, exact up to 2^53 only. These are whole numbers of any size: limbs of seven digits, the
-- lowest first, with a sign. Two limbs' product and a sum of such stay below 2^53. Zero has no limbs. Never changed
-- once they are made, so they can be shared.

local BASE, DIGITS = 10000000, 7

local function trim(n)
  while n[#n] == 0 do
    n[#n] = nil
  end
  if #n == 0 then
    n.negative = false
  end
  return n
end

local function big(digits)
  local n = {negative = string.sub(digits, 1, 1) == "-"}
  local first = n.negative and 2 or 1
  local last = #digits
  while last >= first do
    n[#n + 1] = tonumber(string.sub(digits, math.max(first, last - DIGITS + 1), last))
    last = last - DIGITS
  end
  return trim(n)
end

local function text(n)
  if #n == 0 then
    return "0"
  end
  local parts = {n.negative and "-" or "", string.format("%d", n[#n])}
  for i = #n - 1, 1, -1 do
    parts[#parts + 1] = string.format("%07d", n[i])
  end
  return table.concat(parts)
end

local function compare_sizes(a, b)
  if #a ~= #b then
    return #a < #b and -1 or 1
  end
  for i = #a, 1, -1 do
    if a[i] ~= b[i] then
      return a[i] < b[i] and -1 or 1
    end
  end
  return 0
end

-- -1, 0 or 1, as a is below, equal to or above b.
local function compare(a, b)
  if a.negative ~= b.negative then
    return a.negative and -1 or 1
  end
  local order = compare_sizes(a, b)
  return a.negative and -order or order
end

local function sum_of_sizes(a, b, negative)
  local sum, carry = {negative = negative}, 0
  for i = 1, math.max(#a, #b) do
    local limb = (a[i] or 0) + (b[i] or 0) + carry
    carry = limb >= BASE and 1 or 0
    sum[i] = limb - carry * BASE
  end
  if carry > 0 then
    sum[#sum + 1] = carry
  end
  return sum
end

-- a must not be the smaller one.
local function difference_of_sizes(a, b, negative)
  local difference, borrow = {negative = negative}, 0
  for i = 1, #a do
    local limb = a[i] - (b[i] or 0) - borrow
    borrow = limb < 0 and 1 or 0
    difference[i] = limb + borrow * BASE
  end
  return trim(difference)
end

local function add_signed(a, b, b_negative)
  if a.negative == b_negative then
    return sum_of_sizes(a, b, a.negative)
  elseif compare_sizes(a, b) >= 0 then
    return difference_of_sizes(a, b, a.negative)
  end
  return difference_of_sizes(b, a, b_negative)
end

local function add(a, b)
  return add_signed(a, b, b.negative)
end

local function sub(a, b)
  return add_signed(a, b, #b > 0 and not b.negative)
end

local function mul(a, b)
  local product = {negative = a.negative ~= b.negative}
  for i = 1, #a + #b do
    product[i] = 0
  end
  for i = 1, #a do
    local carry = 0
    for j = 1, #b do
      local limb = product[i + j - 1] + a[i] * b[j] + carry
      carry = math.floor(limb / BASE)
      product[i + j - 1] = limb - carry * BASE
    end
    product[i + #b] = carry
  end
  return trim(product)
end

-- The three highest limbs as one number, more digits than a double holds, and how many limbs there are.
local function leading(n)
  local top = #n
  return (n[top] * BASE + (n[top - 1] or 0)) * BASE + (n[top - 2] or 0), top
end

-- Quotient, rounded down, and rest, of a >= 0 and b > 0: long division, a limb at a time. A double guesses each limb of
-- the quotient to within one.
local function divide(a, b)
  local quotient, rest = {negative = false}, {negative = false}
  for i = #a, 1, -1 do
    table.insert(rest, 1, a[i])
    trim(rest)
    local guess = 0
    if #rest >= #b then
      local high, high_limbs = leading(rest)
      local low, low_limbs = leading(b)
      guess = math.floor(high / low * BASE ^ (high_limbs - low_limbs))
      if guess > 0 then
        local taken = mul(b, big(string.format("%.0f", guess)))
        if compare_sizes(taken, rest) > 0 then
          guess = guess - 1
          taken = difference_of_sizes(taken, b, false)
        end
        rest = difference_of_sizes(rest, taken, false)
      end
      if compare_sizes(rest, b) >= 0 then
        guess = guess + 1
        rest = difference_of_sizes(rest, b, false)
      end
    end
    quotient[i] = guess
  end
  return trim(quotient), rest
end

local ZERO, ONE = big("0"), big("1")

local function divide_up(a, b)
  local quotient, rest = divide(a, b)
  return #rest > 0 and add(quotient, ONE) or quotient
end

local function is_positive(n)
  return #n > 0 and not n.negative
end

local function least(a, b)
  return compare(a, b) <= 0 and a or b
end

local INT64_MAX = big("9223372036854775807")
local INT64_MIN = big("-9223372036854775808")
local HORIZON_NS = big("9223372036854775806") -- the last instant that a deadline may have

local function fits_int64(n)
  return #n <= 2 or (compare(n, INT64_MAX) <= 0 and compare(n, INT64_MIN) >= 0)
end

-- ---- times ---------------------------------------------------------------------------------------------------------

local NS_PER_MS = big("1000000")

-- Nanoseconds, a whole number of microseconds: that is what the server's clock reads.
local function read_clock()
  local microseconds = ARGV[1]
  if microseconds == "" then
    local reading = redis.call("TIME")
    microseconds = reading[1] .. string.rep("0", 6 - #reading[2]) .. reading[2]
  end
  return big(microseconds .. "000")
end

local function up_to_ms(ns)
  return mul(divide_up(ns, NS_PER_MS), NS_PER_MS)
end

-- The deadline of a counter: the server keeps it in milliseconds, so it is rounded up; false: beyond the horizon. A
-- time that is not positive gives one that has passed: whoever keeps it removes the key.
local function deadline_after(now_ns, ttl_ns)
  local deadline_ns = add(now_ns, big(ttl_ns))
  if compare(deadline_ns, HORIZON_NS) > 0 then
    return false
  end
  return compare(deadline_ns, now_ns) <= 0 and deadline_ns or up_to_ms(deadline_ns)
end

-- ---- what lies under a key -----------------------------------------------------------------------------------------
--
-- A counter is a string that INCR takes, with the server's own TTL. What a limiter keeps is a string that INCR refuses:
-- `sliding-window:DEADLINE:PREVIOUS:CURRENT` and `gcra:DEADLINE:EXCESS:TOLD`, where the deadline is exact, in
-- nanoseconds, and judged here; the server's own TTL, in milliseconds, is never earlier and only frees the memory.
-- Anything else is foreign: goblin has not put it there.

local function absent()
  return {exists = false, kind = "counter", value = ZERO}
end

local function is_counter(raw)
  return raw == "0" or (#raw <= 20 and string.match(raw, "^%-?[1-9]%d*$") ~= nil and fits_int64(big(raw)))
end

local function parse(raw)
  local kind, deadline, first, second = string.match(raw, "^(sliding%-window):(%d+):(%d+):(%d+)$")
  if kind then
    return {exists = true, kind = kind, deadline = big(deadline), previous = big(first), current = big(second)}
  end
  kind, deadline, first, second = string.match(raw, "^(gcra):(%d+):(%d+):(%d+)$")
  if kind then
    return {exists = true, kind = kind, deadline = big(deadline), excess = big(first), told = big(second)}
  end
end

local function load(key, now_ns)
  local raw = redis.pcall("GET", key)
  if raw == false then
    return absent()
  end
  local state = type(raw) == "string" and parse(raw)
  if not state then
    local is_ours = type(raw) == "string" and is_counter(raw)
    state = {exists = true, kind = is_ours and "counter" or "foreign", value = is_ours and big(raw) or ZERO}
    local deadline_ms = redis.call("PEXPIRETIME", key)
    if deadline_ms >= 0 then
      state.deadline = least(big(string.format("%.0f", deadline_ms) .. "000000"), HORIZON_NS)
    end
    state.running = state.deadline
    state.has_ttl = true -- the server's, which can be left as it is
  end
  if state.deadline and compare(state.deadline, now_ns) <= 0 then
    return absent() -- the server lets go of it a moment later
  end
  return state
end

local function keep(key, state, now_ns)
  if not state.exists or (state.deadline and compare(state.deadline, now_ns) <= 0) then
    redis.call("DEL", key)
    return
  end
  local raw
  if state.kind == "sliding-window" then
    raw = table.concat({state.kind, text(state.deadline), text(state.previous), text(state.current)}, ":")
  elseif state.kind == "gcra" then
    raw = table.concat({state.kind, text(state.deadline), text(state.excess), text(state.told)}, ":")
  else
    raw = text(state.value)
    if state.has_ttl and state.running == state.deadline then
      redis.call("SET", key, raw, "KEEPTTL")
      return
    elseif not state.deadline then
      redis.call("SET", key, raw)
      return
    end
  end
  redis.call("SET", key, raw, "PXAT", text(divide_up(state.deadline, NS_PER_MS)))
end

-- What SET does: a counter of this value, whatever was there.
local function put(value, deadline)
  return {exists = true, kind = "counter", value = value, deadline = deadline or nil}
end

local function add_to(state, amount)
  if state.kind ~= "counter" then
    return "wrong_kind"
  end
  local total = add(state.value, amount)
  if not fits_int64(total) then
    return "overflow"
  end
  state.value, state.exists = total, true
  return "ok"
end

-- The old value as GET and its kin reply it: "" for an absent key.
local function value_text(state)
  return state.exists and text(state.value) or ""
end
