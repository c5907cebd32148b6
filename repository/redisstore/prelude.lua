-- Shared by all scripts but those of locks and replicas. It leaves `replid`, the server's
-- replication ID, own(), beginLife() and guard(), and ends the script when the server cannot be trusted.
--   ARGV[1]  ID of the deployment, '' while it is not known, which refuses
--   errors   HISTORYHIDDEN, READONLY, NODEPLOYMENT; and by guard FOREIGN, TRYAGAIN
--
-- A script on a list declares only the key of its meta hash. The list, whose name is
-- part of that key, shares the slot. While a cluster moves a slot away, a node
-- refuses a script that declares two keys of which it has one, as long as the move
-- lasts, and a list without indices is such a missing key.

local deployment = ARGV[1]
if deployment == '' then
  return redis.error_reply('NODEPLOYMENT the ID of the deployment is not known yet')
end
local info = redis.pcall('INFO', 'replication')
local replid
if type(info) == 'string' then
  -- A writable replica would accept pops under the replication ID of its master.
  if string.find(info, 'role:slave', 1, true) then
    return redis.error_reply('READONLY this server is a replica')
  end
  local _, at = string.find(info, 'master_replid:', 1, true)
  replid = at and string.match(info, '^%x+', at + 1)
  -- A server without the second ID does not keep the first as Redis does: Dragonfly's
  -- outlives a return to older data.
  if not string.find(info, 'master_replid2:', 1, true) then
    replid = nil
  end
end
-- Servers that only imitate the field fill it with zeros.
if not replid or not string.find(replid, '[^0]') then
  local why = type(info) == 'table' and info.err
    or 'INFO replication has no master_replid and master_replid2 as those of Redis and Valkey (docs/stores.md)'
  return redis.error_reply('HISTORYHIDDEN replication ID cannot be read: ' .. why)
end

-- own ends the script when the hash belongs to another deployment. A hash of version
-- 0.1 names none: it becomes ours.
local function own(key, owner)
  if not owner then
    redis.call('HSET', key, 'd', deployment)
  elseif owner ~= deployment then
    error('FOREIGN ' .. key .. ' belongs to deployment ' .. owner .. ' and not to this one, ' .. deployment, 0)
  end
end

-- listOf gives the name of the list from that of its meta hash.
local function listOf(meta)
  return string.sub(meta, 14, -2) -- after "id.gen.meta_{", before "}"
end

-- length is the number of indices in the list. When the cluster moves the slot away
-- and the list is not here any more, or is empty, it can only be filled on the other
-- node. Then the meta hash goes, so that the next call is sent there and starts a
-- new life of the list.
local function length(list, meta)
  local n = redis.pcall('LLEN', list)
  if type(n) == 'number' then
    return n
  end
  if string.find(n.err, 'non local key', 1, true) then
    redis.call('UNLINK', meta)
    error('TRYAGAIN ' .. list .. ' is on its way to another node', 0)
  end
  error(n.err, 0)
end

-- beginLife has a hash begin another life, and gives since when it is kept, in µs. What the life before has left is
-- dropped first.
local function beginLife(key)
  local now = redis.call('TIME')
  local e = now[1] .. string.format('%06d', now[2])
  redis.call('HSET', key, 'e', e, 'h', replid)
  return e
end

-- guard drops what another life left in the list; it returns the list's high-water
-- mark (a string), the number of indices dropped, the list's life: the replication ID
-- and since when the list is kept without loss, and where our run begins (see push.lua;
-- false when that is not known). So a list whose meta hash was deleted begins another
-- life too, and a push that was under way, perhaps below what was popped
-- since, is refused.
--
-- The list goes first: should the script die in between, the next one purges again. A list without w was not filled
-- by us.
local function guard(list, meta)
  local m = redis.call('HMGET', meta, 'h', 'w', 'e', 'd', 'r')
  local w, e = m[2], m[3]
  own(meta, m[4])
  if m[1] == replid and w and e then
    return w, 0, replid .. '-' .. e, m[5]
  end
  local purged = length(list, meta)
  if purged > 0 then
    redis.call('UNLINK', list)
  end
  if m[1] ~= replid or not e or purged > 0 then
    e = beginLife(meta)
  end
  return w or '0', purged, replid .. '-' .. e, m[5]
end
