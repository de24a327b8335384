-- Work a count-down latch: set, count, count down or remove it, and tell its waiters (S-30).
-- KEYS[1] count   KEYS[2] fencing counter that a semaphore of this name has
-- KEYS[3] permits of such a semaphore that are in use
-- ARGV[1] channel of the latch   ARGV[2] set, down, count or remove   ARGV[3] new count
-- returns for down and count: what is left, none if there is no latch;
--         for set and remove: 1 = done, 0 = there was one already, or none.
local count = redis.call('GET', KEYS[1])
if count then
  if not string.match(count, '^-?%d+$') then
    return redis.error_reply('WRONGTYPE the key holds no count')
  end
  -- Free permits of ours have an end that is near, and tokens.
  local ttl = redis.call('PTTL', KEYS[1])
  if not is_latch(ttl) and (redis.call('EXISTS', KEYS[3]) == 1
    or ttl ~= -1 and redis.call('EXISTS', KEYS[2]) == 1) then
    return redis.error_reply('WRONGTYPE the key holds the free permits of a semaphore')
  end
end
if ARGV[2] == 'set' then
  if count then
    return 0
  end
  redis.call('SET', KEYS[1], ARGV[3], 'PX', latch_ms)
  redis.call('PUBLISH', ARGV[1], '1')
  return 1
end
if not count then
  return 0
end
if ARGV[2] == 'count' then
  return tonumber(count)
end
-- Changes nothing, as no end is nearer. A script that has written may write on when memory is short.
redis.call('PEXPIRE', KEYS[1], 1, 'GT')
if ARGV[2] == 'down' then
  local left = redis.call('DECR', KEYS[1])
  if left > 0 then
    return left
  end
end
redis.call('DEL', KEYS[1])
-- Also when removed: on Redisson's message for that, its waiters look again but do not wake up.
redis.call('PUBLISH', ARGV[1], '0')
return ARGV[2] == 'down' and 0 or 1
