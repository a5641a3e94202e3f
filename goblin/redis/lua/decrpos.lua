-- decrpos. ARGV: clock.
local now_ns = read_clock()
local state = load(KEYS[1], now_ns)
if state.kind ~= "counter" then
  return {"wrong_kind"}
elseif not is_positive(state.value) then
  return {"refused"}
end
state.value = sub(state.value, ONE)
keep(KEYS[1], state, now_ns)
return {"ok", text(state.value)}
