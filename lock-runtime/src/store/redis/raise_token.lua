-- Raise a fencing counter that is below a token which another server handed out (S-23, S-29).
-- KEYS[1] fencing counter
-- ARGV[1] token   ARGV[2] counter expiry in ms
-- returns nothing. Compared as text: Lua numbers end at 2^53.
local last = redis.call('GET', KEYS[1]) or ''
if #last < #ARGV[1] or (#last == #ARGV[1] and last < ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return nil
