-- Ends a lease, if it is still held, and stores the last time that was issued.
--   KEYS[1]  see workers.lua
--   KEYS[2]  the lease
--   ARGV[1]  see prelude.lua
--   ARGV[2]  life in which it was acquired
--   ARGV[3]  token
--   ARGV[4]  worker ID
--   ARGV[5]  the bound that the same identity starts after
--   ARGV[6]  the bound that others start after, not below it
--   returns  "released" or "lost"
--   errors   see prelude.lua and workers.lua

if life() ~= ARGV[2] or redis.call('GET', KEYS[2]) ~= ARGV[3] then
  return 'lost'
end
local e = entry(redis.call('HGET', KEYS[1], ARGV[4]))
e.reserved, e.expires, e.reported, e.seen = ARGV[5], ARGV[6], 0, now
-- The bound is lower than before, and right as long as none renews: so the
-- lease goes first.
redis.call('UNLINK', KEYS[2])
store(ARGV[4], e)
return 'released'
