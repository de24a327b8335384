-- Acquires a fair mutex for one owner if it is free and no live waiter is ahead; else keeps the owner's place in the
-- queue, if it wants one (S-22, S-23, S-26). A score is the server's time at which a waiter counts as dead unless it
-- asks again before.
-- KEYS[1] lock hash   KEYS[2] fencing counter   KEYS[3] queue   KEYS[4] scores of its members
-- ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] tokens to reserve   ARGV[4] counter expiry in ms
-- ARGV[5] how long the place is kept in ms, 0 for none   ARGV[6] prefix of the waiters' channels
-- returns the last reserved token as a string: acquired;
--         an integer: another owner holds it, for that many ms unless renewed, -1 if that has no end;
--         a list of one integer: free, but the head of the queue goes first, for that many ms;
--         a list of two integers: Redisson's client holds it, for that many ms, and 1; or is the head, and 0.
local now = now_in_ms()
local keep = tonumber(ARGV[5])
local ttl = call('PTTL', KEYS[1])
local ours, redissons = false, false
if ttl ~= -2 then
  local fields = call('HMGET', KEYS[1], ARGV[1], 'mode')
  local mode = fields[2]
  ours, redissons = fields[1], not mode
  -- A hold without a mode is either a plain one of this client, which is another kind, or Redisson's, plain or fair.
  if mode ~= 'fair' and (mode or our_client(call('HRANDFIELD', KEYS[1]))) then
    return redis.error_reply('WRONGTYPE the key holds another kind of lock')
  end
end

local swept = false

-- Removes dead waiters from the head of the queue, and returns the head and the next. The asking owner lives, however
-- late it is.
local function sweep()
  local head, second = unpack(call('LRANGE', KEYS[3], 0, 1))
  while head and head ~= ARGV[1] do
    local ends = call('ZSCORE', KEYS[4], head)
    if not ends then
      -- A waiter without a score would never count as dead. All of them get the score of a new waiter at once, so that
      -- they do not delay the queue one after the other.
      local ended = now + (keep > 0 and keep or 5000)
      for _, member in ipairs(call('LRANGE', KEYS[3], 0, 999)) do
        call('ZADD', KEYS[4], 'NX', string.format('%.0f', ended), member)
      end
      -- The scores must not expire before the queue, which has no expiry if Redisson made it.
      local line_ends = call('PTTL', KEYS[3])
      if line_ends > 0 and call('PTTL', KEYS[4]) == -1 then
        if redis.pcall('PEXPIRE', KEYS[4], line_ends) ~= 1 then
          -- Without the right to set an expiry, the scores would never expire. The second call fails the script.
          call('DEL', KEYS[4])
          call('PEXPIRE', KEYS[3], line_ends)
        end
      end
      break
    end
    if tonumber(ends) > now then
      break
    end
    call('LPOP', KEYS[3])
    call('ZREM', KEYS[4], head)
    head, second = unpack(call('LRANGE', KEYS[3], 0, 1))
    swept = true
  end
  return head, second
end

local head, second
if ttl == -2 or ours then
  head, second = sweep()
end
if swept and ttl == -2 and head and head ~= ARGV[1] then
  notify_head(KEYS[3], ARGV[6], head)
end

-- An abandoned queue expires with the counter. Not sooner: Redisson's clients may be the last in it, and extend no
-- expiry.
local function renew_queue()
  call('PEXPIRE', KEYS[3], ARGV[4])
  call('PEXPIRE', KEYS[4], ARGV[4])
end

-- The same for a waiter that has just got its place. Without the right to set an expiry it gives the place up.
local function renew_queue_with(owner)
  local problem = set_end_of_waiters(KEYS[4], ARGV[4], owner)
  if problem then
    call('LREM', KEYS[3], -1, owner)
    return problem
  end
  call('PEXPIRE', KEYS[3], ARGV[4])
end

if ours or (ttl == -2 and (not head or head == ARGV[1])) then
  local last, problem, renewed = mint(KEYS[2], ARGV[3], ARGV[4])
  if problem then
    return problem
  end
  if not ours then
    call('HSET', KEYS[1], ARGV[1], 1, 'mode', 'fair')
  end
  if ttl < tonumber(ARGV[2]) then
    problem = set_end(KEYS[1], ARGV[2], not ours)
    if problem then
      return problem
    end
  end
  if head == ARGV[1] then
    local score = second and not our_client(second) and call('ZSCORE', KEYS[4], ARGV[1])
    call('LPOP', KEYS[3])
    call('ZREM', KEYS[4], ARGV[1])
    if score then
      leave_redissons(KEYS[3], KEYS[4], 0, tonumber(score))
    end
  elseif head then
    -- A repeated request of the holder, which has no place any more unless something went wrong.
    call('LREM', KEYS[3], 0, ARGV[1])
    call('ZREM', KEYS[4], ARGV[1])
  end
  if head and renewed then
    renew_queue()
  end
  return last
