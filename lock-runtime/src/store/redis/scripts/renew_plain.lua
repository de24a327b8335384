-- Renews holds of mutexes, fair mutexes and write sides, which nearly all holds are; renew.lua renews the others. Never
-- creates or shortens a hold (S-9, S-19). A hold that was released and is kept for a while (end_later.lua) does not count
-- as held: a late renewal leaves its end alone.
-- KEYS[i] lock hash
-- ARGV[1] lease in ms, 0 only asks   ARGV[i+1] field of the owner
-- returns 0: all are held by their owners; else a list of the i that are not. One bad key does not fail the others.

-- Moves the end that PEXPIREAT has not moved; `moved` is its answer.
local function prolong(lock, lease, moved)
  if moved ~= 0 then
    -- An ACL may allow only PEXPIRE, which acquiring needs. It costs the server more, which makes a PEXPIREAT of it.
    moved = call('PEXPIRE', lock, lease, 'GT')
  end
  if moved == 0 and call('PTTL', lock) == -1 then
    -- GT takes a key without an end for one that lasts longer; a lock must have an end.
    call('PEXPIRE', lock, lease)
  end
end

local KEYS, ARGV, try, lost = KEYS, ARGV, redis.pcall, {}
local lease = ARGV[1]
local stop = string.format('%.0f', now_in_ms() + lease)
for i = 1, #KEYS do
  local lock, field = KEYS[i], ARGV[i + 1]
  local count = try('HGET', lock, field)
  if count ~= '1' and not is_held(lock, field, count) then
    lost[#lost + 1] = i
  elseif lease ~= '0' then
    local moved = try('PEXPIREAT', lock, stop, 'GT')
    if moved ~= 1 then
      prolong(lock, lease, moved)
    end
  end
end
return #lost > 0 and lost or 0
