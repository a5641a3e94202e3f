-- getdel. ARGV: clock.
local now_ns = read_clock()
local state = load(KEYS[1], now_ns)
if state.kind ~= "counter" then
  return {"wrong_kind"}
end
redis.call("DEL", KEYS[1])
return {"ok", value_text(state)}
