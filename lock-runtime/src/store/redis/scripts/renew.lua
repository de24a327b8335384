-- Keep locks that their owners still hold; never create or shorten one (S-9, S-19, S-27, S-30). What was
-- let go and is kept for a while (end_later.lua) is not held: a renewal that comes late leaves its end.
-- KEYS[2i-1] lock hash   KEYS[2i] where the end of a hold is that is not the hash's: a reader's
--   time-out, the permits of a semaphore; else the hash once more
-- ARGV[4i-3] hold, read or permit   ARGV[4i-2] field of the owner   ARGV[4i-1] lease in ms
-- ARGV[4i] how many permits
-- returns for each: 1 = held by its owner, 0 = not. One bad key does not fail the others.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function prolong(key, lease)
  if redis.call('PTTL', key) < lease then
    redis.call('PEXPIRE', key, lease)
  end
end

local keep = {}

function keep.hold(lock, _, field, lease)
  if redis.call('HEXISTS', lock, field) == 0 then
    return 0
  end
  -- A user who may only take mutexes may not ask.
  if redis.pcall('HGET', lock, field) == '0' then
    return 0
  end
  prolong(lock, lease)
  return 1
end

function keep.read(lock, own, field, lease)
  local entered = redis.call('GET', own)
  if redis.call('HEXISTS', lock, field) == 0 or not entered or entered == '0' then
    return 0
  end
  prolong(own, lease)
  prolong(lock, lease)
  return 1
end

function keep.permit(free, permits, field, lease, count)
  local score = redis.call('ZSCORE', permits, field)
  if not score or tonumber(score) <= now or tonumber(score) % 1 > 0 then
    return 0
  end
  -- Removes nothing. A script that has written may write on when memory is short.
  redis.call('ZREM', permits, '')
  for _, key in ipairs({permits, free}) do
    if redis.call('PTTL', key) >= 0 then
      prolong(key, lease)
    end
  end
  for n = 1, count do
    redis.call('ZADD', permits, 'XX', 'GT', string.format('%.0f', now + lease),
      n == 1 and field or field .. ':' .. n)
  end
  return 1
end

local held = {}
for i = 1, #KEYS / 2 do
  local kind, field = ARGV[4 * i - 3], ARGV[4 * i - 2]
  local lease, count = tonumber(ARGV[4 * i - 1]), tonumber(ARGV[4 * i])
  local ok, answer = pcall(keep[kind], KEYS[2 * i - 1], KEYS[2 * i], field, lease, count)
  if not ok then
    -- What a failed command raises arrives here as its bare text.
    local problem = type(answer) == 'table' and answer.err or answer
    if not string.find(problem, 'WRONGTYPE') then
      -- Not allowed, read only and the like: nobody has said whose it is.
      return redis.error_reply(problem)
    end
  end
  held[i] = ok and answer or 0
end
return held
