-- Probes that scripts may run here and that the replication ID can be read.
--   KEYS     none
--   ARGV[1]  see prelude.lua
--   returns  "standalone", "cluster" or "unknown"
--   errors   see prelude.lua

local server = redis.pcall('INFO', 'server')
-- Valkey 9 calls it server_mode.
return type(server) == 'string' and (string.match(server, 'redis_mode:(%a+)') or string.match(server, 'server_mode:(%a+)')) or 'unknown'
