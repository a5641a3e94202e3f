-- set, getset. ARGV: clock, value, TTL in ns or "", options in words. Replies the old value, and whether it was stored.
local function asked(option)
  return string.find(ARGV[4], option, 1, true) ~= nil
end

local now_ns = read_clock()
local deadline
if ARGV[3] ~= "" then
  deadline = deadline_after(now_ns, ARGV[3])
  if not deadline then
    return {"bad_time"}
  end
end
local state = load(KEYS[1], now_ns)
if state.kind ~= "counter" and (asked("keepttl") or asked("get")) then
  return {"wrong_kind"}
end
local refused = (asked("nx") and state.exists) or (asked("xx") and not state.exists)
if not refused then
  keep(KEYS[1], put(big(ARGV[2]), asked("keepttl") and state.deadline or deadline), now_ns)
end
return {"ok", state.kind == "counter" and value_text(state) or "", refused and "0" or "1"}
