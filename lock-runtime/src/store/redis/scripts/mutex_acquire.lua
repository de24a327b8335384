-- Acquires a mutex for one owner and mints its fencing tokens (S-19, S-22, S-23, S-25).
-- KEYS[1] lock hash   KEYS[2] fencing counter
-- ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] tokens to reserve   ARGV[4] counter expiry in ms
-- returns the last reserved token as a string: acquired;
--         an integer: another owner holds it, for that many ms unless renewed, -1 if that has no end.
local ttl = call('PTTL', KEYS[1])
local new = ttl == -2
if not new and call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  if call('HEXISTS', KEYS[1], 'mode') == 1 then
    return redis.error_reply('WRONGTYPE the key holds another kind of lock')
  end
  return ttl
end

local last, problem = mint(KEYS[2], ARGV[3], ARGV[4])
if problem then
  return problem
end

-- A repeated request of the holder changes nothing; it must not shorten an extended lease.
if new then
  call('HSET', KEYS[1], ARGV[1], '1')
end
if new or ttl < tonumber(ARGV[2]) then
  problem = set_end(KEYS[1], ARGV[2], new)
end
return problem or last
