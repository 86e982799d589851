-- Which call stands for others that are equal to it. KEYS[1] is what every name begins with, ARGV[1] says which step:
--   find name                    -> the holder, "" for none
--   take name holder ms          -> the holder: this one where there was none
--   hold name id holder ms       -> 1: this one holds the name from now on, 0 where another call does
--   release name id              -> 1: the name is free, 0 where another call holds it
-- A holder is the id of its call behind a sign: `+` where the call is kept, `-` where it only begins.
local op = ARGV[1]
local name = KEYS[1] .. ':' .. ARGV[2]
local held = redis.call('GET', name) or ''
if op == 'find' then return held end
if op == 'take' then
  if held ~= '' then return held end
  redis.call('SET', name, ARGV[3], 'PX', ARGV[4])
  return ARGV[3]
end
if held ~= '' and string.sub(held, 2) ~= ARGV[3] then return 0 end
if op == 'hold' then redis.call('SET', name, ARGV[4], 'PX', ARGV[5]) else redis.call('DEL', name) end
return 1
