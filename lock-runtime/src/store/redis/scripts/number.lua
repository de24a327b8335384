-- Whose number a key holds, by how far away its end is: for scripts that count permits or latches
-- (S-30, S-32). A latch of ours ends in a hundred years, so that it is not taken for a semaphore,
-- free permits of ours a day after their last use. Redisson gives neither an end.
-- latch_ms: what a latch gets   ttl: PTTL of one of the KEYS[..]   nothing of ARGV[..]
-- returns whether it is the count of a latch of ours.
local latch_ms = '3155760000000'
local function is_latch(ttl)
  -- Ten years and a thousand. A semaphore with a permit that has no end, which Redisson takes of
  -- one of ours, lasts longer.
  return ttl > 315576000000 and ttl < 31557600000000
end
