-- Give a lock its end: a function for every script that takes one (S-10, S-22).
-- lock: one of its KEYS[..]   expiry in ms: from its ARGV[..]   new: true if nothing was there before
-- returns nothing, or an error reply. Never a lock without an end, whatever a user may not do: a new
-- one is removed.
local function set_end(lock, expiry, new)
  local set = redis.pcall('PEXPIRE', lock, expiry)
  if type(set) == 'table' and set.err then
    if new then
      redis.call('DEL', lock)
    end
    return set
  end
end
