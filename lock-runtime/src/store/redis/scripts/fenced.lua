-- Runs a command of the caller's own if this owner holds all the locks, in one step (S-37). A hold that was released and is
-- kept for a while (end_later.lua) does not count as held.
-- KEYS[1..n] lock hashes   KEYS[n+1..] keys of the command, which its arguments name again
-- ARGV[1] n   ARGV[i+1] field of the owner in lock i   ARGV[n+2..] the command and its arguments, to the last but one
-- returns {1, the answer of the command or its error}, or 0: not all are held by this owner, and nothing ran.
local locks = tonumber(ARGV[1])
for i = 1, locks do
  local lock, field = KEYS[i], ARGV[i + 1]
  local count = redis.pcall('HGET', lock, field)
  if count ~= '1' and not is_held(lock, field, count) then
    return 0
  end
end
local answer = redis.pcall(unpack(ARGV, locks + 2, #ARGV - 1))
if type(answer) == 'table' and answer.err and string.find(answer.err, '^READONLY') then
  -- Nothing ran, and the client has to hear that this server is no master any more, as from its own scripts.
  return answer
end
return {1, answer}
