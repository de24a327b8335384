-- Runs several requests, each by the script that also runs it alone (S-19, S-22).
-- `scripts[n]` is such a script as a function of how many keys and arguments come before its own, and how many before
-- those that it shares with others; `keys_of[n]`, `own_args_of[n]` and `shared_args_of[n]` say how many it has.
-- KEYS[..] the keys of all requests, request by request
-- ARGV[..] for requests in succession of the same script with the same shared arguments: the number n of the script, how
--   many they are, each request's own arguments, and the shared ones; at the end the number of the call
-- returns the number of the call, so that the client notices the answer to another call (S-21), and one answer for each
-- request, in order. A failed request does not fail the others. If all are tokens or numbers, the reply is text
-- with a space between them, the numbers with a colon before them: a list costs the server and the client more.
local type, short = type, {[0] = ':0', [1] = ':1', [-1] = ':-1'}
local last = #ARGV - 1
local number = ARGV[last + 1]
-- How many answers there are, with the number of the call as the first; the keys and arguments read; whether the reply is text.
local at, key, arg, is_short = 1, 0, 0, true
-- The script that the next `left` requests run, and where the arguments that they share begin.
local n, left, shared = 0, 0, 0

-- An answer that is no text, as it stands in the reply.
local function written(answer)
  local text = short[answer] or type(answer) == 'number' and string.format(':%d', answer)
  is_short = is_short and text
  return text or answer
end

-- Runs requests until all have run, or one raises an error.
local function run_on()
  while true do
    local run, keys, own_args = scripts[n], keys_of[n], own_args_of[n]
    while left > 0 do
      local answer = run(key, arg, shared)
      if answer == nil then
        -- nil would end the list.
        answer = false
      end
      at, key, arg, left = at + 1, key + keys, arg + own_args, left - 1
      -- In place of arguments that have been read: a list of its own would have to grow.
      ARGV[at] = type(answer) == 'string' and answer or written(answer)
    end
    arg = arg + (shared_args_of[n] or 0)
    if arg >= last then
      return
    end
    n, left = tonumber(ARGV[arg + 1]), tonumber(ARGV[arg + 2])
    arg = arg + 2
    shared = arg + left * own_args_of[n]
  end
end

-- One pcall for all requests, and another for those behind each error: one for each request would cost as much as a command.
while true do
  local ran, answer = pcall(run_on)
  if ran then
    break
  end
  -- pcall turns an error into text, which would look like an answer.
  answer = type(answer) == 'string' and redis.error_reply(answer) or answer
  at, key, arg, left = at + 1, key + keys_of[n], arg + own_args_of[n], left - 1
  ARGV[at] = written(answer)
end
ARGV[1], ARGV[at + 1] = number, nil
return is_short and table.concat(ARGV, ' ', 1, at) or ARGV
