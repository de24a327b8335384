-- The server's time: a function for every script that uses it (S-11, S-23). A script asks the server once, which also
-- spares a batch the command for all requests but the first.
-- It uses no KEYS[..] and no ARGV[..].
-- returns the microseconds since 1970, as text of 16 digits until 2286.
local micros

local function now_in_micros()
  if not micros then
    local time = call('TIME')
    micros = time[1] .. string.sub('000000', #time[2] + 1) .. time[2]
  end
  return micros
end
