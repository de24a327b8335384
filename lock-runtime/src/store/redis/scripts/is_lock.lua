-- Tells whether a key belongs to a lock that is held or waited for, without changing anything (S-35). Reads two fields or
-- members at most, since a lock may have many readers and a user's data may be long.
-- KEYS[1] the key   nothing of ARGV[..]
-- returns 1 = a lock's hash, a semaphore's permits, or waiters with a place; 0 = anything else.
local type = call('TYPE', KEYS[1]).ok
if type == 'hash' then
  local fields = call('HRANDFIELD', KEYS[1], 2, 'WITHVALUES')
  return is_lock(call('HGET', KEYS[1], 'mode'), fields) and 1 or 0
elseif type == 'zset' then
  local members = call('ZRANGE', KEYS[1], 0, 1)
  for _, member in ipairs(members) do
    if not permit_owner(member) then
      return 0
    end
  end
  return #members > 0 and 1 or 0
end
return 0
