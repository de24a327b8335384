-- Reserve fencing tokens: a function that every script which takes a lock begins with (S-23).
-- counter: one of its KEYS[..]   tokens, expiry in ms: from its ARGV[..]
-- returns the last reserved token as a string, or nothing and an error reply.
-- Call it before anything has changed: when memory is short, its SET fails first.

-- Writes a counter and moves its end. One without an end keeps none: Redisson made it and renews no end.
local function set_counter(counter, value, expiry, ttl)
  if ttl == -1 then
    return redis.call('SET', counter, value, 'KEEPTTL', 'GET')
  end
  return redis.call('SET', counter, value, 'PX', expiry, 'GET')
end

-- What INCRBY takes: a leading zero would stop it half way.
local function can_count(value)
  return #value <= 18 and (value == '0' or string.match(value, '^[1-9]%d*$'))
end

local function mint(counter, tokens, expiry)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local last = string.format('%.0f', now + tokens - 1)
  local ttl = redis.call('PTTL', counter)
  local previous = set_counter(counter, last, expiry, ttl)
  if previous then
    if not can_count(previous) then
      set_counter(counter, previous, ttl, ttl)
      return nil, redis.error_reply('WRONGTYPE the fencing counter is not a number')
    end
    if tonumber(previous) >= now then
      -- The counter is ahead of the clock. Lua numbers end at 2^53, so the server adds.
      set_counter(counter, previous, expiry, ttl)
      redis.call('INCRBY', counter, tokens)
      last = redis.call('GET', counter)
    end
  end
  return last
end
