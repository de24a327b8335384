-- Take a mutex for one owner and mint its fencing tokens (S-19, S-22, S-23, S-25).
-- KEYS[1] lock hash   KEYS[2] fencing counter
-- ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] tokens to reserve   ARGV[4] counter expiry in ms
-- returns the last reserved token as a string: taken;
--         the holder's PTTL as an integer: held by somebody else.
local ttl = redis.call('PTTL', KEYS[1])
local ours = false
if ttl ~= -2 then
  ours = redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1
  if not ours then
    if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then
      return redis.error_reply('WRONGTYPE the key holds a read/write lock')
    end
    return ttl
  end
end

-- The tokens come first: when memory is short, SET fails before anything has changed.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local last = string.format('%.0f', now + ARGV[3] - 1)
local previous = redis.call('SET', KEYS[2], last, 'PX', ARGV[4], 'GET')
if previous then
  -- What INCRBY takes: a leading zero would stop it half way.
  if #previous > 18 or not (previous == '0' or string.match(previous, '^[1-9]%d*$')) then
    redis.call('SET', KEYS[2], previous)
    return redis.error_reply('WRONGTYPE the fencing counter is not a number')
  end
  local number = tonumber(previous)
  if number >= now then
    -- The counter is ahead of the clock. Lua numbers end at 2^53, so the server adds.
    redis.call('SET', KEYS[2], previous, 'PX', ARGV[4])
    redis.call('INCRBY', KEYS[2], ARGV[3])
    last = redis.call('GET', KEYS[2])
  end
end

-- Asked again for the same owner, this sets what is set already; it must not shorten an extension.
if not ours then
  redis.call('HSET', KEYS[1], ARGV[1], 1)
end
if ttl < tonumber(ARGV[2]) then
  local expiry = redis.pcall('PEXPIRE', KEYS[1], ARGV[2])
  if type(expiry) == 'table' and expiry.err then
    -- Never a lock without an end, whatever a user may not do.
    if not ours then
      redis.call('DEL', KEYS[1])
    end
    return expiry
  end
end
return last
