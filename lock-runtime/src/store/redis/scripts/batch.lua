-- Runs several requests, each by the script that also runs it alone (S-19, S-22).
-- `scripts[n]` is such a script as a function of how many keys and arguments come before its own, and how many before
-- those that it shares with others; `keys_of[n]`, `own_args_of[n]` and `shared_args_of[n]` say how many it has.
-- KEYS[..] the keys of all requests, request by request
-- ARGV[..] for requests in succession of the same script with the same shared arguments: the number n of the script, how
--   many they are, each request's own arguments, and the shared ones; at the end the number of the call
-- returns the number of the call, so that the client notices the answer to another call (S-21), and one answer for each
-- request, in order. A failed request does not fail the others. If all are tokens or numbers, the reply is text
-- with a space between them, the numbers with a colon before them: a list costs the server and the client more.
local short = {[0] = ':0', [1] = ':1', [-1] = ':-1'}
local last = #ARGV - 1
local number = ARGV[last + 1]
local at, key, arg, is_short = 1, 0, 0, true
while arg < last do
  local n, count = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
  local run, keys, own_args = scripts[n], keys_of[n], own_args_of[n]
  arg = arg + 2
  local shared = arg + count * own_args
  for _ = 1, count do
    local ran, answer = pcall(run, key, arg, shared)
    if not ran and type(answer) == 'string' then
      -- pcall turns an error into text, which would look like an answer.
      answer = redis.error_reply(answer)
    elseif answer == nil then
      -- nil would end the list.
      answer = false
    end
    if type(answer) ~= 'string' then
      local text = short[answer] or type(answer) == 'number' and string.format(':%d', answer)
      answer, is_short = text or answer, is_short and text
    end
    at, key, arg = at + 1, key + keys, arg + own_args
    -- In place of arguments that have been read: a list of its own would have to grow.
    ARGV[at] = answer
  end
  arg = arg + shared_args_of[n]
end
ARGV[1], ARGV[at + 1] = number, nil
return is_short and table.concat(ARGV, ' ', 1, at) or ARGV
