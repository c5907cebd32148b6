-- Tells the reports of a while.
--   KEYS[1]  see workers.lua
--   ARGV[1]  see prelude.lua
--   ARGV[2]  how long ago they may be, in ms
--   returns  a line for each: "<worker ID> <reported> <seen> <address>"; or "none"
--   errors   see prelude.lua and workers.lua

local lines, flat = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  local e = string.find(flat[i], '^%d+$') and entry(flat[i + 1])
  if e and e.reported > 0 and now - e.seen <= tonumber(ARGV[2]) then
    lines[#lines + 1] = flat[i] .. ' ' .. ms(e.reported) .. ' ' .. ms(e.seen) .. ' ' .. e.address
  end
end
return #lines > 0 and table.concat(lines, '\n') or 'none'
