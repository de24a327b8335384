-- Acquires the write side for one owner if there is no other reader or writer and no waiting reader is due; else
-- announces the writer, so that new readers let it go first (S-22, S-23, S-27).
-- KEYS[1] lock hash   KEYS[2] fencing counter   KEYS[3] waiting writers   KEYS[4] waiting readers
-- KEYS[5] due readers
-- ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] tokens to reserve   ARGV[4] counter expiry in ms
-- ARGV[5] how long it is announced in ms, 0 for not at all   ARGV[6] prefix of the readers' own keys
-- returns the last reserved token as a string: acquired;
--         an integer: others hold it, for that many ms unless renewed, -1 if that has no end;
--         a list of one integer: a due reader goes first, for that many ms unless it asks again.
local field = ARGV[1] .. ':write'
local mode = call('HGET', KEYS[1], 'mode')
if mode ~= 'read' and mode ~= 'write' and (mode or call('EXISTS', KEYS[1]) == 1) then
  return redis.error_reply('WRONGTYPE the key holds another kind of lock')
end
local ours = mode == 'write' and call('HEXISTS', KEYS[1], field) == 1
local left = mode == 'write' and call('PTTL', KEYS[1]) or -2
if mode == 'read' then
  -- The hash expires with its last reader; each reader's own key says whether that reader lives.
  local fields = call('HGETALL', KEYS[1])
  for i = 1, #fields, 2 do
    local count = tonumber(fields[i + 1])
    if count then
      for n = 1, math.min(math.max(count, 1), 256) do
        local own = call('PTTL', ARGV[6] .. ':' .. fields[i] .. ':rwlock_timeout:' .. n)
        left = math.max(left, own)
        -- Redisson has one timeout key for each entry of a reader, this client has one for all.
        if own > 0 and count > 16 then
          break
        end
      end
    end
  end
  -- `mode` alone is what a writer that was kept leaves, if the reads inside of it ended first; that has an end.
  local is_left = #fields == 2 and call('PTTL', KEYS[1]) > 0
  if left == -2 and not is_left and not is_lock(mode, fields) then
    return redis.error_reply('WRONGTYPE the key holds no lock')
  end
end

local waiting, held = false, left ~= -2
if not ours and not held and call('EXISTS', KEYS[4], KEYS[5]) > 0 then
  local now = now_in_ms()
  -- A reader that is due goes first (read_acquire.lua).
  local last = call('ZREVRANGE', KEYS[5], 0, 0, 'WITHSCORES')
  left = last[2] and tonumber(last[2]) > now and tonumber(last[2]) - now or left
  -- A user's data at this key ends the script here: it must not be renamed.
  waiting = call('ZCARD', KEYS[4]) > 0
end
if not ours and left ~= -2 then
  local keep = tonumber(ARGV[5])
  if keep > 0 then
    local now = now_in_ms()
    call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now)
    call('ZADD', KEYS[3], string.format('%.0f', now + keep), ARGV[1])
    local latest = call('ZREVRANGE', KEYS[3], 0, 0, 'WITHSCORES')
    local problem = set_end_of_waiters(KEYS[3], string.format('%.0f', tonumber(latest[2]) - now), ARGV[1])
    if problem then
      return problem
    end
  end
  return held and left or {left}
end

-- A user's data at this key ends the script here, before anything is written.
call('ZSCORE', KEYS[3], ARGV[1])
local token, problem = mint(KEYS[2], ARGV[3], ARGV[4])
if problem then
  return problem
end
if waiting then
  -- Readers that waited for this writer go before the next one. RENAME moves them all at once; the set that it replaces
  -- has no live reader. Done before the hash is written, so that a failure leaves no hold.
  call('RENAME', KEYS[4], KEYS[5])
end
if not ours then
  call('DEL', KEYS[1])
  call('HSET', KEYS[1], 'mode', 'write', field, 1)
end
if call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  problem = set_end(KEYS[1], ARGV[2], not ours)
  if problem then
    return problem
  end
end
call('ZREM', KEYS[3], ARGV[1])
return token
