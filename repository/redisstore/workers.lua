-- Shared by the scripts of worker IDs, after prelude.lua.
--   KEYS[1]  hash: h, e and d as in a meta hash; i random ID of the registry; r the
--            most replicas that a server of it was ever seen with; and for each worker ID
--            "<reserved> <expires> <reported> <seen> <identity> <address>",
--            times in ms, identity "-" for none; see workers.go
--   errors   MALFORMED, and FOREIGN of prelude.lua

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = redis.call('HMGET', KEYS[1], 'h', 'e', 'd', 'i', 'r')
own(KEYS[1], kept[3])
local replicas = tonumber(kept[5] or 0)
local _, seen = string.gsub(type(info) == 'string' and info or '', 'state=online', '')
if seen > replicas then
  replicas = seen
  redis.call('HSET', KEYS[1], 'r', replicas)
end
local since = kept[1] == replid and kept[2]

-- life is what a lease is bound to: the replication ID, and since when the
-- hash is kept, so that leases do not outlive a hash that was deleted. Without
-- since no lease counts.
local function life()
  return since and replid .. '-' .. since
end

local function ms(n)
  return string.format('%.0f', n) -- tostring() gives an exponent
end

-- found is what every holder is told: since when the hash is kept, the time, and the
-- most replicas that were seen.
local function found()
  return ms(math.floor(since / 1000)) .. ' ' .. ms(now) .. ' ' .. replicas
end

-- entry reads what is known about a worker ID; nil is one that was never given.
local function entry(text)
  if not text then
    return { reserved = 0, expires = 0, reported = 0, seen = 0, identity = '-', address = '-' }
  end
  local r, x, p, s, i, a = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%S+) (%S+)$')
  if not r then
    error('MALFORMED entry of a worker ID in ' .. KEYS[1])
  end
  return { reserved = tonumber(r), expires = tonumber(x), reported = tonumber(p), seen = tonumber(s), identity = i, address = a }
end

local function store(id, e)
  redis.call('HSET', KEYS[1], id, ms(e.reserved) .. ' ' .. ms(e.expires) .. ' ' .. ms(e.reported) .. ' ' .. ms(e.seen) ..
    ' ' .. e.identity .. ' ' .. e.address)
end
