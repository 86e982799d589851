-- A sealed thing and its version (what is paused, which tools were added), one step each. KEYS[1] is where it is kept. ARGV[1] says which:
--   read                        -> {version, box}, {0, false} where nothing is kept
--   write known version box     -> 1, or 0 where another version than `known` is kept
--   restore version box         -> 1, or 0 where as new a version is kept
local op = ARGV[1]
local kept = redis.call('HMGET', KEYS[1], 'version', 'box')
local version = tonumber(kept[1] or '0')
if op == 'read' then return { version, kept[2] } end
local new, box = ARGV[#ARGV - 1], ARGV[#ARGV]
if op == 'write' and version ~= tonumber(ARGV[2]) then return 0 end
if op == 'restore' and version >= tonumber(new) then return 0 end
redis.call('HSET', KEYS[1], 'version', new, 'box', box)
return 1
