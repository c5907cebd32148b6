-- Tells the state of any number of sections, with a write to each; in a cluster all must
-- share a slot.
--   KEYS     hash of a section: h, e and d as in the meta hash of a list; the term t under which
--            its numbers are given, the base b below which no number of it is given, the bound m
--            above which none is; and for each key, after a colon, how far it has come
--   ARGV[1]  see prelude.lua
--   returns  a line for each section: "<replication ID> <life> <term> <bound>"
--   errors   see prelude.lua

local lines = {}
for i = 1, #KEYS do
  local key = KEYS[i]
  local m = redis.call('HMGET', key, 'h', 'e', 'd', 't', 'm')
  local e = m[2]
  own(key, m[3])
  if m[1] ~= replid or not e then
    redis.call('UNLINK', key)
    e, m[4], m[5] = beginLife(key), 0, 0
  end
  redis.call('HSET', key, 'd', deployment)
  lines[i] = replid .. ' ' .. replid .. '-' .. e .. ' ' .. (m[4] or 0) .. ' ' .. (m[5] or 0)
end
return table.concat(lines, '\n')
