-- Sets the expiry of a set of waiters that has a new one: a function for every script that queues (S-22).
-- waiters: one of its KEYS[..]   expiry in ms, owner: from its ARGV[..]
-- returns nothing, or an error reply. Nothing must be left without an expiry, even if the user may not set one: the
-- waiter is then removed.
local function set_end_of_waiters(waiters, expiry, owner)
  local set = redis.pcall('PEXPIRE', waiters, expiry)
  if set ~= 1 and type(set) == 'table' and set.err then
    call('ZREM', waiters, owner)
    return set
  end
end
