-- Tells the state of any number of lists; in a cluster all must share a slot.
--   KEYS     meta hashes of the lists
--   ARGV[1]  see prelude.lua
--   ARGV[2]  '1': also write to each meta hash, so that a server that takes no
--            writes, because it is full or else, says so now
--   returns  a line for each list: "<life> <length> <w> <purged>", or "!<error>"
--            when this list could not be asked
--   errors   see prelude.lua

local function state(meta)
  local list = listOf(meta)
  local w, purged, life = guard(list, meta)
  local n = length(list, meta)
  if ARGV[2] == '1' then
    redis.call('HSET', meta, 'd', deployment)
  end
  return life .. ' ' .. n .. ' ' .. w .. ' ' .. purged
end

local lines = {}
for i = 1, #KEYS do
  local ok, line = pcall(state, KEYS[i])
  if not ok then
    line = '!' .. (type(line) == 'table' and line.err or tostring(line))
  end
  lines[i] = line
end
return table.concat(lines, '\n')
