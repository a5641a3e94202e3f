-- Three words for each key: its kind, "" where it is absent; a counter's value; and the milliseconds left, rounded up,
-- -1 without a TTL, -2 where it is absent. ARGV: clock.
local now_ns = read_clock()
local found = {"ok"}
for i, key in ipairs(KEYS) do
  local state = load(key, now_ns)
  found[3 * i - 1] = state.exists and state.kind or ""
  found[3 * i] = state.kind == "counter" and value_text(state) or ""
  if not state.exists then
    found[3 * i + 1] = "-2"
  else
    found[3 * i + 1] = state.deadline and ms_text(sub(state.deadline, now_ns)) or "-1"
  end
end
return found
