-- Takes the oldest indices of a list.
--   KEYS[1]  list
--   KEYS[2]  its meta hash
--   ARGV[1]  see prelude.lua
--   ARGV[2]  how many, at most
--   returns  "<history> <purged> <left> <index> <index> ..."; no index: list is empty
--   errors   see prelude.lua
--
-- One string instead of an array: ten thousand small replies cost more to write
-- and to read than to pop.

local _, purged, life = guard(KEYS[1], KEYS[2])
local values = redis.call('LPOP', KEYS[1], ARGV[2])
if not values then
  return life .. ' ' .. purged .. ' 0'
end
local left = 0
if #values == tonumber(ARGV[2]) then
  left = redis.call('LLEN', KEYS[1])
end
return life .. ' ' .. purged .. ' ' .. left .. ' ' .. table.concat(values, ' ')
