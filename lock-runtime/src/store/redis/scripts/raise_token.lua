-- Raises a fencing counter to a token of another server, if it is below (S-23, S-29).
-- KEYS[1] fencing counter
-- ARGV[1] token   ARGV[2] counter expiry in ms
-- returns nothing. Compared as text: Lua numbers end at 2^53.
local last = call('GET', KEYS[1])
if not last then
  call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
elseif not can_count(last) then
  return redis.error_reply('WRONGTYPE the fencing counter is not a number')
elseif #last < #ARGV[1] or (#last == #ARGV[1] and last < ARGV[1]) then
  call('SET', KEYS[1], ARGV[1], 'KEEPTTL')
  call('PEXPIRE', KEYS[1], ARGV[2], 'XX')
end
return nil
