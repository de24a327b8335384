-- Remove a count-down latch and tell whoever waits (S-30).
-- KEYS[1] count
-- ARGV[1] channel of the latch
-- returns 1 = done, 0 = there was none.
redis.call('GET', KEYS[1])
if redis.call('DEL', KEYS[1]) == 0 then
  return 0
end
-- Redisson publishes a new count here, by which its waiters look again but do not wake up.
redis.call('PUBLISH', ARGV[1], '0')
return 1
