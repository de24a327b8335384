-- Reserve fencing tokens: a function that every script which takes a lock begins with (S-23).
-- counter: one of its KEYS[..]   tokens, expiry in ms: from its ARGV[..]
-- returns the last reserved token as a string, or nothing and an error reply.
-- Call it before anything has changed: when memory is short, its SET fails first.
local function mint(counter, tokens, expiry)
  local time = redis.call('TIME')
  local now = time[1] * 1000000 + time[2]
  local last = string.format('%.0f', now + tokens - 1)
  local previous = redis.call('SET', counter, last, 'PX', expiry, 'GET')
  if previous then
    -- What INCRBY takes: a leading zero would stop it half way.
    if #previous > 18 or not (previous == '0' or string.match(previous, '^[1-9]%d*$')) then
      redis.call('SET', counter, previous)
      return nil, redis.error_reply('WRONGTYPE the fencing counter is not a number')
    end
    if tonumber(previous) >= now then
      -- The counter is ahead of the clock. Lua numbers end at 2^53, so the server adds.
      redis.call('SET', counter, previous, 'PX', expiry)
      redis.call('INCRBY', counter, tokens)
      last = redis.call('GET', counter)
    end
  end
  return last
end
