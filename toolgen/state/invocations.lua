-- Calls that wait, one step each. KEYS[1] is what every name begins with. ARGV[1] says which:
--   key id                                              -> 1 where these calls are sealed with this key, and from now on are
--   add id principal each total asked box               -> 1, or 0 where too many wait
--   get id                                              -> {version, box} or nothing
--   unfinished                                          -> {id, version, box, …}, the oldest first
--   replace id known status principal ended box         -> 1, or 0 where another version is kept, or it has ended
--   forget before                                       -> how many
--   changes                                             -> a number that changes with every change
local op = ARGV[1]
local function name(part) return KEYS[1] .. ':' .. part end
local open, ended, changes = name('open'), name('ended'), name('changes')
local LONGEST_MS = 691200000 -- a day more than a question may stand

local function box_of(id) return redis.call('HMGET', name('call:' .. id), 'version', 'box') end

if op == 'key' then
  redis.call('SETNX', name('key'), ARGV[2])
  return redis.call('GET', name('key')) == ARGV[2] and 1 or 0
elseif op == 'add' then
  local id, principal, each, total, asked, box = unpack(ARGV, 2)
  local own, all = 0, 0
  for _, other in ipairs(redis.call('ZRANGE', open, 0, -1)) do
    local found = redis.call('HMGET', name('call:' .. other), 'status', 'principal')
    if not found[1] then
      redis.call('ZREM', open, other)
    elseif found[1] == 'pending' then
      all = all + 1
      if found[2] == principal then own = own + 1 end
    end
  end
  if own >= tonumber(each) or all >= tonumber(total) then return 0 end
  if redis.call('EXISTS', name('call:' .. id)) == 1 then return redis.error_reply('that call is kept already') end
  redis.call('HSET', name('call:' .. id), 'version', '1', 'status', 'pending', 'principal', principal, 'box', box)
  redis.call('PEXPIRE', name('call:' .. id), LONGEST_MS)
  redis.call('ZADD', open, asked, id)
  redis.call('INCR', changes)
  return 1
elseif op == 'get' then
  return box_of(ARGV[2])
elseif op == 'unfinished' then
  local found = {}
  for _, id in ipairs(redis.call('ZRANGE', open, 0, -1)) do
    local kept = box_of(id)
    if kept[1] then
      found[#found + 1] = id
      found[#found + 1] = kept[1]
      found[#found + 1] = kept[2]
    end
  end
  return found
elseif op == 'replace' then
  local id, known, status, principal, at, box = unpack(ARGV, 2)
  local kept = name('call:' .. id)
  local there = redis.call('HMGET', kept, 'version', 'status')
  if there[1] ~= known or there[2] == 'ended' then return 0 end
  local version = string.format('%d', tonumber(known) + 1)
  redis.call('HSET', kept, 'version', version, 'status', status, 'principal', principal, 'box', box)
  if status == 'ended' then
    redis.call('ZREM', open, id)
    redis.call('ZADD', ended, at, id)
  end
  redis.call('INCR', changes)
  return 1
elseif op == 'forget' then
  local old = redis.call('ZRANGEBYSCORE', ended, '-inf', '(' .. ARGV[2])
  for _, id in ipairs(old) do
    redis.call('DEL', name('call:' .. id))
    redis.call('ZREM', ended, id)
  end
  return #old
end
return tonumber(redis.call('GET', changes) or '0')
