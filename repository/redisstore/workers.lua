-- Reads and replaces worker IDs of a registry, see workers.go.
--   KEYS[1]  hash: h, e and d as in a meta hash; i random ID of the registry; r the most replicas that
--            a server of it was ever seen with; and for each worker ID
--            "<reserved> <expires> <reported> <seen> <identity> <address>", times in ms, identity "-"
--            for none. The lease of each is a key of its own in the same slot, with its holder's token
--   ARGV[1]  see prelude.lua
--   ARGV[2]  what to do with the rest of ARGV:
--              read F L I            read worker IDs F…L; I is an ID for the registry, if it has none,
--                                    and '' for a caller who takes no worker ID
--              put L ID T E U F MS   in life L, replace token T and entry E of a worker ID, as they were
--                                    read, '' for none, by U and F; its lease lasts MS ms
--   returns  "<life> <kept since> <now> <replicas>"; or "none" where nothing can be read, and "changed"
--            for a worker ID that is not as it was read. read continues with " <registry>" and, for each
--            worker ID, a line with its token, a tab and its entry
--   errors   see prelude.lua

local hash, what = KEYS[1], ARGV[2]

local lease = (string.gsub(hash, 'workers', 'worker', 1)) .. '_' -- and the worker ID

local time = redis.call('TIME')
local m = redis.call('HMGET', hash, 'h', 'e', 'd', 'i', 'r')
local since, registry, replicas = m[1] == replid and m[2], m[4], tonumber(m[5] or 0)
own(hash, m[3])
local _, seen = string.gsub(info, 'state=online', '')
if seen > replicas then
  replicas = seen
  redis.call('HSET', hash, 'r', replicas)
end

-- head is what every holder is told. Its life is what a lease is bound to: the replication ID, and
-- since when the hash is kept, in µs, so that leases do not outlive a hash that was deleted.
local function head()
  local now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))
  return replid .. '-' .. since .. ' ' .. string.sub(since, 1, -4) .. ' ' .. now .. ' ' .. replicas
end

if what == 'put' then
  local id, key = ARGV[4], lease .. ARGV[4]
  if not since or replid .. '-' .. since ~= ARGV[3] or (redis.call('GET', key) or '') ~= ARGV[5]
    or (redis.call('HGET', hash, id) or '') ~= ARGV[6] then
    return 'changed'
  end
  -- A release lowers the bounds, which is right as long as nobody renews: so the lease goes first. Else
  -- the entry goes first: a lease whose holder finds the bounds of another would start too low.
  if ARGV[7] == '' then
    redis.call('UNLINK', key)
  end
  redis.call('HSET', hash, id, ARGV[8])
  if ARGV[7] ~= '' then
    redis.call('SET', key, ARGV[7], 'PX', ARGV[9])
  end
  return head()
end

local ids, leases = {}, {}
for id = tonumber(ARGV[3]), tonumber(ARGV[4]) do
  ids[#ids + 1], leases[#leases + 1] = id, lease .. id
end
if ARGV[5] ~= '' then
  -- In another life of the server, or without the hash, what held before says nothing now. The leases
  -- go first: should the script end in between, the next one drops them again.
  if not since then
    redis.call('UNLINK', unpack(leases))
    since = time[1] .. string.format('%06d', time[2])
    redis.call('HSET', hash, 'e', since, 'h', replid)
  end
  if not registry then
    registry = ARGV[5]
    redis.call('HSET', hash, 'i', registry)
  end
end
if not since or not registry then
  return 'none'
end
local lines, holders, entries = {}, redis.call('MGET', unpack(leases)), redis.call('HMGET', hash, unpack(ids))
for i = 1, #ids do
  lines[i] = '\n' .. (holders[i] or '') .. '\t' .. (entries[i] or '')
end
return head() .. ' ' .. registry .. table.concat(lines)
