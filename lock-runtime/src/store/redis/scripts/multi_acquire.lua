-- Acquires several mutexes for one owner, all or none (S-22, S-23, S-28).
-- KEYS[1..n] lock hashes   KEYS[n+1..2n] their fencing counters
-- ARGV[1] owner   ARGV[2] lease in ms   ARGV[3] tokens to reserve   ARGV[4] counter expiry in ms
-- returns the last reserved token of the highest counter as a string: all acquired, and every counter raised to it;
--         an integer: at least one is held by another owner; the longest PTTL of these.
local n = #KEYS / 2
local held
for i = 1, n do
  local ttl = call('PTTL', KEYS[i])
  if ttl ~= -2 then
    if call('HEXISTS', KEYS[i], 'mode') == 1 then
      return redis.error_reply('WRONGTYPE the key holds another kind of lock')
    end
    if call('HEXISTS', KEYS[i], ARGV[1]) == 0 then
      held = held == -1 and -1 or ttl == -1 and -1 or math.max(held or 0, ttl)
    end
  end
end
if held then
  return held
end

local highest = '0'
for i = n + 1, 2 * n do
  local last, problem = mint(KEYS[i], ARGV[3], ARGV[4])
  if problem then
    return problem
  end
  -- As text: Lua numbers end at 2^53.
  if #last > #highest or (#last == #highest and last > highest) then
    highest = last
  end
end
for i = n + 1, 2 * n do
  call('SET', KEYS[i], highest, 'KEEPTTL')
end
local added = {}
for i = 1, n do
  if call('HEXISTS', KEYS[i], ARGV[1]) == 0 then
    call('HSET', KEYS[i], ARGV[1], 1)
    added[#added + 1] = KEYS[i]
  end
  if call('PTTL', KEYS[i]) < tonumber(ARGV[2]) then
    local problem = set_end(KEYS[i], ARGV[2])
    if problem then
      for _, key in ipairs(added) do
        call('DEL', key)
      end
      return problem
    end
  end
end
return highest
