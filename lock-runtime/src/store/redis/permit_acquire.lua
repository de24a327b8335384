-- Take permits of a semaphore for one owner, if so many are free (S-22, S-23, S-30). A hold of n
-- permits has n members in the set, scored by when its lease ends in the server's time; what has
-- ended is free. The string says how many permits are free, for Redisson's clients.
-- KEYS[1] free permits   KEYS[2] fencing counter   KEYS[3] permits in use
-- ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] tokens to reserve   ARGV[4] counter expiry in ms
-- ARGV[5] permits wanted   ARGV[6] permits in all   ARGV[7] channel of the lock's releases
-- returns the last reserved token as a string: taken;
--         an integer: not yet; after so many ms something changes by itself, -1 if nothing does.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wanted, limit = tonumber(ARGV[5]), tonumber(ARGV[6])
local free = redis.call('GET', KEYS[1])
if free and not string.match(free, '^-?%d+$') then
  return redis.error_reply('WRONGTYPE the key holds another kind of lock')
end
local ours = redis.call('ZSCORE', KEYS[3], ARGV[1])
ours = ours and tonumber(ours) > now
local used = redis.call('ZCOUNT', KEYS[3], '(' .. string.format('%.0f', now), '+inf')
if not ours and used + wanted > limit then
  local first = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. string.format('%.0f', now), '+inf',
    'WITHSCORES', 'LIMIT', 0, 1)
  return first[2] and math.max(1, tonumber(first[2]) - now) or -1
end

local token, problem = mint(KEYS[2], ARGV[3], ARGV[4])
if problem then
  return problem
end
local ended = redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now))
local score = string.format('%.0f', now + tonumber(ARGV[2]))
for n = 1, wanted do
  -- Asked again for the same owner, it must not shorten an extension.
  redis.call('ZADD', KEYS[3], 'GT', score, n == 1 and ARGV[1] or ARGV[1] .. ':' .. n)
end
local rest = limit - redis.call('ZCARD', KEYS[3])
if free and redis.call('PTTL', KEYS[1]) == -1 then
  -- Made by Redisson, which gives it no end; its permits may have none either.
  redis.call('SET', KEYS[1], rest)
else
  local expiry = string.format('%.0f', tonumber(ARGV[2]) + tonumber(ARGV[4]))
  redis.call('SET', KEYS[1], rest, 'PX', expiry)
  redis.call('PEXPIRE', KEYS[3], expiry)
end
if ended > 0 and rest > 0 then
  redis.call('PUBLISH', ARGV[7], rest)
end
return token
