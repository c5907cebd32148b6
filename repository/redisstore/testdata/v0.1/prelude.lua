-- Shared by all scripts but unlock. It leaves `history`, the timeline this server
-- is on, and guard(), and ends the script when either cannot be trusted.
--   ARGV[1]  history to assume when the server hides its own; '' refuses
--   errors   HISTORYHIDDEN, READONLY

local info = redis.pcall('INFO', 'replication')
local history
if type(info) == 'string' then
  -- A writable replica would accept pops under the history of its master.
  if string.find(info, 'role:slave', 1, true) then
    return redis.error_reply('READONLY this server is a replica')
  end
  local _, at = string.find(info, 'master_replid:', 1, true)
  history = at and string.match(info, '^%x+', at + 1)
end
-- Servers that only imitate the field fill it with zeros.
if not history or not string.find(history, '[^0]') then
  if ARGV[1] == '' then
    local why = type(info) == 'table' and info.err or 'INFO replication has no master_replid'
    return redis.error_reply('HISTORYHIDDEN ' .. why)
  end
  history = ARGV[1]
end

-- guard drops what another timeline left in the list; it returns the list's
-- high-water mark (a string), the number of indices dropped, and the list's own
-- history: the server's, and since when it is kept without loss. So a list whose
-- meta hash was deleted has another history too, and a push that was under way,
-- perhaps below what was popped since, is refused.
--
-- The list goes first and h is written last: should the script die in between,
-- the next one purges again. A list without w was not filled by us.
local function guard(list, meta)
  local m = redis.call('HMGET', meta, 'h', 'w', 'e')
  local w, e = m[2], m[3]
  if m[1] == history and w and e then
    return w, 0, history .. '-' .. e
  end
  local purged = redis.call('LLEN', list)
  if purged > 0 then
    redis.call('UNLINK', list)
  end
  if m[1] ~= history or not e or purged > 0 then
    local now = redis.call('TIME')
    e = now[1] .. string.format('%06d', now[2])
    redis.call('HSET', meta, 'e', e, 'h', history)
  end
  return w or '0', purged, history .. '-' .. e
end
