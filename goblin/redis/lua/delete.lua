-- delete: how many were there. ARGV: clock.
local now_ns = read_clock()
local removed = 0
for _, key in ipairs(KEYS) do
  if load(key, now_ns).exists then
    removed = removed + 1
  end
  redis.call("DEL", key)
end
return {"ok", string.format("%d", removed)}
