-- Show how often holds have been entered, for whoever looks (S-6). Nothing reads it back.
-- KEYS[i] lock hash
-- ARGV[2i-1] owner   ARGV[2i] count
-- returns nothing. One bad key does not fail the others.
for i, key in ipairs(KEYS) do
  local shown = redis.pcall('HGET', key, ARGV[2 * i - 1])
  -- None is a writer that has let go.
  if type(shown) == 'string' and shown ~= '0' then
    redis.call('HSET', key, ARGV[2 * i - 1], ARGV[2 * i])
  end
end
return nil
