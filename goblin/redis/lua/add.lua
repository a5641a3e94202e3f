-- The INCR family. ARGV: clock, amount, "+" or "-", TTL in ns (it is set on every call) or "".
local now_ns = read_clock()
local deadline
if ARGV[4] ~= "" then
  deadline = deadline_after(now_ns, ARGV[4])
  if not deadline then
    return {"bad_time"}
  end
end
local state = load(KEYS[1], now_ns)
local amount = big(ARGV[2])
local status = "overflow"
if state.kind ~= "counter" then
  status = "wrong_kind"
elseif ARGV[3] == "+" then
  status = add_to(state, amount)
elseif compare(amount, INT64_MIN) ~= 0 then -- which Redis refuses to negate, whatever the value
  status = add_to(state, sub(ZERO, amount))
end
if status ~= "ok" then
  return {status}
end
state.deadline = deadline or state.deadline
keep(KEYS[1], state, now_ns)
return {"ok", text(state.value)}
