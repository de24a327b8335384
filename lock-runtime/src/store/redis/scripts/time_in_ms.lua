-- The server's time (S-11), in a file of its own as all functions that only some scripts need: each call of a script makes
-- the functions in it anew.
-- It uses no KEYS[..] and no ARGV[..].
-- returns the milliseconds since 1970, as a number.
local function now_in_ms()
  return tonumber(string.sub(now_in_micros(), 1, -4))
end
