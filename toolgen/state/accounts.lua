-- Accounts, one step each. KEYS[1] is what every name begins with. ARGV[1] says which:
--   get id                                       -> {id, person, version, key, wrapped, box}, or nothing
--   put id person version key wrapped box        -> 1, or 0 where another version than the one before is kept
--   remove id                                    -> 1, or 0 where there is none
--   of person                                    -> the same as get, for each account of a person
--   all                                          -> the same, for every account
--   lock id holder seconds                       -> 1, or 0 where another holder has it
--   unlock id holder                             -> 1
--   keep id group seconds most key wrapped box   -> 1; a link, of a group the newest ones
--   peek id, take id                             -> {key, wrapped, box}, or nothing; take removes it
local op, id = ARGV[1], ARGV[2]
local function name(part) return KEYS[1] .. ':' .. part end

local function rows(set)
  local found = {}
  for _, one in ipairs(redis.call('SMEMBERS', set)) do
    local kept = redis.call('HMGET', name('account:' .. one), 'person', 'version', 'key', 'wrapped', 'box')
    if kept[2] then found[#found + 1] = {one, kept[1], kept[2], kept[3], kept[4], kept[5]} end
  end
  return found
end

if op == 'get' then
  local kept = redis.call('HMGET', name('account:' .. id), 'person', 'version', 'key', 'wrapped', 'box')
  if not kept[2] then return {} end
  return {id, kept[1], kept[2], kept[3], kept[4], kept[5]}
elseif op == 'put' then
  local person, version, key, wrapped, box = unpack(ARGV, 3)
  local account = name('account:' .. id)
  local known = tonumber(redis.call('HGET', account, 'version') or '0')
  if known ~= tonumber(version) - 1 then return 0 end
  redis.call('HSET', account, 'person', person, 'version', version, 'key', key, 'wrapped', wrapped, 'box', box)
  redis.call('SADD', name('of:' .. person), id)
  redis.call('SADD', name('all'), id)
  return 1
elseif op == 'remove' then
  local account = name('account:' .. id)
  local person = redis.call('HGET', account, 'person')
  if not person then return 0 end
  redis.call('DEL', account)
  redis.call('SREM', name('of:' .. person), id)
  redis.call('SREM', name('all'), id)
  return 1
elseif op == 'of' then
  return rows(name('of:' .. id))
elseif op == 'all' then
  return rows(name('all'))
elseif op == 'lock' then
  local lock, holder, seconds = name('lock:' .. id), ARGV[3], ARGV[4]
  local known = redis.call('GET', lock)
  if known and known ~= holder then return 0 end
  redis.call('SET', lock, holder, 'PX', seconds)
  return 1
elseif op == 'unlock' then
  local lock = name('lock:' .. id)
  if redis.call('GET', lock) == ARGV[3] then redis.call('DEL', lock) end
  return 1
elseif op == 'keep' then
  local group, lasts, most, key, wrapped, box = unpack(ARGV, 3)
  local link, own = name('link:' .. id), name('links:' .. group)
  local time = redis.call('TIME')
  redis.call('HSET', link, 'key', key, 'wrapped', wrapped, 'box', box)
  redis.call('PEXPIRE', link, lasts)
  redis.call('ZADD', own, tonumber(time[1]) + tonumber(time[2]) / 1000000, id)
  redis.call('PEXPIRE', own, lasts)
  local over = redis.call('ZCARD', own) - tonumber(most)
  if over > 0 then
    for _, old in ipairs(redis.call('ZRANGE', own, 0, over - 1)) do
      redis.call('DEL', name('link:' .. old))
      redis.call('ZREM', own, old)
    end
  end
  return 1
elseif op == 'peek' or op == 'take' then
  local link = name('link:' .. id)
  local kept = redis.call('HMGET', link, 'key', 'wrapped', 'box')
  if op == 'take' then redis.call('DEL', link) end
  if not kept[1] then return {} end
  return kept
end
return redis.error_reply('TOOLGEN there is no such step')
