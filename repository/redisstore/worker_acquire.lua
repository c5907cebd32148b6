-- Gives the caller a worker ID: the one its token holds; else one its identity
-- had last, held or not; else the smallest free one whose bounds have passed;
-- else the free one whose bounds pass first.
--   KEYS[1]      see workers.lua
--   KEYS[2…1025] the leases of worker IDs 0…1023
--   ARGV[1]      see prelude.lua
--   ARGV[2]      token
--   ARGV[3]      identity, "-" for none
--   ARGV[4]      address
--   ARGV[5]      how long the lease lasts, in ms
--   ARGV[6]      ID for the registry, if it has none
--   returns      "<life> <kept since> <now> <replicas> <registry> <worker ID> <after>", or "none"
--   errors       see prelude.lua and workers.lua

local token, identity, address = ARGV[2], ARGV[3], ARGV[4]

-- Another replication ID, or a hash that was lost: what held then says nothing now.
-- The leases go first: should the script die in between, the next one drops again.
if not since then
  redis.call('UNLINK', unpack(KEYS, 2))
  since = time[1] .. string.format('%06d', time[2])
  redis.call('HSET', KEYS[1], 'e', since, 'h', replid)
end

local registry = kept[4]
if not registry then
  registry = ARGV[6]
  redis.call('HSET', KEYS[1], 'i', registry)
end

local holders = redis.call('MGET', unpack(KEYS, 2))
local known, flat = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #flat, 2 do
  known[flat[i]] = flat[i + 1]
end

-- rank orders the kinds above; within one the smaller wait, then the smaller ID.
local best
local function offer(id, rank, e, after)
  local wait = math.max(after - now, 0)
  if not best or rank < best.rank or rank == best.rank and wait < best.wait then
    best = { id = id, rank = rank, after = after, wait = wait, e = e }
  end
end

-- Most entries are passed over unread: reading all thousand of a full registry
-- takes more than twice as long.
local mark = identity ~= '-' and ' ' .. identity .. ' '
for i = 1, #holders do
  local text, holder = known[tostring(i - 1)], holders[i]
  if holder == token then
    local e = entry(text)
    offer(i - 1, 1, e, e.reserved)
  elseif mark and text and string.find(text, mark, 1, true) and entry(text).identity == identity then
    local e = entry(text)
    offer(i - 1, 2, e, e.reserved)
  elseif not holder and not (best and best.wait == 0) then
    local e = entry(text)
    offer(i - 1, 3, e, math.max(e.reserved, e.expires))
  end
end
if not best then
  return 'none'
end

-- What the holders before may have issued counts as reserved by this one, or it
-- would be forgotten should it return before its first renewal. Their report is
-- not its own.
local e = best.e
e.reserved = best.after
if best.rank > 1 then
  e.reported, e.seen, e.identity, e.address = 0, now, identity, address
end
-- The entry first: a lease whose holder finds the bounds of another would start
-- too low.
store(tostring(best.id), e)
redis.call('SET', KEYS[best.id + 2], token, 'PX', ARGV[5])
return life() .. ' ' .. found() .. ' ' .. registry .. ' ' .. best.id .. ' ' .. ms(best.after)
