-- Set the expiry of a lock, and of a set of waiters: functions for every script that acquires (S-10, S-22).
-- lock, waiters: one of its KEYS[..]   expiry in ms, owner: from its ARGV[..]   new: true if nothing was there before
-- returns nothing, or an error reply. Nothing must be left without an expiry, even if the user may not set one: a new
-- lock is then removed, and so is the waiter.
local function set_end(lock, expiry, new)
  local set = redis.pcall('PEXPIRE', lock, expiry)
  if set ~= 1 and type(set) == 'table' and set.err then
    if new then
      call('DEL', lock)
    end
    return set
  end
end

local function set_end_of_waiters(waiters, expiry, owner)
  local set = redis.pcall('PEXPIRE', waiters, expiry)
  if set ~= 1 and type(set) == 'table' and set.err then
    call('ZREM', waiters, owner)
    return set
  end
end
