-- Releases a mutex if this owner holds it, and notifies its waiters (S-19, S-25).
-- KEYS[1] lock hash
-- ARGV[1] owner   ARGV[2] channel of its releases
-- returns how many subscribers received the notification, or -1: not held by this owner.

-- The owner is the only field, and a hash without fields is gone.
if call('HDEL', KEYS[1], ARGV[1]) == 0 then
  return -1
end
return tonumber(redis.pcall('PUBLISH', ARGV[2], '0')) or 0
