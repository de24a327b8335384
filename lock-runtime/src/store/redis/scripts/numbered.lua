-- Adds the number of the request to the answer, so that the client notices the answer to another request (S-21).
-- `script` is the script, as a function.
-- KEYS[..] the keys of the script
-- ARGV[#ARGV] number of the request, which the script does not read
-- returns the number, and the script's answer or error. Tokens and numbers, the usual answers, are text behind the
-- number and a space, numbers with a colon before them: a list costs the server and the client more.
local ran, answer = pcall(script)
local number = ARGV[#ARGV]
if answer == 0 then
  -- What a release without waiters answers.
  return number .. ' :0'
end
local kind = type(answer)
if not ran then
  -- pcall turns an error into text, which would look like an answer.
  answer = kind == 'string' and redis.error_reply(answer) or answer
elseif kind == 'string' then
  return number .. ' ' .. answer
elseif kind == 'number' then
  return number .. string.format(' :%d', answer)
elseif answer == nil then
  answer = false
end
return {number, answer}
