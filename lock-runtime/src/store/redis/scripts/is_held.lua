-- Tells whether an owner holds a lock whose end is the expiry of its hash: a function for scripts that ask (S-9, S-37).
-- lock: one of the KEYS[..]   field: that of the owner, of ARGV[..]
-- returns what the comment above the function says.

-- Whether HGET found the owner; for the answers that are not the usual '1'.
local function is_held(lock, field, count)
  if type(count) ~= 'table' then
    return count and count ~= '0'
  end
  -- An ACL for mutexes alone does not allow HGET.
  return not string.find(count.err, 'WRONGTYPE') and call('HEXISTS', lock, field) == 1
end
