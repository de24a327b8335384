-- Adds the number of the request to the answer, so that the client notices the answer to another request (S-21).
-- `script` is the script, as a function.
-- KEYS[..] the keys of the script
-- ARGV[#ARGV] number of the request, which the script does not read
-- returns the number, and the script's answer or error. A token and a zero, the usual answers, are text behind the
-- number and a space, the zero with a colon before it: a list costs the server and the client more.
local number = ARGV[#ARGV]
local ran, answer = pcall(script)
if not ran then
  -- pcall turns an error into text, which would look like an answer.
  answer = type(answer) == 'string' and redis.error_reply(answer) or answer
elseif type(answer) == 'string' then
  return number .. ' ' .. answer
elseif answer == 0 then
  return number .. ' :0'
elseif answer == nil then
  answer = false
end
return {number, answer}
