-- Keeps the marks of a deployment's counters, one hash for all of them.
--   KEYS[1]  hash: h history; e since when it is kept, in µs; c when it was in use last,
--            Unix ms by the caller's clock; b the same by this server's, Unix s; and for each counter its mark, 19 digits with leading
--            zeros, so that they compare as texts: numbers here have 53 bits
--   ARGV[1]  see prelude.lua
--   ARGV[2]  c is raised to this; '' leaves it
--   ARGV[3]  counter; '' is none
--   ARGV[4]  its mark is raised to this; '' leaves it
--   returns  "<life> <c before> <mark before>", 0 where there is none
--   errors   see prelude.lua

local key, now, counter, value = KEYS[1], ARGV[2], ARGV[3], ARGV[4]
local m = redis.call('HMGET', key, 'h', 'e', 'c', counter, 'b')
local e, c, mark, b = m[2], m[3] or '0', m[4] or '0', m[5]
local time = redis.call('TIME')
-- Who used another server meanwhile, and comes back, has marks there that are higher.
if m[1] ~= history or not e or b and time[1] - b > 60 then
  e, c, mark = time[1] .. string.format('%06d', time[2]), '0', '0'
  redis.call('UNLINK', key)
  redis.call('HSET', key, 'e', e, 'h', history)
end
if now ~= '' then
  redis.call('HSET', key, 'c', string.format('%.0f', math.max(now, c)), 'b', time[1])
end
if value ~= '' and value > mark then
  redis.call('HSET', key, counter, value)
end
return history .. '-' .. e .. ' ' .. c .. ' ' .. mark
