-- Appends the indices first..last to a list.
--   KEYS[1]  list
--   KEYS[2]  its meta hash
--   ARGV[1]  see prelude.lua
--   ARGV[2]  history for which the segment was allocated
--   ARGV[3]  first index
--   ARGV[4]  last index
--   ARGV[5]  cap: a list that holds this many is not pushed to
--   returns  "ok", or why nothing was pushed: "history", "highwater", "full"
--   errors   see prelude.lua

local list, meta = KEYS[1], KEYS[2]
local first, last = tonumber(ARGV[3]), tonumber(ARGV[4])
local w, _, life = guard(list, meta)
if life ~= ARGV[2] then
  return 'history'
end
if first <= tonumber(w) then
  return 'highwater'
end
if redis.call('LLEN', list) >= tonumber(ARGV[5]) then
  return 'full'
end

-- Before the indices: were the script to end in between, w would be too high,
-- which costs a gap. The other way round costs the promise.
redis.call('HSET', meta, 'w', ARGV[4])

-- Formatting a number costs twice as much as the rest of a push together, so a
-- hundred indices share one head. %.0f, as tostring() gives an exponent.
local tail = {}
for i = 0, 99 do
  tail[i] = string.format('%02d', i)
end
local chunk, n = {}, 0
for hundred = math.floor(first / 100), math.floor(last / 100) do
  local head = hundred > 0 and string.format('%.0f', hundred)
  for i = math.max(first - hundred * 100, 0), math.min(last - hundred * 100, 99) do
    n = n + 1
    chunk[n] = head and head .. tail[i] or string.format('%.0f', i)
  end
  if n > 900 then
    redis.call('RPUSH', list, unpack(chunk, 1, n))
    n = 0
  end
end
if n > 0 then
  redis.call('RPUSH', list, unpack(chunk, 1, n))
end
return 'ok'
