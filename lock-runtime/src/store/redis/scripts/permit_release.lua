-- Releases the permits of a semaphore that this owner has, and notifies its waiters (S-19, S-30).
-- KEYS[1] free permits   KEYS[2] permits in use
-- ARGV[1] owner   ARGV[2] how many it has   ARGV[3] channel of the lock's releases
-- returns how many subscribers received the notification, or -1: not held by this owner.
local now = now_in_ms()
local score = call('ZSCORE', KEYS[2], ARGV[1])
local alive = score and tonumber(score) > now
local freed = 0
for n = 1, tonumber(ARGV[2]) do
  freed = freed + call('ZREM', KEYS[2], n == 1 and ARGV[1] or ARGV[1] .. ':' .. n)
end
if freed == 0 then
  return -1
end
if call('EXISTS', KEYS[1]) == 1 then
  -- Even if the key holds a user's data by now, the permits are free and the waiters are notified.
  redis.pcall('INCRBY', KEYS[1], freed)
end
local told = tonumber(redis.pcall('PUBLISH', ARGV[3], freed)) or 0
return alive and told or -1
