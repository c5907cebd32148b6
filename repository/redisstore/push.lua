-- Appends the indices first..last to a list.
--   KEYS[1]  meta hash of the list
--   ARGV[1]  see prelude.lua
--   ARGV[2]  life for which the segment was allocated
--   ARGV[3]  first index
--   ARGV[4]  last index
--   ARGV[5]  cap: a list that holds this many is not pushed to
--   returns  "ok", or why nothing was done: "life", "highwater", "full"
--   errors   see prelude.lua

local meta, list = KEYS[1], listOf(KEYS[1])
local first, last = tonumber(ARGV[3]), tonumber(ARGV[4])
local w, _, life, run = guard(list, meta)
if life ~= ARGV[2] then
  return 'life'
end
if first <= tonumber(w) then
  return 'highwater'
end
if length(list, meta) >= tonumber(ARGV[5]) then
  return 'full'
end

-- Before the indices: were the script to end in between, w would be too high,
-- which costs a gap. The other way round costs the promise.
-- r is where our run begins: the list ends with the indices from r to w, each once and
-- in order, as far as they are not popped. It continues if the list still ends with w
-- and the segment follows on it. Else, after a gap, or when another program has pushed
-- or popped there, a new run begins.
if not run or first ~= tonumber(w) + 1 or redis.call('LINDEX', list, -1) ~= w then
  run = ARGV[3]
end
redis.call('HSET', meta, 'w', ARGV[4], 'r', run)

-- A number of Lua is the cheapest argument, but only newer servers write every integer in
-- plain digits: Redis since 7.4, Valkey since 8.0; 7.2.4 writes 1e+10. For others it is
-- formatted, which costs twice as much as the rest of a push together: a hundred indices
-- share one head. %.0f, as tostring() gives an exponent.
local plain = (redis.VALKEY_VERSION_NUM or redis.REDIS_VERSION_NUM or 0) >= 0x070400
local tail = {}
for i = 0, plain and -1 or 99 do
  tail[i + 1] = string.format('%02d', i)
end
-- A hundred also share one RPUSH: of nine hundred arguments each was measured to cost more.
local chunk = {}
for hundred = math.floor(first / 100), math.floor(last / 100) do
  local head = string.format('%.0f', hundred)
  local from, to = math.max(first - hundred * 100, 0) + 1, math.min(last - hundred * 100, 99) + 1
  for i = from, to do
    if plain or hundred == 0 then
      chunk[i] = hundred * 100 + i - 1
    else
      chunk[i] = head .. tail[i]
    end
  end
  redis.call('RPUSH', list, unpack(chunk, from, to))
end
return 'ok'
