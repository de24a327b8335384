-- Tells locks from a user's data: functions for scripts that read what others wrote
-- (S-4, S-27, S-30, S-32).
-- hash: one of the KEYS[..]   nothing of ARGV[..]
-- returns what the comment above each function says. An owner, of Redisson or of this client, is `uuid:n`; a side, a
-- transaction or the number of a permit may follow it.

-- The owner that a field or a member begins with, nil if it names none.
local function owner_of(field)
  local owner, rest = string.match(field,
    '^(%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:%-?%d+)(.*)$')
  if owner and (rest == '' or string.match(rest, '^:[%w:-]+$')) then
    return owner
  end
end

-- No count has more digits. Longer numbers are not exact, and overflow the answer.
local function is_count(value)
  return #value <= 15 and string.match(value, '^%d+$')
end

-- Whether a hash with these fields and values is a lock.
local function is_lock(mode, fields)
  local owners = 0
  for i = 1, #fields, 2 do
    if owner_of(fields[i]) and is_count(fields[i + 1]) then
      owners = owners + 1
    elseif fields[i] ~= 'mode' then
      return false
    end
  end
  return owners > 0 and (not mode or mode == 'fair' or mode == 'read' or mode == 'write')
end

-- A field that names no owner, if one of two random fields does not. Only two, since a user's hash may be long.
local function stranger(hash)
  local fields = call('HRANDFIELD', hash, 2)
  for _, field in ipairs(fields) do
    if (field ~= 'mode' or #fields == 1) and not owner_of(field) then
      return field
    end
  end
end

-- The owner of a permit; for Redisson's permits, which are 16 random bytes without an owner, the member itself. Nil if
-- it is no permit.
local function permit_owner(member)
  local random = #member == 16 and string.find(member, '[^%w%p ]')
  return random and member or owner_of(member)
end
