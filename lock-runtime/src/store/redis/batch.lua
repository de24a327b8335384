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
  local ok, answer = pcall(scripts[n], keys, args)
  if not ok then
    -- What a failed command raises arrives here as its bare text.
    answer = type(answer) == 'table' and answer or redis.error_reply(answer)
  end
  -- An answer of nothing would end the list.
  answers[#answers + 1] = answer == nil and false or answer
end
return answers
