-- Runs several requests, each by the script that also runs it alone (S-19, S-22).
-- `scripts[n]` is such a script as a function of how many keys and arguments come before its own; `keys_of[n]` and
-- `args_of[n]` say how many it has.
-- KEYS[..] the keys of all requests, request by request
-- ARGV[..] for requests of the same script in succession: the number n of the script, how many they are, and the
--   arguments of each; at the end the number of the call
-- returns the number of the call, so that the client notices the answer to another call (S-21), and one answer for each
-- request, in order. A failed request does not fail the others.
local last = #ARGV - 1
local number = ARGV[last + 1]
local at, key, arg = 1, 0, 0
while arg < last do
  local n, count = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local run, keys, args = scripts[n], keys_of[n], args_of[n]
  arg = arg + 2
  for _ = 1, count do
    local ran, answer = pcall(run, key, arg)
    if not ran and type(answer) == 'string' then
      -- pcall turns an error into text, which would look like an answer.
      answer = redis.error_reply(answer)
    elseif answer == nil then
      -- nil would end the list.
      answer = false
    end
    at, key, arg = at + 1, key + keys, arg + args
    -- In place of arguments that have been read: a list of its own would have to grow.
    ARGV[at] = answer
  end
end
ARGV[1], ARGV[at + 1] = number, nil
return ARGV
