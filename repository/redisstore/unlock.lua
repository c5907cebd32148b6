-- Frees a lock unless another holder has it by now.
--   KEYS[1]  lock
--   ARGV[1]  token of the caller
--   returns  1 freed, 0 not held under this token

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
