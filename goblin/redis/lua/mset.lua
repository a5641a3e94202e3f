-- mset. ARGV: clock, then a value for each key.
local now_ns = read_clock()
for i, key in ipairs(KEYS) do
  keep(key, put(big(ARGV[i + 1])), now_ns)
end
return {"ok"}
