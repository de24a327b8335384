-- The scores of Redisson's waiters in the queue of a fair mutex (S-26): functions for the scripts that move or remove a
-- waiter of this library.
-- queue, scores: two of the KEYS[..]   ARGV[..] are those of the script, and not read here
-- returns nothing.

-- Moves the scores of Redisson's clients by so many ms, from this place of the queue to the next waiter of this library.
--
-- A Redisson client adds its patience to the score of the waiter that it lines up behind, and subtracts it from all
-- scores behind it when it leaves. What it will subtract is thus the difference of two scores, for as long as both
-- move together. Where only one moved, each waiter would take the place of the one before it for a part of a patience,
-- and the places of a line that never gets empty would drift away.
local function move_redissons(queue, scores, place, by)
  by = string.format('%.0f', by)
  while true do
    local members = call('LRANGE', queue, place, place + 63)
    for _, member in ipairs(members) do
      if our_client(member) then
        return
      end
      -- Under a short memory, only a script that has not written yet may not write.
      redis.pcall('ZADD', scores, 'XX', 'INCR', by, member)
    end
    if #members < 64 then
      return
    end
    place = place + 64
  end
end

-- For a waiter of this library that has left the queue, with its score: those of Redisson's clients that stood behind it,
-- from this place on, no longer have its place in their scores. They keep half of a usual one, because a refresh in a line
-- whose scores are all near does not move them; and they stay behind the waiter `before`, if there is one.
local function leave_redissons(queue, scores, place, score, before)
  local base = now_in_ms() + 2500
  if before then
    base = math.max(base, tonumber(call('ZSCORE', scores, before) or 0))
  end
  if score > base then
    move_redissons(queue, scores, place, base - score)
  end
end
