-- The server's time: functions for every script that uses it (S-11, S-23). A script asks the server once, which also
-- spares a batch the command for all requests but the first.
-- They use no KEYS[..] and no ARGV[..].
-- returns the time since 1970, as the comment above each function says.

local micros

-- In microseconds, as text of 16 digits until 2286.
local function now_in_micros()
  if not micros then
    local time = call('TIME')
    micros = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  end
  return micros
end

-- In milliseconds, as a number.
local function now_in_ms()
  return tonumber(string.sub(now_in_micros(), 1, -4))
end
