-- expire, pexpire. ARGV: clock, TTL in ns, flags in words. No TTL counts as infinitely late.
local function asked(flag)
  return string.find(ARGV[3], flag, 1, true) ~= nil
end

local now_ns = read_clock()
local deadline = deadline_after(now_ns, ARGV[2])
if not deadline then
  return {"bad_time"}
end
local state = load(KEYS[1], now_ns)
if not state.exists then
  return {"refused"}
elseif state.kind ~= "counter" then
  return {"wrong_kind"}
end
local running = state.deadline
local refused
if running then
  refused = asked("nx")
    or (asked("gt") and compare(deadline, running) <= 0)
    or (asked("lt") and compare(deadline, running) >= 0)
else
  refused = asked("xx") or asked("gt")
end
if refused then
  return {"refused"}
end
state.deadline = deadline
keep(KEYS[1], state, now_ns)
return {"ok"}
