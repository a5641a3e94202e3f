-- getex with an option. ARGV: clock, TTL in ns or "" to drop it.
local now_ns = read_clock()
local deadline
if ARGV[2] ~= "" then
  deadline = deadline_after(now_ns, ARGV[2])
  if not deadline then
    return {"bad_time"}
  end
end
local state = load(KEYS[1], now_ns)
if state.kind ~= "counter" then
  return {"wrong_kind"}
end
if state.exists then
  state.deadline = deadline
  keep(KEYS[1], state, now_ns)
end
return {"ok", value_text(state)}
