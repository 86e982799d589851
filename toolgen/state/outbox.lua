-- Messages to receivers outside, one step each. KEYS[1] is what every name begins with. ARGV[1] says which:
--   key id                                        -> 1 where these messages are sealed with this key, and from now on are
--   tell call event until total dead {receiver id box} … -> 1, or 0 where that event of the call was told before
--   claim receiver token lease                    -> {id, box, first, attempts}, or nothing where none is due or the receiver is taken
--   settle receiver id token kind at held why dead -> 1, or 0 where the lease was over. kind: delivered, later, dead
--   counts receiver                               -> {waiting, dead, first of the oldest}
--   dead receiver limit                           -> {id, box, died, attempts, why, …}, the newest first
--   revive receiver                               -> how many
--   forget receiver before                        -> how many
-- Times are Redis's own, in seconds since the epoch; a lease is in seconds.
local function name(part) return KEYS[1] .. ':' .. part end
local function message(receiver, id) return name('message:' .. receiver .. ':' .. id) end
local function due(receiver) return name('due:' .. receiver) end
local function dead(receiver) return name('dead:' .. receiver) end
local function first(receiver) return name('first:' .. receiver) end
local op = ARGV[1]
local KEPT_MS = 9 * 24 * 3600 * 1000 -- longer than a message is tried and a dead letter is kept

-- Who is a receiver no more leaves nothing behind.
local function keep(receiver, id)
  for _, one in ipairs({due(receiver), dead(receiver), first(receiver), message(receiver, id)}) do redis.call('PEXPIRE', one, KEPT_MS) end
end

local function clock()
  local at = redis.call('TIME')
  return string.format('%d.%06d', at[1], at[2])
end

local function bury(receiver, id, at, why, most)
  redis.call('ZREM', due(receiver), id)
  redis.call('ZREM', first(receiver), id)
  redis.call('ZADD', dead(receiver), at, id)
  redis.call('HSET', message(receiver, id), 'why', why)
  keep(receiver, id)
  for _, old in ipairs(redis.call('ZRANGE', dead(receiver), 0, -1 - tonumber(most))) do
    redis.call('ZREM', dead(receiver), old)
    redis.call('DEL', message(receiver, old))
  end
end

if op == 'key' then
  redis.call('SETNX', name('key'), ARGV[2])
  return redis.call('GET', name('key')) == ARGV[2] and 1 or 0
elseif op == 'tell' then
  local call, event, till, total, most = unpack(ARGV, 2, 6)
  local now = clock()
  local told = name('told:' .. call)
  local new = redis.call('HSETNX', told, event, '1')
  redis.call('PEXPIREAT', told, math.ceil(tonumber(till) * 1000))
  if new == 0 then return 0 end
  for number = 7, #ARGV, 3 do
    local receiver, id, box = ARGV[number], ARGV[number + 1], ARGV[number + 2]
    local full = redis.call('ZCARD', due(receiver)) >= tonumber(total)
    redis.call('HSET', message(receiver, id), 'box', box, 'attempts', '0', 'why', '')
    if full then
      bury(receiver, id, now, 'too many messages wait for this receiver', most)
    else
      redis.call('ZADD', due(receiver), now, id)
      redis.call('ZADD', first(receiver), now, id)
      keep(receiver, id)
    end
  end
  return 1
elseif op == 'claim' then
  local receiver, token, lease = unpack(ARGV, 2)
  local now = clock()
  local found = redis.call('ZRANGEBYSCORE', due(receiver), '-inf', now, 'LIMIT', 0, 1)
  if not found[1] or redis.call('EXISTS', name('held:' .. receiver)) == 1 then return {} end
  if not redis.call('SET', name('lease:' .. receiver), token, 'NX', 'PX', math.ceil(tonumber(lease) * 1000)) then return {} end
  local kept = message(receiver, found[1])
  local there = redis.call('HMGET', kept, 'box', 'attempts')
  if not there[1] then -- lost: nothing is left to be sent
    redis.call('ZREM', due(receiver), found[1])
    redis.call('ZREM', first(receiver), found[1])
    redis.call('DEL', name('lease:' .. receiver))
    return {}
  end
  redis.call('HINCRBY', kept, 'attempts', 1)
  return {found[1], there[1], redis.call('ZSCORE', first(receiver), found[1]) or now, there[2]}
elseif op == 'settle' then
  local receiver, id, token, kind, at, held, why, most = unpack(ARGV, 2)
  local now = clock()
  if redis.call('GET', name('lease:' .. receiver)) ~= token then return 0 end
  redis.call('DEL', name('lease:' .. receiver))
  local left = math.ceil((tonumber(held) - tonumber(now)) * 1000)
  if left > 0 then redis.call('SET', name('held:' .. receiver), '1', 'PX', left) end
  if kind == 'delivered' then
    redis.call('ZREM', due(receiver), id)
    redis.call('ZREM', first(receiver), id)
    redis.call('DEL', message(receiver, id))
  elseif kind == 'later' then
    redis.call('ZADD', due(receiver), 'XX', at, id)
    redis.call('HSET', message(receiver, id), 'why', why)
  else
    bury(receiver, id, now, why, most)
  end
  return 1
elseif op == 'counts' then
  local oldest = redis.call('ZRANGE', first(ARGV[2]), 0, 0, 'WITHSCORES')
  return {redis.call('ZCARD', due(ARGV[2])), redis.call('ZCARD', dead(ARGV[2])), oldest[2] or ''}
elseif op == 'dead' then
  local found = {}
  local ids = redis.call('ZREVRANGE', dead(ARGV[2]), 0, tonumber(ARGV[3]) - 1, 'WITHSCORES')
  for number = 1, #ids, 2 do
    local kept = redis.call('HMGET', message(ARGV[2], ids[number]), 'box', 'attempts', 'why')
    if kept[1] then
      for _, part in ipairs({ids[number], kept[1], ids[number + 1], kept[2], kept[3]}) do found[#found + 1] = part end
    end
  end
  return found
elseif op == 'revive' then
  local ids = redis.call('ZRANGE', dead(ARGV[2]), 0, -1)
  for _, id in ipairs(ids) do
    redis.call('ZREM', dead(ARGV[2]), id)
    redis.call('ZADD', due(ARGV[2]), clock(), id)
    redis.call('ZADD', first(ARGV[2]), clock(), id)
    redis.call('HSET', message(ARGV[2], id), 'attempts', '0')
    keep(ARGV[2], id)
  end
  return #ids
elseif op == 'forget' then
  local ids = redis.call('ZRANGEBYSCORE', dead(ARGV[2]), '-inf', '(' .. ARGV[3])
  for _, id in ipairs(ids) do
    redis.call('ZREM', dead(ARGV[2]), id)
    redis.call('DEL', message(ARGV[2], id))
  end
  return #ids
end
return redis.error_reply('TOOLGEN there is no such operation')
