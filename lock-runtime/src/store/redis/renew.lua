-- Keep locks that their owners still hold; never create or shorten one (S-9, S-19).
-- KEYS[i] lock hash
-- ARGV[2i-1] owner   ARGV[2i] lease in ms
-- returns for each: 1 = held by its owner, 0 = not. One bad key does not fail the others.
local held = {}
for i, key in ipairs(KEYS) do
  held[i] = 0
  if redis.pcall('HEXISTS', key, ARGV[2 * i - 1]) == 1 then
    held[i] = 1
    if redis.call('PTTL', key) < tonumber(ARGV[2 * i]) then
      redis.call('PEXPIRE', key, ARGV[2 * i])
    end
  end
end
return held
