-- Drops a section.
--   KEYS[1]  hash of the section; see sequence_state.lua
--   ARGV[1]  see prelude.lua
--   returns  how many were dropped
--   errors   see prelude.lua

own(KEYS[1], redis.call('HGET', KEYS[1], 'd') or deployment)
return redis.call('UNLINK', KEYS[1])
