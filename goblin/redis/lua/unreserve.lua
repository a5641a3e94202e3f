-- Give reservations up. ARGV: clock, then for each key how many slots this process has given up there, and for each of
-- them the state after it, the state before it ("" for none), and the time that was told. As long as the state is the
-- one after a given-up slot whose time has not come, it is put back to the one before. Replies the clock, then for each
-- key how many were put back, and their numbers from 0.
local now_ns = read_clock()
local reply = {"ok", text(now_ns)}

local function numbers(words)
  local deadline, excess, told = string.match(words, "^(%d+):(%d+):(%d+)$")
  return {exists = true, kind = "gcra", deadline = big(deadline), excess = big(excess), told = big(told)}
end

local at = 2
for _, key in ipairs(KEYS) do
  local slots = {}
  for i = 1, tonumber(ARGV[at]) do
    slots[i] = {after = numbers(ARGV[at + 1]), before = ARGV[at + 2], told = big(ARGV[at + 3])}
    at = at + 3
  end
  at = at + 1
  local put_back = {}
  local state = load(key, now_ns)
  local found = true
  while found and state.exists and state.kind == "gcra" do
    found = false
    for i, slot in ipairs(slots) do
      if
        not slot.used
        and compare(slot.told, now_ns) > 0
        and compare(slot.after.deadline, state.deadline) == 0
        and compare(slot.after.excess, state.excess) == 0
      then
        slot.used, found = true, true
        put_back[#put_back + 1] = string.format("%d", i - 1)
        state = slot.before == "" and absent() or numbers(slot.before)
        break
      end
    end
  end
  if #put_back > 0 then
    keep(key, state, now_ns)
  end
  reply[#reply + 1] = string.format("%d", #put_back)
  for _, number in ipairs(put_back) do
    reply[#reply + 1] = number
  end
end
return reply
