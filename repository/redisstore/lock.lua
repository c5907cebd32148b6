-- Takes a lock unless another holder has it.
--   KEYS[1]  lock
--   ARGV[1]  token of the caller
--   ARGV[2]  how long it is to be held, in ms
--   returns  "1" held under this token, also when it was before; "0" not held

if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) or redis.pcall('GET', KEYS[1]) == ARGV[1] then
  return '1'
end
return '0'
