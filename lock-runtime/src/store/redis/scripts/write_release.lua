-- Releases the write side if this owner holds it, and ends its announcement in any case (S-17, S-19, S-27). Reads
-- inside it remain: the lock is downgraded.
-- KEYS[1] lock hash   KEYS[2] waiting writers
-- ARGV[1] owner   ARGV[2] channel of the lock's releases   ARGV[3] prefix of the readers' own keys
-- returns how many subscribers received the notification, or -1: not held by this owner.

-- A user's data at this key does not prevent the release.
local withdrawn = redis.pcall('ZREM', KEYS[2], ARGV[1]) == 1
if call('HDEL', KEYS[1], ARGV[1] .. ':write') == 0 then
  if withdrawn then
    local now = now_in_ms()
    local last = call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    if not last[2] or tonumber(last[2]) <= now then
      -- Readers may have let this writer go first.
      redis.pcall('PUBLISH', ARGV[2], '1')
    end
  end
  return -1
end
local longest = -1
for _, field in ipairs(call('HKEYS', KEYS[1])) do
  if field ~= 'mode' then
    -- Only reads inside this write hold, which have one key each: no other owner reads during a write.
    local left = call('PTTL', ARGV[3] .. ':' .. field .. ':rwlock_timeout:1')
    longest = math.max(longest, left)
    if left <= 0 then
      call('HDEL', KEYS[1], field)
    end
  end
end
if longest > 0 then
  call('HSET', KEYS[1], 'mode', 'read')
  call('PEXPIRE', KEYS[1], longest)
else
  call('DEL', KEYS[1])
end
-- Notifies all readers, also after a downgrade, where Redisson does not.
return tonumber(redis.pcall('PUBLISH', ARGV[2], '1')) or 0
