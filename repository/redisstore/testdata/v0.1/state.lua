-- Tells the state of any number of lists; in a cluster all must share a slot.
--   KEYS     list, its meta hash, list, its meta hash, ...
--   ARGV[1]  see prelude.lua
--   returns  a line for each list: "<history> <length> <w> <purged>", or "!<error>"
--            when this list could not be asked
--   errors   see prelude.lua

local function state(list, meta)
  local w, purged, life = guard(list, meta)
  return life .. ' ' .. redis.call('LLEN', list) .. ' ' .. w .. ' ' .. purged
end

local lines = {}
for i = 1, #KEYS, 2 do
  local ok, line = pcall(state, KEYS[i], KEYS[i + 1])
  if not ok then
    line = '!' .. string.gsub(type(line) == 'table' and line.err or tostring(line), '[\r\n]', ' ')
  end
  lines[#lines + 1] = line
end
return table.concat(lines, '\n')
