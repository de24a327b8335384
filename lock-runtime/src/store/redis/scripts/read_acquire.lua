-- Acquires the read side for one owner, unless there is a writer or an announced writer (S-22, S-23, S-27).
-- A reader that is refused and waits joins the set of waiting readers. It is due once it has waited through a write, or
-- through the rest of one: an announced writer does not delay a due reader, and no writer acquires the lock before it.
-- Due readers are in a set of their own; each write moves all waiting readers there at once.
-- A read hold is a field of the hash and a key of its own, which has the expiry of the hold: the hold of a dead reader
-- must end though others renew the hash.
-- KEYS[1] lock hash   KEYS[2] fencing counter   KEYS[3] waiting writers   KEYS[4] waiting readers
-- KEYS[5] due readers   KEYS[6] this hold's own key
-- ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] tokens to reserve   ARGV[4] counter expiry in ms
-- ARGV[5] 1 = only if this hold exists and another reader may join it, or if the write hold around it exists
-- ARGV[6] owner of the write hold around it
-- ARGV[7] how long it stays among the waiting readers in ms, 0 for not at all
-- returns the last reserved token as a string: acquired;
--         an integer: a writer holds it, or is kept after its release, for that many ms unless renewed, -1 if that has no
--         end;
--         a list of one integer: an announced writer goes first; ask again after that many ms.
local mode = call('HGET', KEYS[1], 'mode')
if mode ~= 'read' and mode ~= 'write' and (mode or call('EXISTS', KEYS[1]) == 1) then
  return redis.error_reply('WRONGTYPE the key holds another kind of lock')
end
local prefix = string.sub(KEYS[6], 1, -#(':' .. ARGV[1] .. ':rwlock_timeout:1') - 1)
local ours = call('EXISTS', KEYS[6]) == 1 and call('HEXISTS', KEYS[1], ARGV[1]) == 1
local entered = mode == 'write' and call('HGET', KEYS[1], ARGV[6] .. ':write')
-- A writer that was released and is kept for a while (count 0) admits no readers.
local writes = entered and entered ~= '0'
local function turned_away(left, due)
  local keep = ARGV[5] == '1' and 0 or tonumber(ARGV[7])
  if keep > 0 then
    local now = now_in_ms()
    -- First the commands that need no memory: after a first write, a script may write even when memory is short.
    local set, other = KEYS[4], KEYS[5]
    if due then
      set, other = other, set
    end
    call('ZREM', other, ARGV[1])
    call('ZREMRANGEBYSCORE', set, '-inf', now)
    call('ZADD', set, string.format('%.0f', now + keep), ARGV[1])
    local latest = call('ZREVRANGE', set, 0, 0, 'WITHSCORES')
    local problem = set_end_of_waiters(set, string.format('%.0f', tonumber(latest[2]) - now), ARGV[1])
    return problem or left
  end
  return left
end
if mode == 'write' and not (writes or ours) then
  local left, kept = call('PTTL', KEYS[1]), nil
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    if fields[i + 1] == '0' then
      -- Reads inside extend the hash; a writer that was released ends with a key of its own (end_later.lua).
      kept = fields[i]
      left = call('PTTL', prefix .. ':' .. kept .. ':rwlock_timeout:1')
    end
  end
  if not kept or left > 0 then
    return turned_away(left, true)
  end
  -- The reads inside of it are now readers like others.
  call('HDEL', KEYS[1], kept)
  call('HSET', KEYS[1], 'mode', 'read')
  mode = 'read'
end
if ARGV[5] == '1' and not (ours or writes) then
  -- The hold has ended meanwhile, and joining never creates one.
  return {1}
end
-- The owner of the write hold may read, and an existing read hold goes on. All others let announced writers go first.
if not writes and (ARGV[5] == '1' or not ours) then
  local now = now_in_ms()
  local last = call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
  if last[2] and tonumber(last[2]) > now then
    local place = ARGV[5] ~= '1' and call('ZSCORE', KEYS[5], ARGV[1])
    if not place or tonumber(place) <= now then
      return turned_away({tonumber(last[2]) - now}, false)
    end
  end
end

if mode == 'read' and not ours then
  local field = stranger(KEYS[1])
  -- `mode` alone is what a writer that was kept leaves, if the reads inside of it ended first; that has an end.
  local is_left = field == 'mode' and call('PTTL', KEYS[1]) > 0
  if field and not is_left and call('EXISTS', prefix .. ':' .. field .. ':rwlock_timeout:1') == 0 then
    return redis.error_reply('WRONGTYPE the key holds no lock')
  end
end
local token, problem = mint(KEYS[2], ARGV[3], ARGV[4])
if problem then
  return problem
end
if call('EXISTS', KEYS[4], KEYS[5]) > 0 then
  call('ZREM', KEYS[4], ARGV[1])
  call('ZREM', KEYS[5], ARGV[1])
end
if not mode then
  call('HSET', KEYS[1], 'mode', 'read')
end
if not ours then
  call('HSET', KEYS[1], ARGV[1], 1)
end
local ends = math.max(call('PTTL', KEYS[6]), tonumber(ARGV[2]))
call('SET', KEYS[6], '1', 'PX', ends)
if call('PTTL', KEYS[1]) < ends then
  problem = set_end(KEYS[1], ends, not mode)
  if problem and not ours then
    call('HDEL', KEYS[1], ARGV[1])
  end
end
return problem or token
