-- Sets the expiry of a lock: a function for every script that acquires (S-10, S-22).
-- lock: one of its KEYS[..]   expiry in ms: from its ARGV[..]   new: true if nothing was there before
-- returns nothing, or an error reply. Nothing must be left without an expiry, even if the user may not set one: a new
-- lock is then removed.
local function set_end(lock, expiry, new)
  local set = redis.pcall('PEXPIRE', lock, expiry)
  if set ~= 1 and type(set) == 'table' and set.err then
    if new then
      call('DEL', lock)
    end
    return set
  end
end
