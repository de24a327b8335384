-- The server's time in milliseconds since 1970, as a number (S-11). A file of its own, like all functions that only some
-- scripts need: each call of a script makes the functions in it anew.
-- It uses no KEYS[..] and no ARGV[..].
local function now_in_ms()
  return tonumber(string.sub(now_in_micros(), 1, -4))
end
