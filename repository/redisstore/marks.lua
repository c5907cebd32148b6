-- Keeps the marks of a deployment's counters, one hash for all of them.
--   KEYS[1]  hash: h history and e since when it is kept, in µs; c when it was in use
--            last, Unix ms; and for each counter its mark, 19 digits with leading
--            zeros, so that they compare as texts: numbers here have 53 bits
--   ARGV[1]  see prelude.lua
--   ARGV[2]  c is raised to this; '' leaves it
--   ARGV[3]  counter; '' is none
--   ARGV[4]  its mark is raised to this; '' leaves it
--   returns  "<life> <c before> <mark before>", 0 where there is none
--   errors   see prelude.lua

local key, now, counter, value = KEYS[1], ARGV[2], ARGV[3], ARGV[4]
local m = redis.call('HMGET', key, 'h', 'e', 'c', counter)
local e, c, mark = m[2], m[3] or '0', m[4] or '0'
if m[1] ~= history or not e then
  local time = redis.call('TIME')
  e, c, mark = time[1] .. string.format('%06d', time[2]), '0', '0'
  redis.call('UNLINK', key)
  redis.call('HSET', key, 'e', e, 'h', history)
end
if now ~= '' and tonumber(now) > tonumber(c) then
  redis.call('HSET', key, 'c', now)
end
if value ~= '' and value > mark then
  redis.call('HSET', key, counter, value)
end
return history .. '-' .. e .. ' ' .. c .. ' ' .. mark
