-- Takes the oldest indices of a list.
--   KEYS[1]  meta hash of the list
--   ARGV[1]  see prelude.lua
--   ARGV[2]  how many, at most
--   returns  "<history> <purged> <left> <more> <index> <index> ..."; no index: list
--            is empty; more: that many follow the one index given, without a gap
--   errors   see prelude.lua
--
-- One string instead of an array: ten thousand small replies cost more to write
-- and to read than to pop.

local meta, n = KEYS[1], tonumber(ARGV[2])
local list = listOf(meta)
local w, purged, life = guard(list, meta)
local left = length(list, meta)
local head = life .. ' ' .. purged .. ' ' .. math.max(left - n, 0) .. ' '
if left == 0 then
  return head .. 0
end

-- Only pushes lengthen a list, each above w. So the indices of a list rise, none
-- is above w, and one that holds as many as there are from its first to w holds
-- each of these: they need not be read, which costs ten times as much as all
-- else. Where a segment is missing, or somebody else wrote, the numbers differ,
-- and what is there is read, so that whoever sees a repetition can refuse it.
if n > 1 then
  local text = redis.call('LINDEX', list, 0)
  local first, last = tonumber(text), tonumber(w)
  if first and last and left == last - first + 1 then
    n = math.min(n, left)
    redis.call('LTRIM', list, n, -1)
    return head .. n - 1 .. ' ' .. text
  end
end
return head .. '0 ' .. table.concat(redis.call('LPOP', list, n), ' ')
