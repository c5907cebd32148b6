-- Keeps the marks of a deployment's counters, one hash for all of them.
--   KEYS[1]  hash: h replication ID and e since when it is kept, in µs; and for each counter
--            its mark, 19 digits with leading zeros, so that they compare as texts:
--            numbers here have 53 bits
--   ARGV[1]  see prelude.lua
--   ARGV[2]  life in which to continue; '' is any
--   ARGV[3]  what to do with the rest of ARGV:
--              life          nothing but a write, which a server that is full refuses
--              raise C V …   raise the mark of each counter to V, 19 digits; 0 only reads it
--              scan N        give some marks, from cursor N on; 0 begins
--   returns  the life; in the life that was asked for also
--              raise   the mark of each counter, as it was before, 0 for none
--              scan    the next cursor, and each counter followed by its mark
--   errors   see prelude.lua

local key, want, what = KEYS[1], ARGV[2], ARGV[3]
local m = redis.call('HMGET', key, 'h', 'e')
local e = m[2]
if m[1] ~= replid or not e then
  redis.call('UNLINK', key)
  e = beginLife(key)
end
local life = replid .. '-' .. e
local answer = { life }
if want ~= '' and want ~= life then
  return answer
elseif what == 'life' then
  redis.call('HSET', key, 'h', replid)
elseif what == 'scan' then
  local page = redis.call('HSCAN', key, ARGV[4], 'COUNT', 1000)
  answer[2] = page[1]
  for i = 1, #page[2], 2 do
    local counter = string.match(page[2][i], '^m:(.*)$')
    if counter then
      answer[#answer + 1] = counter
      answer[#answer + 1] = page[2][i + 1]
    end
  end
else
  for i = 4, #ARGV, 2 do
    local mark = redis.call('HMGET', key, 'm:' .. ARGV[i])[1] or string.rep('0', 19)
    answer[#answer + 1] = mark
    if ARGV[i + 1] > mark then
      redis.call('HSET', key, 'm:' .. ARGV[i], ARGV[i + 1])
    end
  end
end
return answer
