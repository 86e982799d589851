-- Idempotency keys in use, one step each. KEYS[1] is what every name begins with. ARGV[1] says which:
--   key id                                           -> 1 where these claims are sealed with this key, and from now on are
--   claim id call holder most now expires lease box  -> the box that is kept now; nothing where the holder has too many
--   settle id call status lease expires box holder now -> 1, or 0 where another call has the key, or this one has ended;
--                                                       a key that the store has lost is in use again
--   lose id call now box                             -> 1, or 0 where it is not running, or was heard of since
--   release id call                                  -> 1, or 0 where another call has the key
--   all now                                          -> {id, box, …}
local op, id, call = ARGV[1], ARGV[2], ARGV[3]
local function name(part) return KEYS[1] .. ':' .. part end
local all = name('all')
local function claim_of(which) return name('claim:' .. which) end

-- Names go when they expire by the gateways' clocks, which is what claims are judged by; a day later Redis sees to it by itself.
local function remove(which)
  local holder = redis.call('HGET', claim_of(which), 'holder')
  if holder then redis.call('ZREM', name('held:' .. holder), which) end
  redis.call('ZREM', all, which)
  redis.call('DEL', claim_of(which))
end

local function forget(now)
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', all, '-inf', now, 'LIMIT', 0, 1000)) do remove(old) end
end

local function keep(holder, expires, now)
  redis.call('ZADD', name('held:' .. holder), expires, id)
  redis.call('ZADD', all, expires, id)
  local longest = math.max(1, math.ceil((tonumber(expires) - tonumber(now)) * 1000)) + 86400000
  redis.call('PEXPIRE', claim_of(id), longest)
  redis.call('PEXPIRE', name('held:' .. holder), longest)
end

if op == 'key' then
  redis.call('SETNX', name('key'), id)
  return redis.call('GET', name('key')) == id and 1 or 0
elseif op == 'claim' then
  local holder, most, now, expires, lease, box = unpack(ARGV, 4)
  forget(now)
  local kept = redis.call('HGET', claim_of(id), 'box')
  if kept then return kept end
  if redis.call('ZCARD', name('held:' .. holder)) >= tonumber(most) then return false end
  redis.call('HSET', claim_of(id), 'call', call, 'holder', holder, 'status', 'running', 'lease', lease, 'box', box)
  keep(holder, expires, now)
  return box
elseif op == 'settle' then
  local status, lease, expires, box, holder, now = unpack(ARGV, 4)
  local kept = redis.call('HMGET', claim_of(id), 'call', 'status')
  if kept[1] and (kept[1] ~= call or kept[2] == 'ended') then return 0 end
  redis.call('HSET', claim_of(id), 'call', call, 'holder', holder, 'status', status, 'lease', lease, 'box', box)
  keep(holder, expires, now)
  return 1
elseif op == 'lose' then
  local now, box = unpack(ARGV, 4)
  local kept = redis.call('HMGET', claim_of(id), 'call', 'status', 'lease')
  if kept[1] ~= call or kept[2] ~= 'running' or tonumber(kept[3]) > tonumber(now) then return 0 end
  redis.call('HSET', claim_of(id), 'status', 'lost', 'box', box) -- its call may still say how it ended
  return 1
elseif op == 'release' then
  if redis.call('HGET', claim_of(id), 'call') ~= call then return 0 end
  remove(id)
  return 1
end
forget(ARGV[2])
local found = {}
for _, each in ipairs(redis.call('ZRANGE', all, 0, -1)) do
  local box = redis.call('HGET', claim_of(each), 'box')
  if box then
    found[#found + 1] = each
    found[#found + 1] = box
  end
end
return found
