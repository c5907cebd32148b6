-- Gives numbers of keys in any number of sections; in a cluster all must share a slot.
--   KEYS     hashes of the sections; see sequence_state.lua
--   ARGV[1]  see prelude.lua
--   ARGV[2]  replication ID for which the terms count
--   ARGV[3…] for each section its term and how many keys follow, and for each of these the key
--            and how many numbers; 0 only looks at how far it has come
--   returns  a line for each section: "<bound> <last number> …", a number for each key, but "-"
--            from the first on for which the bound is too low; or "-" when none may be given
--   errors   see prelude.lua

local lines, at = {}, 3
for i = 1, #KEYS do
  local key, term, keys = KEYS[i], ARGV[at], ARGV[at + 1] * 1
  at = at + 2
  local m = redis.call('HMGET', key, 'h', 't', 'b', 'm', 'd')
  own(key, m[5] or deployment)
  if replid ~= ARGV[2] or m[1] ~= replid or m[2] ~= term then
    lines[i] = '-'
    at = at + 2 * keys
  else
    local base, bound = tonumber(m[3]), tonumber(m[4])
    local line, dry = { m[4] }, false
    for j = 1, keys do
      local field, n = ':' .. ARGV[at], ARGV[at + 1] * 1
      at = at + 2
      local v
      if dry then
        v = nil
      elseif n == 0 then
        v = math.max(tonumber(redis.call('HGET', key, field) or 0), base)
      else
        v = redis.call('HINCRBY', key, field, n)
        if v > bound or v - n < base and base + n > bound then
          redis.call('HINCRBY', key, field, -n)
          v, dry = nil, true
        elseif v - n < base then
          v = base + n
          redis.call('HSET', key, field, string.format('%.0f', v))
        end
      end
      line[j + 1] = v and string.format('%.0f', v) or '-'
    end
    lines[i] = table.concat(line, ' ')
  end
end
return table.concat(lines, '\n')
