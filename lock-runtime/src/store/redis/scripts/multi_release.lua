-- Releases those of several mutexes that this owner holds, and notifies their waiters (S-19, S-28).
-- KEYS[1..n] lock hashes
-- ARGV[1] owner   ARGV[2..n+1] the channels of their releases
-- returns how many subscribers received a notification, or -1: not all were held by this owner.
local told, all = 0, true
for i, key in ipairs(KEYS) do
  if redis.pcall('HEXISTS', key, ARGV[1]) == 1 then
    call('DEL', key)
    told = told + (tonumber(redis.pcall('PUBLISH', ARGV[i + 1], '0')) or 0)
  else
    all = false
  end
end
return all and told or -1
