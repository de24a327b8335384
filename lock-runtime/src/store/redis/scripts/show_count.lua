-- Show how often holds have been entered, for whoever looks (S-6). Nothing reads back what this writes.
-- KEYS[i] lock hash
-- ARGV[2i-1] owner   ARGV[2i] count
-- returns nothing. One bad key does not fail the others.
for i, key in ipairs(KEYS) do
  local field = ARGV[2 * i - 1]
  -- None is a writer that has let go. Who may only take mutexes may not ask.
  if redis.pcall('HEXISTS', key, field) == 1 and redis.pcall('HGET', key, field) ~= '0' then
    redis.call('HSET', key, ARGV[2 * i - 1], ARGV[2 * i])
  end
end
return nil