end

-- How much longer than others the waiter keeps its place, which has `ahead` others before it, because Redisson's clients
-- wait there. When a client of patience 300 s leaves, it subtracts 300 000 from all scores behind it, so the score here is
-- 300 000 higher: with less it would count as dead at once, with more a killed waiter of this client would delay the queue.
local function patience_of_others(ahead)
  -- Only the last 64 places are read; the next request of this waiter corrects the rest.
  local before = ahead > 0 and call('LRANGE', KEYS[3], math.max(0, ahead - 64), ahead - 1) or {}
  local shift = 0
  for n = 1, #before do
    if not our_client(before[n]) then
      local its = tonumber(call('ZSCORE', KEYS[4], before[n]) or now)
      local left
      if n > 1 then
        -- The difference is its patience (`move_redissons`). An older version of this library moves one without the other:
        -- what is little less than the usual five minutes counts as these.
        left = its - tonumber(call('ZSCORE', KEYS[4], before[n - 1]) or now)
        if left > 240000 and left < 300000 then
          left = 300000
        end
      else
        -- Behind the lease of a holder that may be gone: the rest of its patience, and perhaps of that lease. This counts
        -- as the usual five minutes, unless it is much more, or so much less that the client can hardly have waited for
        -- the difference.
        left = its - now
        local beyond = left - math.max(0, ttl)
        if beyond < 480000 and (beyond > 60000 or left > 240000) then
          left = 300000
        end
      end
      shift = shift + math.max(0, left)
    end
  end
  return shift
end

if keep > 0 then
  local ends = now + keep
  local latest = call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')
  -- Redisson's clients wait longer than ours.
  local are_ours = not latest[2] or tonumber(latest[2]) <= ends and our_client(latest[1])
  local is_new, score
  if are_ours then
    is_new = call('ZADD', KEYS[4], string.format('%.0f', ends), ARGV[1]) == 1
  else
    score = call('ZSCORE', KEYS[4], ARGV[1])
    is_new = not score
  end
  -- Redisson's clients may have removed this waiter as dead, and its score with its place. So the queue, which may be
  -- long, is only searched for it if there are more places or more scores.
  local ahead, differ
  if is_new then
    local places = call('RPUSH', KEYS[3], ARGV[1])
    ahead = places - 1
    differ = call('ZCARD', KEYS[4]) ~= (are_ours and places or ahead)
    if differ then
      local place = call('LPOS', KEYS[3], ARGV[1])
      if place < ahead then
        call('LREM', KEYS[3], -1, ARGV[1])
        ahead = place
      end
    end
  elseif call('LLEN', KEYS[3]) ~= call('ZCARD', KEYS[4]) and not call('LPOS', KEYS[3], ARGV[1]) then
    ahead = call('RPUSH', KEYS[3], ARGV[1]) - 1
  end
  if not are_ours then
    -- A waiter further behind keeps what it has, and the queue is not searched for it.
    ahead = ahead or call('LPOS', KEYS[3], ARGV[1], 'MAXLEN', 256)
    ends = ahead and ends + patience_of_others(ahead) or math.max(ends, tonumber(score or ends))
    call('ZADD', KEYS[4], string.format('%.0f', ends), ARGV[1])
    if ahead and score then
      move_redissons(KEYS[3], KEYS[4], ahead + 1, ends - tonumber(score))
    end
  end
  -- Grants renew the expiry for those in between. Scores that were evicted are a new key, without an expiry.
  if not is_new or ahead == 0 or differ then
    local problem = renew_queue_with(ARGV[1])
    if problem then
      return problem
    end
  end
  if not is_new and ttl ~= -2 then
    -- A newcomer to a held lock leaves the dead to the release.
    sweep()
  end
end
-- A waiter without a place does not listen.
redissons = keep > 0 and (redissons or ttl == -2 and not our_client(head))
if ttl ~= -2 then
  return redissons and {ttl, 1} or ttl
end
local left = math.max(1, tonumber(call('ZSCORE', KEYS[4], head)) - now)
return redissons and {left, 0} or {left}
