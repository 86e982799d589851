-- Records of the sign-in, one step each. KEYS[1] is what every name begins with. ARGV[1] says which:
--   get kind id, take kind id                             -> {id, group, version, ms, key, wrapped, box}, or nothing; take removes it
--   put kind id group version ms most key wrapped box     -> 1, or 0 where another version than the one before is kept
--   of kind group                                         -> the same as get, for each record of a group; of every group for *
--   count kind group                                      -> the number of records of a group
local op, kind = ARGV[1], ARGV[2]
local function name(...) return KEYS[1] .. ':' .. table.concat({...}, ':') end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function row(id)
  local at = name('row', kind, id)
  local kept = redis.call('HMGET', at, 'group', 'version', 'key', 'wrapped', 'box')
  if not kept[2] then return nil end
  return {id, kept[1], kept[2], tostring(redis.call('PTTL', at)), kept[3], kept[4], kept[5]}
end

local function forget(id, group)
  redis.call('ZREM', name('of', kind, group), id)
  redis.call('ZREM', name('all', kind), id)
end

local function current(set)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', now)
  return set
end

local function listed(set, id, ends)
  redis.call('ZADD', current(set), ends, id)
  local last = redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')
  redis.call('PEXPIREAT', set, last[2])
end

if op == 'get' then
  return row(ARGV[3]) or {}
elseif op == 'take' then
  local found = row(ARGV[3])
  if not found then return {} end
  redis.call('DEL', name('row', kind, ARGV[3]))
  forget(ARGV[3], found[2])
  return found
elseif op == 'put' then
  local id, group, version, lasts, most, key, wrapped, box = unpack(ARGV, 3)
  local at = name('row', kind, id)
  local known = redis.call('HMGET', at, 'version', 'group')
  if tonumber(known[1] or '0') ~= tonumber(version) - 1 then return 0 end
  if known[2] and known[2] ~= group then forget(id, known[2]) end
  redis.call('HSET', at, 'group', group, 'version', version, 'key', key, 'wrapped', wrapped, 'box', box)
  redis.call('PEXPIRE', at, lasts)
  local ends, set = now + tonumber(lasts), name('of', kind, group)
  listed(set, id, ends)
  listed(name('all', kind), id, ends)
  local over = redis.call('ZCARD', set) - tonumber(most)
  if tonumber(most) > 0 and over > 0 then
    for _, old in ipairs(redis.call('ZRANGE', set, 0, over - 1)) do
      redis.call('DEL', name('row', kind, old))
      forget(old, group)
    end
  end
  return 1
elseif op == 'of' then
  local found = {}
  local set = ARGV[3] == '*' and name('all', kind) or name('of', kind, ARGV[3])
  for _, id in ipairs(redis.call('ZRANGE', current(set), 0, -1)) do
    local one = row(id)
    if one then found[#found + 1] = one end
  end
  return found
elseif op == 'count' then
  return redis.call('ZCARD', current(name('of', kind, ARGV[3])))
end
return redis.error_reply('TOOLGEN there is no such step')
