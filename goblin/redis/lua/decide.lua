-- One hit on several limits, all or nothing. ARGV: clock, cost, mode, longest wait in ns or "", then a quota for each
-- key. Replies verdict, what remains, reset (-1: never), which limit decided, when the hit counts, and whether it was
-- spent; then, where it was, three words a key: what refund() needs to know, and under gcra the state before and after.
local now_ns = read_clock()
local cost, mode = big(ARGV[2]), ARGV[3]
local quotas, before = {}, {}
for i, key in ipairs(KEYS) do
  quotas[i] = read_quota(5 + (i - 1) * WORDS_OF_A_QUOTA)
  before[i] = load(key, now_ns)
end

-- What a hit at that instant would get from every limit. The smallest verdict decides, the first named on a tie.
local function judge_all(at_ns)
  local decided = {after = {}, at_ns = at_ns}
  for i = 1, #KEYS do
    local status, verdict, after = judge(before[i], at_ns, quotas[i], cost)
    if status ~= "ok" then
      return nil, {status, string.format("%d", i - 1)}
    end
    decided.after[i] = after
    if i == 1 or compare(verdict.result, decided.verdict.result) < 0 then
      decided.verdict, decided.index = verdict, i
    end
  end
  return decided
end

local decided, wrong = judge_all(now_ns)
if wrong then
  return wrong
end
local result = decided.verdict.result
local spent = mode ~= "peek" and #cost > 0 and not result.negative
if mode == "reserve" and #cost > 0 and result.negative and compare(result, NEVER) ~= 0 then
  local wait = sub(ZERO, result)
  if ARGV[4] == "" or compare(wait, big(ARGV[4])) <= 0 then
    -- When the longest wait is over, every limit admits. An instant beyond the clock's end never comes.
    local later = judge_all(add(now_ns, wait))
    if later then
      decided, spent = later, true
      for i = 1, #KEYS do
        later.after[i].told = later.at_ns
      end
    else
      result = NEVER
    end
  end
end

local remaining, reset = decided.verdict.remaining, decided.verdict.reset
if not spent then -- the least that remains as it is, and the deciding limit's reset as it is
  for i = 1, #KEYS do
    local _, verdict = judge(before[i], now_ns, quotas[i], ZERO)
    if i == 1 or compare(verdict.remaining, remaining) < 0 then
      remaining = verdict.remaining
    end
    if i == decided.index then
      reset = verdict.reset
    end
  end
end

local reply = {
  "ok", text(result), text(remaining), reset and text(reset) or "-1", string.format("%d", decided.index - 1),
  text(decided.at_ns), spent and "1" or "0",
}

local function state_text(state)
  if not state.exists then
    return ""
  end
  return table.concat({text(state.deadline), text(state.excess), text(state.told)}, ":")
end

if spent then
  for i, key in ipairs(KEYS) do
    local after = decided.after[i]
    keep(key, after, now_ns)
    local mark = quotas[i].kind == "gcra" and decided.at_ns or after.deadline or INT64_MAX
    reply[#reply + 1] = text(mark)
    reply[#reply + 1] = mode == "reserve" and state_text(before[i]) or ""
    reply[#reply + 1] = mode == "reserve" and state_text(after) or ""
  end
end
return reply
