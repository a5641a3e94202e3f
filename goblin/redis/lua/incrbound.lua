-- incrbound. ARGV: clock, delta, max, TTL in ns or "".
local now_ns = read_clock()
local deadline
if ARGV[4] ~= "" then
  deadline = deadline_after(now_ns, ARGV[4])
  if not deadline then
    return {"bad_time"}
  end
end
local state = load(KEYS[1], now_ns)
if state.kind ~= "counter" then
  return {"wrong_kind"}
end
local total = add(state.value, big(ARGV[2]))
if compare(total, big(ARGV[3])) > 0 then
  return {"refused"}
elseif not fits_int64(total) then
  return {"overflow"}
end
state.value, state.exists = total, true
state.deadline = state.deadline or deadline
keep(KEYS[1], state, now_ns)
return {"ok", text(total)}
