-- Give back the write side if this owner holds it, and its announcement in any case (S-17, S-19,
-- S-27). What is read inside it stays: the lock is downgraded.
-- KEYS[1] lock hash   KEYS[2] waiting writers
-- ARGV[1] owner   ARGV[2] channel of the lock's releases   ARGV[3] prefix of the readers' time-outs
-- returns how many subscribers were told, or -1: not held by this owner.
-- Somebody's data at that key keeps no lock.
local withdrawn = redis.pcall('ZREM', KEYS[2], ARGV[1]) == 1
if redis.call('HDEL', KEYS[1], ARGV[1] .. ':write') == 0 then
  if withdrawn then
    local time = redis.call('TIME')
    local now = time[1] * 1000 + math.floor(time[2] / 1000)
    local last = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if not last[2] or tonumber(last[2]) <= now then
      -- Readers that let it go first need not any more.
      redis.call('PUBLISH', ARGV[2], '1')
    end
  end
  return -1
end
local longest = -1
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if field ~= 'mode' then
    -- All of ours, with one time-out each: nobody else reads while we write.
    local left = redis.call('PTTL', ARGV[3] .. ':' .. field .. ':rwlock_timeout:1')
    longest = math.max(longest, left)
    if left <= 0 then
      redis.call('HDEL', KEYS[1], field)
    end
  end
end
if longest > 0 then
  redis.call('HSET', KEYS[1], 'mode', 'read')
  redis.call('PEXPIRE', KEYS[1], longest)
else
  redis.call('DEL', KEYS[1])
end
-- One message for all readers, also after a downgrade: Redisson forgets them there.
return redis.call('PUBLISH', ARGV[2], '1')
