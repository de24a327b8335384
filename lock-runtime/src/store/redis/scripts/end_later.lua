-- Moves the end of a hold to a given time from now, sooner or later than before, instead of releasing it
-- (S-19, S-27, S-30). The end itself publishes nothing, so waiters are notified now, and learn of the new end.
-- KEYS[2i-1] lock hash, or free permits   KEYS[2i] a fair lock's queue, a reader's own key, the
--   permits of a semaphore; else the hash once more
-- ARGV[1] the time from now in ms   ARGV[5i-3] hold, fair, read, write or permit   ARGV[5i-2] field of the owner
-- ARGV[5i-1] how many permits   ARGV[5i] channel of the lock's releases
-- ARGV[5i+1] prefix of a fair queue's channels or of the readers' own keys
-- returns 0 = done, or -1: not all held by this owner; those that are held end then.
local now = now_in_ms()
local later = tonumber(ARGV[1])
local finish = {}

-- A count of 0 marks a hold that was released and is kept; a late renewal does not move its end (renew.lua).
function finish.hold(lock, _, field, _, channel)
  call('PEXPIRE', lock, later)
  call('HSET', lock, field, 0)
  redis.pcall('PUBLISH', channel, '0')
end

function finish.fair(lock, queue, field, _, _, prefix)
  call('PEXPIRE', lock, later)
  call('HSET', lock, field, 0)
  -- A user's data at the key of the queue is an error here, and does not prevent the rest.
  local head = redis.pcall('LINDEX', queue, 0)
  if type(head) == 'string' then
    notify_head(queue, prefix, head)
  end
end

-- The latest end of the owners in the hash that have a key of their own. Redisson has one such key for each entry of a
-- reader, this client has one for all.
local function longest_reader(lock, prefix)
  local longest = -2
  local fields = call('HGETALL', lock)
  for i = 1, #fields, 2 do
    local count = tonumber(fields[i + 1]) or 0
    for n = 1, math.min(math.max(count, 1), 256) do
      local left = call('PTTL', prefix .. ':' .. fields[i] .. ':rwlock_timeout:' .. n)
      longest = math.max(longest, left)
      if left > 0 and count > 16 then
        break
      end
    end
  end
  return longest
end

function finish.read(lock, own, _, _, channel, prefix)
  call('PEXPIRE', own, later)
  -- The mark of a read hold is in its own key: in the hash, a count of 0 marks a writer.
  call('SET', own, '0', 'PX', later)
  local ends = longest_reader(lock, prefix)
  -- A read inside a write hold does not shorten that hold.
  if call('HGET', lock, 'mode') == 'read' or call('PTTL', lock) < ends then
    call('PEXPIRE', lock, ends)
  end
  redis.pcall('PUBLISH', channel, '0')
end

function finish.write(lock, _, field, _, channel, prefix)
  call('PEXPIRE', lock, later)
  -- Readers inside may extend the hash. So the writer gets a count of 0, which marks it as released, and a key of its
  -- own like a reader, which has its end.
  call('HSET', lock, field, 0)
  call('SET', prefix .. ':' .. field .. ':rwlock_timeout:1', '1', 'PX', later)
  call('PEXPIRE', lock, longest_reader(lock, prefix))
  redis.pcall('PUBLISH', channel, '1')
end

function finish.permit(free, permits, field, count, channel)
  -- Removes nothing, but counts as a write: after a first write, a script may write even when memory is short.
  call('ZREM', permits, '')
  for _, key in ipairs({permits, free}) do
    local left = call('PTTL', key)
    if left >= 0 and left < later then
      call('PEXPIRE', key, later)
    end
  end
  for n = 1, count do
    -- Half a millisecond more marks it as released: no other end has a fraction.
    call('ZADD', permits, 'XX', string.format('%.0f', now + later) .. '.5',
      n == 1 and field or field .. ':' .. n)
  end
  redis.pcall('PUBLISH', channel, count)
end

local function is_held(manner, lock, own, field)
  if manner == 'permit' then
    local score = call('ZSCORE', own, field)
    return score and tonumber(score) > now
  end
  return call('HEXISTS', lock, field) == 1
    and (manner ~= 'read' or call('EXISTS', own) == 1)
end

local answer = 0
for i = 1, #KEYS / 2 do
  local lock, own, manner, field = KEYS[2 * i - 1], KEYS[2 * i], ARGV[5 * i - 3], ARGV[5 * i - 2]
  local count, channel, prefix = tonumber(ARGV[5 * i - 1]), ARGV[5 * i], ARGV[5 * i + 1]
  local ok, held = pcall(is_held, manner, lock, own, field)
  if not ok then
    -- pcall turns the error of a command into text.
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
