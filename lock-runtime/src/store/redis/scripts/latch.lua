-- Sets, reads, counts down or removes a count-down latch, and notifies its waiters (S-30).
-- KEYS[1] count   KEYS[2] fencing counter that a semaphore of this name has
-- KEYS[3] permits of such a semaphore that are in use
-- ARGV[1] channel of the latch   ARGV[2] set, down, count or remove   ARGV[3] new count
-- returns for down and count: the remaining count, 0 if there is no latch;
--         for set: 1 = done, 0 = there was a latch already; for remove: 1 = done, 0 = there was none.
local count = call('GET', KEYS[1])
if count then
  if not string.match(count, '^-?%d+$') then
    return redis.error_reply('WRONGTYPE the key holds no count')
  end
  -- The free permits of this client's semaphore expire soon and have a fencing counter.
  local ttl = call('PTTL', KEYS[1])
  if not is_latch(ttl) and (call('EXISTS', KEYS[3]) == 1
    or ttl ~= -1 and call('EXISTS', KEYS[2]) == 1) then
    return redis.error_reply('WRONGTYPE the key holds the free permits of a semaphore')
  end
end
if ARGV[2] == 'set' then
  if count then
    return 0
  end
  call('SET', KEYS[1], ARGV[3], 'PX', latch_ms)
  redis.pcall('PUBLISH', ARGV[1], '1')
  return 1
end
if not count then
  return 0
end
if ARGV[2] == 'count' then
  return tonumber(count)
end
-- Changes nothing, but counts as a write: after a first write, a script may write even when memory is short.
call('PEXPIRE', KEYS[1], 1, 'GT')
if ARGV[2] == 'down' then
  local left = call('DECR', KEYS[1])
  if left > 0 then
    return left
  end
end
call('DEL', KEYS[1])
-- Also when it is removed: on Redisson's own message for that, its waiters look again but do not wake up.
redis.pcall('PUBLISH', ARGV[1], '0')
return ARGV[2] == 'down' and 0 or 1
