-- Runs several requests, each by the script that also runs it alone (S-19, S-22).
-- `scripts[n]` is such a script as a function of how many keys and arguments come before its own; `keys_of[n]` and
-- `args_of[n]` say how many it has.
-- KEYS[..] the keys of all requests, request by request
-- ARGV[..] for requests of the same script in succession: the number n of the script, how many they are, and the
--   arguments of each
-- returns one answer for each request, in order. A failed request does not fail the others.
local answers, at, key, arg, last = {}, 0, 0, 0, #ARGV
while arg < last do
  local n = ARGV[arg + 1]
  local run, keys, args = scripts[n], keys_of[n], args_of[n]
  arg = arg + 2
  for _ = 1, tonumber(ARGV[arg]) do
    local ran, answer = pcall(run, key, arg)
    if not ran and type(answer) == 'string' then
      -- pcall turns an error into text, which would look like an answer.
      answer = redis.error_reply(answer)
    elseif answer == nil then
      -- nil would end the list.
      answer = false
    end
    at, key, arg = at + 1, key + keys, arg + args
    answers[at] = answer
  end
end
return answers
