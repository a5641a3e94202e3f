-- increx, pincrex. ARGV: clock, TTL in ns.
local now_ns = read_clock()
local deadline = deadline_after(now_ns, ARGV[2])
if not deadline then
  return {"bad_time"}
end
local state = load(KEYS[1], now_ns)
local status = add_to(state, ONE)
if status ~= "ok" then
  return {status}
end
if not state.deadline and compare(state.value, ONE) == 0 then
  state.deadline = deadline
end
keep(KEYS[1], state, now_ns)
return {"ok", text(state.value)}
