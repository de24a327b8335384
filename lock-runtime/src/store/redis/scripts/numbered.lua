-- Answer with the number of the request, by which the client knows the answer from another request's (S-21).
-- `script` is the script, as a function.
-- KEYS[..] those of the script
-- ARGV[#ARGV] number of the request, which the script does not see
-- returns the number, and the script's answer or error.
local number = table.remove(ARGV)
local ran, answer = pcall(script)
if not ran then
  -- pcall makes text of an error, which would look like an answer.
  answer = type(answer) == 'string' and redis.error_reply(answer) or answer
elseif answer == nil then
  answer = false
end
return {number, answer}
