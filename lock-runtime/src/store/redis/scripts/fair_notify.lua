-- Notifies waiters of a fair mutex: functions for every script that frees one (S-17, S-26).
-- queue: one of the KEYS[..]   prefix of the waiters' channels: from its ARGV[..]
-- returns what the comment above each function says.

-- The uuid in an owner id and the number behind it, if a client of this library made it, else nothing. The last eight
-- digits of its uuids are the first eight backwards; by chance, those of one in 2^32 of Redisson's are too.
local function our_client(owner)
  if string.sub(owner, 37, 37) == ':' and string.sub(owner, 14, 15) == '-4'
    and string.sub(owner, 1, 8) == string.reverse(string.sub(owner, 29, 36)) then
    return string.sub(owner, 1, 36), string.sub(owner, 38)
  end
end

-- Notifies one waiter, and returns the number of subscribers. The waiters of one client of this library share a channel,
-- and the message names the waiter; each waiter of Redisson has a channel of its own.
local function notify_waiter(prefix, waiter)
  local client, number = our_client(waiter)
  return tonumber(redis.pcall('PUBLISH', prefix .. ':' .. (client or waiter), number or '0')) or 0
end

-- Notifies the head of the queue, and returns the number of subscribers. If the head does not listen, it may be dead;
-- then the first waiter that listens asks, and learns how long to wait for the head. Redisson's clients notify waiters
-- on another channel, so behind one of them the first waiter of this library asks too, and then listens there.
local function notify_head(queue, prefix, head)
  local told = notify_waiter(prefix, head)
  if told > 0 and our_client(head) then
    return told
  end
  for _, member in ipairs(call('LRANGE', queue, 1, 31)) do
    local ours = our_client(member)
    if ours or told == 0 then
      told = told + notify_waiter(prefix, member)
    end
    if ours and told > 0 then
      break
    end
  end
  return told
end
