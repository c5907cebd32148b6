-- Takes the oldest indices of a list.
--   KEYS[1]  meta hash of the list
--   ARGV[1]  see prelude.lua
--   ARGV[2]  how many, at most
--   returns  "<life> <purged> <left> <more> <index> <index> ..."; no index: list
--            is empty; more: that many follow the one index given, without a gap
--   errors   see prelude.lua
--
-- One string instead of an array: ten thousand small replies cost more to write
-- and to read than to pop.

local meta, n = KEYS[1], tonumber(ARGV[2])
local list = listOf(meta)
local w, purged, life, run = guard(list, meta)
local left = length(list, meta)
local head = life .. ' ' .. purged .. ' ' .. math.max(left - n, 0) .. ' '
if left == 0 then
  return head .. 0
end

-- While the list ends with w it ends with our run, from r to w without a gap: see
-- push.lua. If it also begins within the run and is as long as the way from its first
-- index to w, nothing but the run is in it: it need not be read, which costs ten times
-- as much as all else. Otherwise a segment is missing or another program wrote, and
-- what is there is read, so that the caller can refuse what came before.
if n > 1 then
  local text = redis.call('LINDEX', list, 0)
  local first, last, from = tonumber(text), tonumber(w), tonumber(run or nil)
  if first and last and from and first >= from and left == last - first + 1 and redis.call('LINDEX', list, -1) == w then
    n = math.min(n, left)
    redis.call('LTRIM', list, n, -1)
    return head .. n - 1 .. ' ' .. text
  end
end
return head .. '0 ' .. table.concat(redis.call('LPOP', list, n), ' ')
