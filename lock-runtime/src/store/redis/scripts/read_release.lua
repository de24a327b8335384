-- Releases the read side if this owner holds it, else gives up its place among the waiting readers; the last reader
-- frees the lock (S-17, S-19, S-27).
-- Removes readers whose own key has expired. Also removes a writer around them that was released and is kept for a
-- while, once it has ended: the readers are then readers like others.
-- KEYS[1] lock hash   KEYS[2] waiting readers   KEYS[3] due readers
-- KEYS[4] this hold's own key
-- ARGV[1] owner   ARGV[2] channel of the lock's releases   ARGV[3] prefix of the readers' own keys
-- returns how many subscribers received the notification, or -1: not held by this owner.
if call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  local place = call('ZSCORE', KEYS[3], ARGV[1])
  call('ZREM', KEYS[2], ARGV[1])
  call('ZREM', KEYS[3], ARGV[1])
  if place and call('HGET', KEYS[1], 'mode') ~= 'write' then
    if tonumber(place) > now_in_ms() then
      -- A writer may have waited for this due reader.
      redis.pcall('PUBLISH', ARGV[2], '0')
    end
  end
  return -1
end
local alive = call('EXISTS', KEYS[4]) == 1
call('HDEL', KEYS[1], ARGV[1])
call('DEL', KEYS[4])

local write = call('HGET', KEYS[1], 'mode') == 'write'
local longest = -1
local fields = call('HGETALL', KEYS[1])
local kept
for i = 1, #fields, 2 do
  kept = kept or write and fields[i + 1] == '0' and fields[i]
end
for i = 1, #fields, 2 do
  local count = tonumber(fields[i + 1])
  if count and (kept or not write) then
    -- Redisson has one timeout key for each entry of a reader, this client has one for all.
    local left = -2
    for n = 1, math.min(math.max(count, 1), 256) do
      left = math.max(left, call('PTTL', ARGV[3] .. ':' .. fields[i] .. ':rwlock_timeout:' .. n))
      if left > 0 and count > 16 then
        break
      end
    end
    if left > 0 then
      longest = math.max(longest, left)
    else
      call('HDEL', KEYS[1], fields[i])
    end
  end
end
local told = 0
if longest > 0 then
  call('PEXPIRE', KEYS[1], longest)
  if kept and call('HEXISTS', KEYS[1], kept) == 0 then
    call('HSET', KEYS[1], 'mode', 'read')
  end
elseif kept or not write then
  call('DEL', KEYS[1])
end
if kept then
  -- The lock may end earlier now, also for readers.
  told = tonumber(redis.pcall('PUBLISH', ARGV[2], '1')) or 0
elseif not write and longest <= 0 then
  told = tonumber(redis.pcall('PUBLISH', ARGV[2], '0')) or 0
end
return alive and told or -1
