-- Tells the count of a latch from the free permits of a semaphore by its expiry: for scripts that count either
-- (S-30, S-32). This client's latches expire after a hundred years, its free permits a day after their last use.
-- Redisson gives neither an expiry.
-- latch_ms: the expiry of a latch   ttl: PTTL of one of the KEYS[..]   nothing of ARGV[..]
-- returns whether it is the count of a latch of this client.
local latch_ms = '3155760000000'
local function is_latch(ttl)
  -- Between ten years and a thousand. A semaphore that has a permit of Redisson's without an end lasts longer.
  return ttl > 315576000000 and ttl < 31557600000000
end
