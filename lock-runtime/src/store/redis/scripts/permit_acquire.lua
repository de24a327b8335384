-- Acquires permits of a semaphore for one owner, if enough are free (S-22, S-23, S-30). A hold of n permits has n
-- members in the set; their score is the end of its lease in the server's time, after which they are free. The string
-- has the number of free permits, for Redisson's clients.
-- KEYS[1] free permits   KEYS[2] fencing counter   KEYS[3] permits in use
-- ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] tokens to reserve   ARGV[4] counter expiry in ms
-- ARGV[5] permits wanted   ARGV[6] permits in all   ARGV[7] channel of the lock's releases
-- returns the last reserved token as a string: acquired;
--         an integer: not enough are free; they are after that many ms unless leases are renewed, -1 if one of these
--         leases has no end.
local now = now_in_ms()
local wanted, limit = tonumber(ARGV[5]), tonumber(ARGV[6])
local free = call('GET', KEYS[1])
local members = call('ZCARD', KEYS[3])
local ttl = call('PTTL', KEYS[1])
-- Made by Redisson, which gives it no end.
local endless = ttl == -1
if free and not string.match(free, '^-?%d+$') then
  return redis.error_reply('WRONGTYPE the key holds no number of permits')
end
if is_latch(ttl) then
  return redis.error_reply('WRONGTYPE the key holds a count-down latch')
end
if endless and tonumber(free) + members ~= limit then
  return redis.error_reply('WRONGTYPE the key holds a count-down latch, or a semaphore of Redisson ' ..
    'with another number of permits')
end

local ours = tonumber(call('ZSCORE', KEYS[3], ARGV[1]) or 0)
ours = ours > now and ours
local alive = '(' .. string.format('%.0f', now)
local over = call('ZCOUNT', KEYS[3], alive, '+inf') + wanted - limit
if not ours and over > 0 then
  -- The lease whose end frees the last permit that is missing.
  local last = call('ZRANGEBYSCORE', KEYS[3], alive, '+inf', 'WITHSCORES', 'LIMIT', over - 1, 1)
  -- Redisson's score for a permit without a lease.
  local forever = not last[2] or tonumber(last[2]) >= 922337203685477
  return forever and -1 or math.max(1, math.floor(last[2]) - now)
end

local token, problem = mint(KEYS[2], ARGV[3], ARGV[4])
if problem then
  return problem
end
local ended = call('ZREMRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now))
-- A repeated request of the holder must not shorten an extended lease. A hold that was released and kept
-- (end_later.lua) counts as held again.
local score = string.format('%.0f', math.max(now + tonumber(ARGV[2]), math.floor(ours or 0)))
local function member(n)
  return n == 1 and ARGV[1] or ARGV[1] .. ':' .. n
end
for n = 1, wanted do
  call('ZADD', KEYS[3], score, member(n))
end
local rest = limit - call('ZCARD', KEYS[3])
if endless then
  -- Its permits may have no end either.
  call('SET', KEYS[1], rest)
  call('PERSIST', KEYS[3])
else
  local last = call('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
  local expiry = math.max(tonumber(ARGV[2]) + tonumber(ARGV[4]), tonumber(last[2]) - now)
  -- A lease of Redisson's that is as long as a lifetime: as one without an end.
  expiry = is_latch(expiry) and 922337203685477 - now or expiry
  expiry = string.format('%.0f', expiry)
  local unset = set_end(KEYS[3], expiry, members == ended)
  if unset then
    for n = 1, ours and 0 or wanted do
      call('ZREM', KEYS[3], member(n))
    end
    return unset
  end
  call('SET', KEYS[1], rest, 'PX', expiry)
end
if ended > 0 and rest > 0 then
  redis.pcall('PUBLISH', ARGV[7], rest)
end
return token
