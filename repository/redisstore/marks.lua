-- Keeps the marks of a deployment's counters, one hash for all of them.
--   KEYS[1]  hash: h replication ID and e since when it is kept, in µs; c when it was in use
--            last, Unix ms by this server's clock; and for each counter its mark, 19
--            digits with leading zeros, so that they compare as texts: numbers here
--            have 53 bits
--   ARGV[1]  see prelude.lua
--   ARGV[2]  c is set to now; after a break of more than so many ms another life
--            begins, and the marks stay; '' leaves both
--   ARGV[3]  counter; '' is none
--   ARGV[4]  its mark is raised to this; '' leaves it
--   returns  "<life> <ms since c> <mark before>", 0 for no mark
--   errors   see prelude.lua

local key, most, counter, value = KEYS[1], ARGV[2], ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local fresh = time[1] .. string.format('%06d', time[2])
local m = redis.call('HMGET', key, 'h', 'e', 'c', counter)
local e, c, mark = m[2], m[3], m[4] or '0'
if m[1] ~= replid or not e then
  e, c, mark = fresh, nil, '0'
  redis.call('UNLINK', key)
  redis.call('HSET', key, 'e', e, 'h', replid)
end
local age = math.max(now - (c or 0), 0)
if most ~= '' then
  if c and age > tonumber(most) then
    e = fresh
    redis.call('HSET', key, 'e', e)
  end
  redis.call('HSET', key, 'c', string.format('%.0f', now))
end
if value ~= '' and value > mark then
  redis.call('HSET', key, counter, value)
end
return replid .. '-' .. e .. ' ' .. string.format('%.0f', age) .. ' ' .. mark
