-- Drops a list; its meta hash stays, and with it the high-water mark.
--   KEYS[1]  meta hash of the list
--   ARGV[1]  see prelude.lua
--   returns  how many lists were dropped
--   errors   see prelude.lua

local list = listOf(KEYS[1])
guard(list, KEYS[1])
return redis.call('UNLINK', list)
