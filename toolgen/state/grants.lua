-- Grants, one step each. KEYS[1] is what every name begins with. ARGV[1] says which:
--   key id                              -> 1 where these are sealed with this key, and from now on are
--   add id group each total expires box -> 1, or 0 where too many of this group, or in all, are in force
--   get id                              -> {version, box} or nothing; also of one that was ended before its time
--   all                                 -> {id, version, box, …} of those in force, by when they expire
--   of group                            -> the same, of one group
--   replace id known group expires box over
--                                       -> 1, or 0 where another version is kept. Over: it is in force no more
--   changes                             -> a number that changes with every change
-- Times are seconds since the epoch. What has expired is gone.
local op = ARGV[1]
local function name(part) return KEYS[1] .. ':' .. part end
local changes, everybody = name('changes'), name('all')
local clock = redis.call('TIME')
local now = tonumber(clock[1]) + tonumber(clock[2]) / 1000000

local function boxes(set)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', now)
  local found = {}
  for _, id in ipairs(redis.call('ZRANGE', set, 0, -1)) do
    local kept = redis.call('HMGET', name('grant:' .. id), 'version', 'box')
    if kept[1] then
      found[#found + 1] = id
      found[#found + 1] = kept[1]
      found[#found + 1] = kept[2]
    end
  end
  return found
end

-- A group is kept as long as the last of its grants.
local function outlive(own)
  local most = redis.call('ZREVRANGE', own, 0, 0, 'WITHSCORES')[2]
  redis.call('PEXPIREAT', own, string.format('%d', math.ceil(tonumber(most) * 1000)))
end

if op == 'key' then
  redis.call('SETNX', name('key'), ARGV[2])
  return redis.call('GET', name('key')) == ARGV[2] and 1 or 0
elseif op == 'add' then
  local id, group, each, total, expires, box = unpack(ARGV, 2)
  local own, kept = name('of:' .. group), name('grant:' .. id)
  redis.call('ZREMRANGEBYSCORE', own, '-inf', now)
  redis.call('ZREMRANGEBYSCORE', everybody, '-inf', now)
  if redis.call('ZCARD', own) >= tonumber(each) or redis.call('ZCARD', everybody) >= tonumber(total) then return 0 end
  if redis.call('EXISTS', kept) == 1 then return redis.error_reply('TOOLGEN that grant is kept already') end
  redis.call('HSET', kept, 'version', '1', 'box', box)
  redis.call('PEXPIREAT', kept, string.format('%d', math.ceil(tonumber(expires) * 1000)))
  redis.call('ZADD', own, expires, id)
  redis.call('ZADD', everybody, expires, id)
  outlive(own)
  redis.call('INCR', changes)
  return 1
elseif op == 'get' then
  return redis.call('HMGET', name('grant:' .. ARGV[2]), 'version', 'box')
elseif op == 'all' then
  return boxes(everybody)
elseif op == 'of' then
  return boxes(name('of:' .. ARGV[2]))
elseif op == 'replace' then
  local id, known, group, expires, box, over = unpack(ARGV, 2)
  local own, kept = name('of:' .. group), name('grant:' .. id)
  if redis.call('HGET', kept, 'version') ~= known then return 0 end
  redis.call('HSET', kept, 'version', string.format('%d', tonumber(known) + 1), 'box', box)
  redis.call('PEXPIREAT', kept, string.format('%d', math.ceil(tonumber(expires) * 1000)))
  if over == '1' then
    redis.call('ZREM', own, id)
    redis.call('ZREM', everybody, id)
  else
    redis.call('ZADD', own, expires, id)
    redis.call('ZADD', everybody, expires, id)
    outlive(own)
  end
  redis.call('INCR', changes)
  return 1
end
return tonumber(redis.call('GET', changes) or '0')
