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
local floor, format, cut = math.floor, string.format, string.sub

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
  local negative = cut(digits, 1, 1) == "-"
  local n, count = {negative = negative}, 0
  local first, last = negative and 2 or 1, #digits
  while last >= first do
    local from = last - DIGITS + 1
    count = count + 1
    n[count] = tonumber(cut(digits, from > first and from or first, last))
    last = last - DIGITS
  end
  return trim(n)
end

local function text(n)
  if #n == 0 then
    return "0"
  end
  local digits = (n.negative and "-" or "") .. n[#n]
  for i = #n - 1, 1, -1 do
    digits = digits .. format("%07d", n[i])
  end
  return digits
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
      carry = floor(limb / BASE)
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

-- The product of n and a number below BASE.
local function scaled(n, factor)
  local product, carry = {negative = false}, 0
  for i = 1, #n do
    local limb = n[i] * factor + carry
    carry = floor(limb / BASE)
    product[i] = limb - carry * BASE
  end
  product[#n + 1] = carry
  return trim(product)
end

-- Quotient, rounded down, and rest, of a >= 0 and b > 0: long division, a limb at a time. A double guesses each limb of
-- the quotient to within one; where b is one limb, it is exact.
local function divide(a, b)
  local quotient, rest = {negative = false}, {negative = false}
  if #b == 1 then
    local divisor, over = b[1], 0
    for i = #a, 1, -1 do
      local dividend = over * BASE + a[i]
      quotient[i] = floor(dividend / divisor)
      over = dividend - quotient[i] * divisor
    end
    rest[1] = over
    return trim(quotient), trim(rest)
  end
  for i = #a, 1, -1 do
    table.insert(rest, 1, a[i])
    trim(rest)
    local guess = 0
    if #rest >= #b then
      local high, high_limbs = leading(rest)
      local low, low_limbs = leading(b)
      guess = floor(high / low * BASE ^ (high_limbs - low_limbs))
      if guess > 0 then
        local taken = scaled(b, guess)
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

local ZERO, ONE = {negative = false}, {1, negative = false}

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

local INT64_MAX = {4775807, 7203685, 92233, negative = false} -- 9,223,372,036,854,775,807
local INT64_MIN = {4775808, 7203685, 92233, negative = true}
local HORIZON_NS = {4775806, 7203685, 92233, negative = false} -- the last instant that a deadline may have

local function fits_int64(n)
  return #n <= 2 or (compare(n, INT64_MAX) <= 0 and compare(n, INT64_MIN) >= 0)
end

-- ---- times ---------------------------------------------------------------------------------------------------------

local NS_PER_MS = 1000000

-- Nanoseconds of a whole number of microseconds or milliseconds, exact as doubles.
local function ns_of(count, ns_per_unit)
  local units_per_limb = BASE / ns_per_unit
  local above = floor(count / units_per_limb)
  return trim({
    (count - above * units_per_limb) * ns_per_unit, above % BASE, floor(above / BASE), negative = false,
  })
end

-- A whole number of microseconds: that is what the server's clock reads.
local function read_clock()
  local microseconds = tonumber(ARGV[1])
  if not microseconds then
    local reading = redis.call("TIME")
    microseconds = tonumber(reading[1]) * 1000000 + tonumber(reading[2])
  end
  return ns_of(microseconds, 1000)
end

local function up_to_ms(ns)
  local over = (ns[1] or 0) % NS_PER_MS
  return over == 0 and ns or add(ns, {NS_PER_MS - over, negative = false})
end

-- Milliseconds in words, rounded up, of positive nanoseconds.
local function ms_text(ns)
  return cut(text(up_to_ms(ns)), 1, -7)
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
  local kind, deadline, first, second = string.match(raw, "^(%a[%a-]*):(%d+):(%d+):(%d+)$")
  if kind == "sliding-window" then
    return {exists = true, kind = kind, deadline = big(deadline), previous = big(first), current = big(second)}
  elseif kind == "gcra" then
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
      state.deadline = least(ns_of(deadline_ms, NS_PER_MS), HORIZON_NS)
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
  redis.call("SET", key, raw, "PXAT", ms_text(state.deadline))
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
