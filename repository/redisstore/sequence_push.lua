-- Gives a section more numbers: those above first - 1, up to last. What came before it comes
-- to nothing, so that it may be sent twice.
--   KEYS[1]  hash of the section; see sequence_state.lua
--   ARGV[1]  see prelude.lua
--   ARGV[2]  life for which they were allocated
--   ARGV[3]  term
--   ARGV[4]  first - 1
--   ARGV[5]  last
--   returns  "ok", or why nothing was done: "life", "highwater"
--   errors   see prelude.lua

local key, b = KEYS[1], ARGV[4]
local m = redis.call('HMGET', key, 'h', 'e', 'd', 't', 'm')
if m[1] ~= replid or not m[2] or replid .. '-' .. m[2] ~= ARGV[2] then
  return 'life'
end
own(key, m[3])
local term = tonumber(m[4] or 0)
if tonumber(ARGV[3]) > term then
  redis.call('UNLINK', key)
  redis.call('HSET', key, 'e', m[2], 'h', replid, 'd', deployment, 't', ARGV[3], 'b', b, 'm', ARGV[5])
elseif tonumber(ARGV[3]) == term and tonumber(b) >= tonumber(m[5]) then
  -- The base first: numbers that were left out may have been given elsewhere.
  if b ~= m[5] then
    redis.call('HSET', key, 'b', b)
  end
  redis.call('HSET', key, 'm', ARGV[5])
else
  return 'highwater'
end
return 'ok'
