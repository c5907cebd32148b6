-- Keeps a short-lived record of each replica of a deployment.
--   KEYS[1]  hash: for each replica "<Unix ms of the record by this server's clock> <record>";
--            it expires with the last record where the user may PEXPIRE
--   ARGV[1]  replica whose record is written or removed; '' only reads
--   ARGV[2]  its record, one line; '' removes it
--   ARGV[3]  how long a record counts, in ms
--   returns  for each record that counts, but that of the replica, how many ms old it is, and the record

local key, replica, record, lasts = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local flat = redis.call('HGETALL', key)
local kept, answer = {}, {}
for i = 1, #flat, 2 do
  local written, text = string.match(flat[i + 1], '^(%d+) (.*)$')
  if written and math.abs(now - written) <= lasts and (replica == '' or flat[i] ~= replica) then
    kept[#kept + 1], kept[#kept + 2] = flat[i], flat[i + 1]
    answer[#answer + 1], answer[#answer + 2] = string.format('%.0f', math.max(now - written, 0)), text
  end
end
if replica == '' then
  return answer
end
if record ~= '' then
  kept[#kept + 1], kept[#kept + 2] = replica, string.format('%.0f', now) .. ' ' .. record
end
redis.call('UNLINK', key) -- with the records that count no more
if #kept > 0 then
  redis.call('HSET', key, unpack(kept))
  redis.pcall('PEXPIRE', key, lasts)
end
return answer
