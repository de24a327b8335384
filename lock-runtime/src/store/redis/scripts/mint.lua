-- Reserves fencing tokens: a function for every script that acquires (S-23).
-- counter: one of its KEYS[..]   tokens, expiry in ms: from its ARGV[..], as text
-- returns the last reserved token as a string, or nothing and an error reply.
-- Call it before anything has changed: when memory is short, its SET fails first.
-- A counter without an expiry gets none: Redisson made it, and would not renew an expiry.
-- Tokens are compared as text, which costs the server less than numbers.

-- The server's time in microseconds, and the first of the 100 seconds that it is in: 16 digits each, until 2286.
local now_text, hundred

local function read_now()
  if not now_text then
    read_time()
    now_text = seconds .. string.sub('000000', #micros + 1) .. micros
    hundred = string.sub(now_text, 1, -9) .. '00000000'
  end
end

-- True for numbers that INCRBY accepts: a leading zero would stop it half way.
local function can_count(value)
  return #value <= 18 and (string.find(value, '^[1-9]%d*$') or value == '0')
end

local function mint(counter, tokens, expiry)
  read_now()
  local now = now_text
  local last = tokens == '1' and now or string.format('%.0f', now + tokens - 1)
  local previous = redis.call('SET', counter, last, 'KEEPTTL', 'GET')
  if not previous then
    redis.call('SET', counter, last, 'PX', expiry)
    return last
  end
  if not can_count(previous) then
    redis.call('SET', counter, previous, 'KEEPTTL')
    return nil, redis.error_reply('WRONGTYPE the fencing counter is not a number')
  end
  if #previous > #now or #previous == #now and previous >= now then
    -- The counter is ahead of the clock. Lua numbers end at 2^53, so the server adds.
    redis.call('SET', counter, previous, 'KEEPTTL')
    redis.call('INCRBY', counter, tokens)
    last = redis.call('GET', counter)
    redis.call('PEXPIRE', counter, expiry, 'XX')
  elseif #previous < #now or previous < hundred then
    -- Only the first token of 100 seconds renews the expiry, which saves a command for the others of a busy lock.
    redis.call('PEXPIRE', counter, expiry, 'XX')
  end
  return last
end
