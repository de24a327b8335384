-- Releases a name for any owner and notifies all waiters that may go on (S-25, S-26, S-27, S-30). Fencing counters,
-- queues and announcements stay.
-- KEYS[1] lock   KEYS[2] fair queue   KEYS[3] scores of its members   KEYS[4] permits in use
-- ARGV[1] channel of a mutex and prefix of a fair queue's channels   ARGV[2] channel of readers and
--   writers   ARGV[3] channel of a semaphore   ARGV[4] prefix of the readers' own keys
-- ARGV[5] and on, up to the number of the call: beginnings of owner ids; if there are any, each holder must have one
-- returns 1 = released, 0 = it was not held, or by another holder.
local now = now_in_ms()

local function is_expected(owner)
  local last = #ARGV - 1
  for n = 5, last do
    if string.sub(owner, 1, #ARGV[n]) == ARGV[n] then
      return true
    end
  end
  return last < 5
end

-- A reader whose own keys have all expired holds nothing.
local function is_dead_reader(mode, field, count)
  if mode ~= 'read' and (mode ~= 'write' or string.match(field, ':write$')) then
    return false
  end
  for n = 1, math.min(math.max(tonumber(count), 1), 256) do
    if call('EXISTS', ARGV[4] .. ':' .. field .. ':rwlock_timeout:' .. n) == 1 then
      return false
    end
  end
  return true
end

local function has_other_holder(mode, fields)
  for i = 1, fields and #fields or 0, 2 do
    local field = fields[i]
    if field ~= 'mode' and not is_expected(field) and not is_dead_reader(mode, field, fields[i + 1]) then
      return true
    end
  end
  if not fields then
    for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[4], '(' .. string.format('%.0f', now), '+inf')) do
      if permit_owner(member) and not is_expected(member) then
        return true
      end
    end
  end
end

local function free_sides(mode, fields)
  local held = mode == 'write'
  for i = 1, #fields, 2 do
    local count = tonumber(fields[i + 1])
    -- Further keys of the reader, if there are any, expire.
    for n = 1, count and math.min(math.max(count, 1), 256) or 0 do
      local key = ARGV[4] .. ':' .. fields[i] .. ':rwlock_timeout:' .. n
      held = call('DEL', key) == 1 or held
    end
  end
  call('DEL', KEYS[1])
  redis.pcall('PUBLISH', ARGV[2], '1')
  return held and 1 or 0
end

local function free_mutex()
  -- Checked before anything is deleted: a user's data at these keys would end the script half way.
  local queue, ends = call('TYPE', KEYS[2]).ok, call('TYPE', KEYS[3]).ok
  local in_line = queue == 'list' and (ends == 'zset' or ends == 'none')
  call('DEL', KEYS[1])
  -- Redisson's fair lock looks like its plain one, so there may be waiters of both kinds.
  redis.pcall('PUBLISH', ARGV[1], '0')
  local head = in_line and call('LINDEX', KEYS[2], 0)
  while head do
    local score = call('ZSCORE', KEYS[3], head)
    if not score or tonumber(score) > now then
      notify_head(KEYS[2], ARGV[1], head)
      break
    end
    if not owner_of(head) then
      break
    end
    call('LPOP', KEYS[2])
    call('ZREM', KEYS[3], head)
    head = call('LINDEX', KEYS[2], 0)
  end
  return 1
end

local function free_permits()
  local all, held = 0, false
  local members = call('ZRANGE', KEYS[4], 0, -1, 'WITHSCORES')
  for i = 1, #members, 2 do
    if permit_owner(members[i]) then
      all = all + 1
      held = held or tonumber(members[i + 1]) > now
    end
  end
  if not held then
    return 0
  end
  for i = 1, #members, 2 do
    if permit_owner(members[i]) then
      call('ZREM', KEYS[4], members[i])
    end
  end
  if call('EXISTS', KEYS[1]) == 1 then
    call('INCRBY', KEYS[1], all)
  end
  -- Redisson wakes as many waiters as the message says.
  redis.pcall('PUBLISH', ARGV[3], all)
  return 1
end

local type = call('TYPE', KEYS[1]).ok
local lock, mode, fields = type == 'none', nil, nil
if type == 'hash' then
  mode = call('HGET', KEYS[1], 'mode')
  fields = not stranger(KEYS[1]) and call('HGETALL', KEYS[1])
  lock = fields and is_lock(mode, fields)
elseif type == 'string' then
  lock = string.match(call('GET', KEYS[1]), '^-?%d+$')
end
if not lock then
  -- A user's data must not be removed.
  return redis.error_reply('WRONGTYPE the key holds no lock')
end
if #ARGV > 5 and has_other_holder(mode, fields) then
  return 0
end
if type ~= 'hash' then
  return free_permits()
end
if mode == 'read' or mode == 'write' then
  return free_sides(mode, fields)
end
return free_mutex()
