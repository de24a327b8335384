-- Reserves fencing tokens: a function for every script that acquires (S-23).
-- counter: one of its KEYS[..]   tokens, expiry in ms: from its ARGV[..], as text
-- returns the last reserved token as a string, or nothing and an error reply; then whether the expiry was renewed.
-- Call it before anything has changed: when memory is short, its SET fails first.
-- A counter without an expiry gets none: Redisson made it, and would not renew an expiry.
-- Tokens are compared as text, which costs the server less than numbers.

-- True for numbers that INCRBY accepts: a leading zero would stop it half way.
local function can_count(value)
  return #value <= 18 and (string.find(value, '^[1-9]%d*$') or value == '0')
end

-- Tokens above a counter that is a number and ahead of the clock. Lua numbers are exact below 2^53; from there on, the
-- server adds.
local function add_to(counter, previous, tokens)
  if previous + tokens < 2 ^ 53 then
    local last = string.format('%.0f', previous + tokens)
    call('SET', counter, last, 'KEEPTTL')
    return last
  end
  call('SET', counter, previous, 'KEEPTTL')
  call('INCRBY', counter, tokens)
  return call('GET', counter)
end

-- The first and the last microsecond of the 100 seconds that the server's time is in.
local hundred_start, hundred_end

local function mint(counter, tokens, expiry)
  local now = now_in_micros()
  if not hundred_start then
    local hundred = string.sub(now, 1, -9)
    hundred_start, hundred_end = hundred .. '00000000', hundred .. '99999999'
  end
  local last = tokens == '1' and now or string.format('%.0f', now + tokens - 1)
  local previous = call('SET', counter, last, 'KEEPTTL', 'GET')
  if not previous then
    call('SET', counter, last, 'PX', expiry)
    return last, nil, true
  end
  -- Within the 100 seconds of the clock the expiry is not renewed, which saves a busy lock a command. Tokens that are
  -- the first ones beyond them renew it, and so does each one of a counter that is further ahead.
  local is_behind = #previous == #now and previous < now
  if is_behind and previous >= hundred_start and last <= hundred_end then
    -- The previous value begins as the time does, so it is a token.
    return last
  end
  if not can_count(previous) then
    call('SET', counter, previous, 'KEEPTTL')
    return nil, redis.error_reply('WRONGTYPE the fencing counter is not a number')
  end
  if not is_behind and #previous >= #now then
    last = add_to(counter, previous, tokens)
    if #last == #now and last <= hundred_end then
      return last
    end
  end
  call('PEXPIRE', counter, expiry, 'XX')
  return last, nil, true
end
