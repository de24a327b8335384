-- Releases a fair mutex if this owner holds it, else gives up its place; notifies the next waiter
-- (S-17, S-19, S-26).
-- KEYS[1] lock hash   KEYS[2] queue   KEYS[3] scores of its members
-- ARGV[1] owner   ARGV[2] prefix of the waiters' channels
-- returns how many subscribers received the notification, or -1: not held by this owner.
local held = redis.pcall('HEXISTS', KEYS[1], ARGV[1])
if held == 1 then
  call('DEL', KEYS[1])
else
  -- The holder has no place, and a long queue is not searched for it.
  local score = call('ZSCORE', KEYS[3], ARGV[1])
  local place = score and call('LPOS', KEYS[2], ARGV[1])
  if call('ZREM', KEYS[3], ARGV[1]) == 1 or call('LLEN', KEYS[2]) ~= call('ZCARD', KEYS[3]) then
    call('LREM', KEYS[2], 0, ARGV[1])
  end
  local behind = place and call('LINDEX', KEYS[2], place)
  if behind and not our_client(behind) then
    leave_redissons(KEYS[2], KEYS[3], place, tonumber(score), place > 0 and call('LINDEX', KEYS[2], place - 1))
  end
end
-- A user's data at the key of the queue, or of the scores, stays, and does not prevent the release.
local head = redis.pcall('LINDEX', KEYS[2], 0)
if not head then
  -- A score without a place belongs to no waiter. It is an owner's: a uuid and a number.
  local scored = redis.pcall('ZRANGE', KEYS[3], 0, 0)[1]
  if scored and string.find(scored, '^%x+%-%x+%-%x+%-%x+%-%x+:') then
    call('DEL', KEYS[3])
  end
elseif type(head) == 'table' then
  head = false
end
if type(held) == 'table' then
  -- The key holds a user's data. The place is still given up.
  return held
end
if held == 0 and call('EXISTS', KEYS[1]) == 1 then
  return -1
end

local now = head and now_in_ms()
while head do
  local score = redis.pcall('ZSCORE', KEYS[3], head)
  if type(score) ~= 'string' or tonumber(score) > now then
    break
  end
  call('LPOP', KEYS[2])
  call('ZREM', KEYS[3], head)
  head = call('LINDEX', KEYS[2], 0)
end
local told = head and notify_head(KEYS[2], ARGV[2], head) or 0
return held == 1 and told or -1
