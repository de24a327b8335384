-- Run several requests, each by the script that also runs it alone (S-19, S-22).
-- `scripts[n]` is such a script as a function, `keys_of[n]` and `args_of[n]` say how many it takes.
-- KEYS[..] the keys of all requests, one after the other
-- ARGV[..] for each request n and then the arguments of script n
-- returns one answer for each request, in order. One that fails does not fail the others.
local answers, key, arg = {}, 0, 1
while arg <= #ARGV do
  local n = tonumber(ARGV[arg])
  local keys, args = {}, {}
  for i = 1, keys_of[n] do
    keys[i] = KEYS[key + i]
  end
  for i = 1, args_of[n] do
    args[i] = ARGV[arg + i]
  end
  key, arg = key + keys_of[n], arg + args_of[n] + 1
  local ran, answer = pcall(scripts[n], keys, args)
  if not ran and type(answer) == 'string' then
    -- pcall makes text of an error, which would look like an answer.
    answer = redis.error_reply(answer)
  elseif answer == nil then
    -- An answer of nothing would end the list.
    answer = false
  end
  answers[#answers + 1] = answer
end
return answers
