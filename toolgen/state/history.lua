-- Puts new histories in place of those that were read: all of them, or none. KEYS[1] is what every name begins with. ARGV:
--   ttl in ms, epoch that is known, then for each: name, version that is known, new version, box ("" to only ask whether the known one still is the latest)
-- Answers {1}, or {0, version, box, …} with all as they are kept by now ("" and false where nothing is, `0-forgotten` and false where the
-- store has lost what there may have been).
local _, since = epoch_of(string.match(KEYS[1], '^(.*):[^:]*$'), ARGV[2])
local DAY_US = 86400 * 1000000
local none = since > 0 and microseconds() - since < DAY_US and '0-forgotten' or ''
local found, same = { 0 }, true
for at = 3, #ARGV, 4 do
  local kept = redis.call('HMGET', KEYS[1] .. ':' .. ARGV[at], 'version', 'box')
  if (kept[1] or none) ~= ARGV[at + 1] then same = false end
  found[#found + 1] = kept[1] or none
  found[#found + 1] = kept[2]
end
if not same then return found end
for at = 3, #ARGV, 4 do
  if ARGV[at + 3] ~= '' then
    local key = KEYS[1] .. ':' .. ARGV[at]
    redis.call('HSET', key, 'version', ARGV[at + 2], 'box', ARGV[at + 3])
    redis.call('PEXPIRE', key, ARGV[1])
  end
end
return { 1 }
