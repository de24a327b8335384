-- Give back the write side if this owner holds it, and its announcement in any case (S-17, S-19,
-- S-27). What it reads meanwhile stays: the lock is downgraded.
-- KEYS[1] lock hash   KEYS[2] waiting writers   KEYS[3] the time-out of this owner's read hold
-- ARGV[1] owner   ARGV[2] channel of the lock's releases
-- returns how many subscribers were told, or -1: not held by this owner.
local withdrawn = redis.call('ZREM', KEYS[2], ARGV[1]) == 1
if redis.call('HEXISTS', KEYS[1], ARGV[1] .. ':write') == 0 then
  if withdrawn then
    local time = redis.call('TIME')
    local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
    if redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf') == 0 then
      -- Readers that let it go first need not any more. Writers that died do not count.
      redis.call('PUBLISH', ARGV[2], '1')
    end
  end
  return -1
end
redis.call('HDEL', KEYS[1], ARGV[1] .. ':write')
local left = redis.call('PTTL', KEYS[3])
if left > 0 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], 'mode', 'read')
  redis.call('PEXPIRE', KEYS[1], left)
else
  redis.call('DEL', KEYS[1])
end
-- One message for all readers, also after a downgrade: Redisson forgets them there.
return redis.call('PUBLISH', ARGV[2], '1')
