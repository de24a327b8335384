-- The server's time: functions for every script that uses it (S-11, S-23). A script asks the server once, which also
-- spares a batch the command for all requests but the first.
-- no KEYS[..], no ARGV[..]

local seconds, micros

local function read_time()
  if not seconds then
    local time = redis.call('TIME')
    seconds, micros = time[1], time[2]
  end
end

local function now_in_ms()
  read_time()
  return seconds * 1000 + math.floor(micros / 1000)
end
