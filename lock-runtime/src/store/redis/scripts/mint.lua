-- Reserve fencing tokens: a function that every script which takes a lock begins with (S-23).
-- counter: one of its KEYS[..]   tokens, expiry in ms: from its ARGV[..]
-- returns the last reserved token as a string, or nothing and an error reply.
-- Call it before anything has changed: when memory is short, its SET fails first.
-- A counter without an end keeps none: Redisson made it, and renews no end.

-- What INCRBY takes: a leading zero would stop it half way.
local function can_count(value)
  return #value <= 18 and (value == '0' or string.match(value, '^[1-9]%d*$'))
end

local function mint(counter, tokens, expiry)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local last = string.format('%.0f', now + tokens - 1)
  local previous = redis.call('SET', counter, last, 'KEEPTTL', 'GET')
  if not previous then
    redis.call('SET', counter, last, 'PX', expiry)
    return last
  end
  if not can_count(previous) then
    redis.call('SET', counter, previous, 'KEEPTTL')
    return nil, redis.error_reply('WRONGTYPE the fencing counter is not a number')
  end
  if tonumber(previous) >= now then
    -- The counter is ahead of the clock. Lua numbers end at 2^53, so the server adds.
    redis.call('SET', counter, previous, 'KEEPTTL')
    redis.call('INCRBY', counter, tokens)
    last = redis.call('GET', counter)
    redis.call('PEXPIRE', counter, expiry, 'XX')
  elseif math.floor(previous / 60000000) < math.floor((now + tokens - 1) / 60000000) then
    -- The first token of a minute renews the end, so that the others of a busy lock need not.
    redis.call('PEXPIRE', counter, expiry, 'XX')
  end
  return last
end
