-- Reads a name without changing anything: the kind of lock, its holders, the remaining lease, and the waiters
-- (S-25, S-26, S-27, S-30).
-- KEYS[1] lock   KEYS[2] fencing counter   KEYS[3] scores of a fair queue's members
-- KEYS[4] waiting writers   KEYS[5] permits in use   KEYS[6] queue of a fair lock
-- ARGV[1] prefix of the readers' own keys
-- returns the kind as a string, empty if it is not held; the remaining time of the longest lease in ms, -1 if it has no
--         end; the last token as a string or empty; the number of waiters with a place; the number of free permits, -1
--         unless some are in use; the first waiters of the queue in order; then owner and count of each holder.
local now = now_in_ms()
local after = '(' .. string.format('%.0f', now)
local kind, left, free, holders, writes = '', -2, -1, {}, false

local function add(owner, count, ttl)
  holders[#holders + 1] = owner
  holders[#holders + 1] = count
  left = (left == -1 or ttl == -1) and -1 or math.max(left, ttl)
end

-- Redisson has one timeout key for each entry of a reader, this client has one for all.
local function reader_left(owner, count)
  local most = -2
  for n = 1, math.min(math.max(count, 1), 256) do
    most = math.max(most, call('PTTL', ARGV[1] .. ':' .. owner .. ':rwlock_timeout:' .. n))
    if n == 1 and most > 0 and count > 64 then
      break
    end
  end
  return most
end

local type = call('TYPE', KEYS[1]).ok
if type == 'hash' then
  local mode = call('HGET', KEYS[1], 'mode')
  local fields = not stranger(KEYS[1]) and call('HGETALL', KEYS[1])
  if not fields or not is_lock(mode, fields) then
    return redis.error_reply('WRONGTYPE the key holds a hash that is no lock')
  end
  mode = mode or 'mutex'
  local ttl = call('PTTL', KEYS[1])
  for i = 1, #fields, 2 do
    local owner, count = fields[i], tonumber(fields[i + 1])
    if owner ~= 'mode' then
      local writer = mode == 'write' and string.match(owner, ':write$')
      -- A count of 0 marks a writer that was released and is kept for a while. It has a key of its own, like a reader.
      local own = mode == 'read' or mode == 'write' and (not writer or count == 0)
      local ends = own and reader_left(owner, count) or ttl
      if ends ~= -2 then
        add(owner, math.max(count, 1), ends)
        writes = writes or writer
      end
    end
  end
  if mode == 'write' and not writes then
    -- The writer is over. The next acquire says so in the hash.
    mode = 'read'
  end
  kind = #holders > 0 and mode or ''
elseif type == 'string' or type == 'none' then
  local value = call('GET', KEYS[1])
  if value and not string.match(value, '^-?%d+$') then
    return redis.error_reply('WRONGTYPE the key holds a string, as `SET NX` leaves')
  end
  local permits = call('ZRANGEBYSCORE', KEYS[5], after, '+inf', 'WITHSCORES')
  local at = {}
  for i = 1, #permits, 2 do
    -- `uuid:n`, and `uuid:n:2` and so on for its further permits.
    local owner = permit_owner(permits[i])
    if owner then
      -- Redisson's permits without a lease end in 29 000 years.
      local score = tonumber(permits[i + 1])
      left = (left == -1 or score >= 922337203685477) and -1 or math.max(left, score - now)
      if not at[owner] then
        at[owner] = #holders + 2
        holders[#holders + 1] = owner
        holders[#holders + 1] = 0
      end
      holders[at[owner]] = holders[at[owner]] + 1
    end
  end
  if #holders > 0 then
    kind = 'semaphore'
    -- The next acquire gives back the permits whose lease has ended.
    free = value and math.max(value + call('ZCOUNT', KEYS[5], '-inf', string.format('%.0f', now)), 0) or 0
  elseif value then
    -- Redisson's plain semaphore looks like its latch.
    local ttl = call('PTTL', KEYS[1])
    if ttl == -1 or is_latch(ttl) then
      kind, left = 'latch', -1
    end
  end
else
  return redis.error_reply('WRONGTYPE the key holds a ' .. type)
end

local waiting = call('ZCOUNT', KEYS[3], after, '+inf')
  + call('ZCOUNT', KEYS[4], after, '+inf')
local last = call('GET', KEYS[2]) or ''
local queue = {}
if call('TYPE', KEYS[6]).ok == 'list' then
  for _, waiter in ipairs(call('LRANGE', KEYS[6], 0, 99)) do
    local place = call('ZSCORE', KEYS[3], waiter)
    if owner_of(waiter) and place and tonumber(place) > now then
      queue[#queue + 1] = waiter
    end
  end
end
local answer = {kind, left, last, waiting, free, queue}
for _, value in ipairs(holders) do
  answer[#answer + 1] = value
end
return answer
