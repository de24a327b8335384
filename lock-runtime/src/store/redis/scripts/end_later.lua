-- Have a hold end by itself so long from now, sooner or later than it would, in place of freeing it
-- (S-19, S-27, S-30). Its end tells nobody, so those who wait are told now, and learn of it.
-- KEYS[2i-1] lock hash, or free permits   KEYS[2i] a fair lock's queue, a reader's time-out, the
--   permits of a semaphore; else the hash once more
-- ARGV[1] so long in ms   ARGV[5i-3] hold, fair, read, write or permit   ARGV[5i-2] field of the owner
-- ARGV[5i-1] how many permits   ARGV[5i] channel of the lock's releases
-- ARGV[5i+1] prefix of a fair queue's channels or of the readers' time-outs
-- returns 0 = done, or -1: not held by this owner. Of several locks, those that are held end later.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local later = tonumber(ARGV[1])
local finish = {}

-- Entered no times: let go, and kept until its end, which no renewal that comes late moves (renew.lua).
function finish.hold(lock, _, field, _, channel)
  redis.call('PEXPIRE', lock, later)
  redis.call('HSET', lock, field, 0)
  redis.call('PUBLISH', channel, '0')
end

function finish.fair(lock, queue, field, _, _, prefix)
  redis.call('PEXPIRE', lock, later)
  redis.call('HSET', lock, field, 0)
  for _, member in ipairs(redis.call('LRANGE', queue, 0, 31)) do
    if redis.call('PUBLISH', prefix .. ':' .. member, '0') > 0 then
      break
    end
  end
end

-- When the last of those in the hash ends that have a time-out. Redisson has one time-out for each time that a
-- reader entered, ours has one for all.
local function longest_reader(lock, prefix)
  local longest = -2
  local fields = redis.call('HGETALL', lock)
  for i = 1, #fields, 2 do
    local count = tonumber(fields[i + 1]) or 0
    for n = 1, math.min(math.max(count, 1), 256) do
      local left = redis.call('PTTL', prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. n)
      longest = math.max(longest, left)
      if left > 0 and count > 16 then
        break
      end
    end
  end
  return longest
end

function finish.read(lock, own, _, _, channel, prefix)
  redis.call('PEXPIRE', own, later)
  -- As the count of the others: the hash's is for writers only.
  redis.call('SET', own, '0', 'PX', later)
  local ends = longest_reader(lock, prefix)
  -- Who reads inside of a writer does not shorten what that has.
  if redis.call('HGET', lock, 'mode') == 'read' or redis.call('PTTL', lock) < ends then
    redis.call('PEXPIRE', lock, ends)
  end
  redis.call('PUBLISH', channel, '0')
end

function finish.write(lock, _, field, _, channel, prefix)
  redis.call('PEXPIRE', lock, later)
  -- Those inside may have the hash last longer. Entered no times and with a time-out as readers have,
  -- the writer is seen to have let go, and until when it is kept.
  redis.call('HSET', lock, field, 0)
  redis.call('SET', prefix .. ':' .. field .. ':rwlock_timeout:1', '1', 'PX', later)
  redis.call('PEXPIRE', lock, longest_reader(lock, prefix))
  redis.call('PUBLISH', channel, '1')
end

function finish.permit(free, permits, field, count, channel)
  -- Removes nothing. A script that has written may write on when memory is short.
  redis.call('ZREM', permits, '')
  for _, key in ipairs({permits, free}) do
    local left = redis.call('PTTL', key)
    if left >= 0 and left < later then
      redis.call('PEXPIRE', key, later)
    end
  end
  for n = 1, count do
    -- Half a millisecond more says that it was let go: no other end has a fraction.
    redis.call('ZADD', permits, 'XX', string.format('%.0f', now + later) .. '.5',
      n == 1 and field or field .. ':' .. n)
  end
  redis.call('PUBLISH', channel, count)
end

local function is_held(manner, lock, own, field)
  if manner == 'permit' then
    local score = redis.call('ZSCORE', own, field)
    return score and tonumber(score) > now
  end
  return redis.call('HEXISTS', lock, field) == 1
    and (manner ~= 'read' or redis.call('EXISTS', own) == 1)
end

local answer = 0
for i = 1, #KEYS / 2 do
  local lock, own, manner, field = KEYS[2 * i - 1], KEYS[2 * i], ARGV[5 * i - 3], ARGV[5 * i - 2]
  local count, channel, prefix = tonumber(ARGV[5 * i - 1]), ARGV[5 * i], ARGV[5 * i + 1]
  local ok, held = pcall(is_held, manner, lock, own, field)
  if not ok then
    -- What a failed command raises arrives here as its bare text.
    local problem = type(held) == 'table' and held.err or held
    if not string.find(problem, 'WRONGTYPE') then
      return redis.error_reply(problem)
    end
  end
  if ok and held then
    finish[manner](lock, own, field, count, channel, prefix)
  else
    answer = -1
  end
end
return answer
