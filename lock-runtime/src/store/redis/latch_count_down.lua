-- Count a count-down latch down, and tell whoever waits once nothing is left (S-30).
-- KEYS[1] count
-- ARGV[1] channel of the latch
-- returns what is left. A latch that has no count has nothing left.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
local left = redis.call('DECR', KEYS[1])
if left > 0 then
  return left
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', ARGV[1], '0')
return 0
