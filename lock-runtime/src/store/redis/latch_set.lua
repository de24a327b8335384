-- Give a count-down latch its count, if it has none (S-30).
-- KEYS[1] count
-- ARGV[1] new count   ARGV[2] channel of the latch
-- returns 1 = done, 0 = it has one.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
redis.call('PUBLISH', ARGV[2], '1')
return 1
