-- Renews holds of any kind that still exist; never creates or shortens one (S-9, S-19, S-27, S-30). A hold that was
-- released and is kept for a while (end_later.lua) does not count as held: a late renewal leaves its end alone.
-- KEYS[2i-1] lock hash   KEYS[2i] the key that has the end of the hold: a reader's own key, the permits of a
--   semaphore, else the hash once more
-- ARGV[4i-3] hold, read or permit   ARGV[4i-2] field of the owner   ARGV[4i-1] lease in ms, 0 only asks
-- ARGV[4i] how many permits
-- returns 0: all are held by their owners; else a list of the i that are not. One bad key does not fail the others.
local function prolong(key, lease)
  if lease == '0' then
    return
  end
  if call('PEXPIRE', key, lease, 'GT') == 0 and call('PTTL', key) == -1 then
    -- GT takes a key without an end for one that lasts longer; a lock must have an end.
    call('PEXPIRE', key, lease)
  end
end

local keep = {}

function keep.hold(lock, _, field, lease)
  local count = redis.pcall('HGET', lock, field)
  if type(count) == 'table' then
    -- An ACL for mutexes alone does not allow HGET.
    count = call('HEXISTS', lock, field) == 1
  end
  if not count or count == '0' then
    return 0
  end
  prolong(lock, lease)
  return 1
end

function keep.read(lock, own, field, lease)
  local entered = call('GET', own)
  if call('HEXISTS', lock, field) == 0 or not entered or entered == '0' then
    return 0
  end
  prolong(own, lease)
  prolong(lock, lease)
  return 1
end

function keep.permit(free, permits, field, lease, count)
  local now, score = now_in_ms(), call('ZSCORE', permits, field)
  if not score or tonumber(score) <= now or tonumber(score) % 1 > 0 then
    return 0
  end
  if lease == '0' then
    return 1
  end
  -- Removes nothing, but counts as a write: after a first write, a script may write even when memory is short.
  call('ZREM', permits, '')
  for _, key in ipairs({permits, free}) do
    if call('PTTL', key) >= 0 then
      prolong(key, lease)
    end
  end
  for n = 1, tonumber(count) do
    call('ZADD', permits, 'XX', 'GT', string.format('%.0f', now + lease),
      n == 1 and field or field .. ':' .. n)
  end
  return 1
end

local KEYS, ARGV, lost = KEYS, ARGV, {}
for i = 1, #KEYS / 2 do
  local key, arg = 2 * i, 4 * i
  local ok, answer =
    pcall(keep[ARGV[arg - 3]], KEYS[key - 1], KEYS[key], ARGV[arg - 2], ARGV[arg - 1], ARGV[arg])
  if not ok then
    -- pcall turns the error of a command into text.
    local problem = type(answer) == 'table' and answer.err or answer
    if not string.find(problem, 'WRONGTYPE') then
      -- Not allowed, read-only and the like: the server did not say who holds it.
      return redis.error_reply(problem)
    end
  end
  if not ok or answer == 0 then
    lost[#lost + 1] = i
  end
end
return #lost > 0 and lost or 0
