-- Shows how often holds have been entered, for people who look into the store (S-6). Nothing else reads it.
-- KEYS[i] lock hash
-- ARGV[2i-1] owner   ARGV[2i] count
-- returns nothing. One bad key does not fail the others.
for i, key in ipairs(KEYS) do
  local field = ARGV[2 * i - 1]
  -- A count of 0 marks a released hold. An ACL for mutexes alone does not allow HGET.
  if redis.pcall('HEXISTS', key, field) == 1 and redis.pcall('HGET', key, field) ~= '0' then
    call('HSET', key, ARGV[2 * i - 1], ARGV[2 * i])
  end
end
return nil
