-- Stores the bounds of a lease and lengthens it, if it is still held.
--   KEYS[1]  see workers.lua
--   KEYS[2]  the lease
--   ARGV[1]  see prelude.lua
--   ARGV[2]  life in which it was acquired
--   ARGV[3]  token
--   ARGV[4]  worker ID
--   ARGV[5]  how long the lease lasts, in ms
--   ARGV[6]  reserved
--   ARGV[7]  expires
--   ARGV[8]  reported
--   returns  "<kept since> <now> <replicas>", or "lost"
--   errors   see prelude.lua and workers.lua

if life() ~= ARGV[2] or redis.call('GET', KEYS[2]) ~= ARGV[3] then
  return 'lost'
end
local e = entry(redis.call('HGET', KEYS[1], ARGV[4]))
e.reserved, e.expires = math.max(e.reserved, ARGV[6]), math.max(e.expires, ARGV[7])
e.reported, e.seen = ARGV[8], now
store(ARGV[4], e)
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[5])
return found()
