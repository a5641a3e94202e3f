-- persist. ARGV: clock.
local now_ns = read_clock()
local state = load(KEYS[1], now_ns)
if state.kind ~= "counter" then
  return {"wrong_kind"}
elseif not state.deadline then
  return {"refused"}
end
state.deadline = nil
keep(KEYS[1], state, now_ns)
return {"ok"}
