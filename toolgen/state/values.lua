-- Values that agents see tokens of, one step each. KEYS[1] is what every name begins with. ARGV[1] says which:
--   key id                                        -> 1 where these values are sealed with this key, and from now on are
--   number owner session idle sessions most {kind mac}… -> for each its number, 0 where the session holds too many, and 1 where no box is kept
--   put session idle {kind number box}…           -> 1
--   find session idle {kind number}…              -> the box of each, '' where there is none
--   give owner seconds most {kind mac box}…       -> 1; the owner's values that calls were given, the least recent ones dropped
--   given owner seconds                           -> of each 'kind mac' and its box
-- A number is given once to one owner, so that what another session saw stands for nothing in this one.
local op = ARGV[1]
local function name(part) return KEYS[1] .. ':' .. part end

if op == 'key' then
  redis.call('SETNX', name('key'), ARGV[2])
  return redis.call('GET', name('key')) == ARGV[2] and 1 or 0
elseif op == 'number' then
  local owner, session, idle = ARGV[2], ARGV[3], ARGV[4]
  local sessions, most = tonumber(ARGV[5]), tonumber(ARGV[6])
  local kept, last, all = name('of:' .. session), name('last:' .. owner), name('sessions:' .. owner)
  local time = redis.call('TIME')
  redis.call('ZADD', all, time[1], session)
  local over = redis.call('ZCARD', all) - sessions
  if over > 0 then
    for _, old in ipairs(redis.call('ZRANGE', all, 0, over - 1)) do
      redis.call('DEL', name('of:' .. old))
      redis.call('ZREM', all, old)
    end
  end
  local found = {}
  for at = 7, #ARGV, 2 do
    local kind, mac = ARGV[at], ARGV[at + 1]
    local number = redis.call('HGET', kept, 'mac ' .. kind .. ' ' .. mac)
    if not number then
      if redis.call('HLEN', kept) >= 2 * most then
        number = '0'
      else
        number = tostring(redis.call('HINCRBY', last, kind, 1))
        redis.call('HSET', kept, 'mac ' .. kind .. ' ' .. mac, number)
      end
    end
    found[#found + 1] = tonumber(number)
    found[#found + 1] = 1 - redis.call('HEXISTS', kept, 'box ' .. kind .. ' ' .. number)
  end
  redis.call('PEXPIRE', kept, idle)
  redis.call('PEXPIRE', all, idle)
  redis.call('PEXPIRE', last, 30 * 86400000)
  return found
elseif op == 'put' then
  local kept = name('of:' .. ARGV[2])
  for at = 4, #ARGV, 3 do
    redis.call('HSET', kept, 'box ' .. ARGV[at] .. ' ' .. ARGV[at + 1], ARGV[at + 2])
  end
  redis.call('PEXPIRE', kept, ARGV[3])
  return 1
elseif op == 'give' or op == 'given' then
  local boxes, times = name('given:' .. ARGV[2]), name('given-at:' .. ARGV[2])
  local now, keep = tonumber(redis.call('TIME')[1]), tonumber(ARGV[3])
  local function drop(names)
    for _, one in ipairs(names) do
      redis.call('ZREM', times, one)
      redis.call('HDEL', boxes, one)
    end
  end
  drop(redis.call('ZRANGEBYSCORE', times, '-inf', now - keep))
  if op == 'given' then return redis.call('HGETALL', boxes) end
  for at = 5, #ARGV, 3 do
    local one = ARGV[at] .. ' ' .. ARGV[at + 1]
    redis.call('ZADD', times, now, one)
    redis.call('HSET', boxes, one, ARGV[at + 2])
  end
  local over = redis.call('ZCARD', times) - tonumber(ARGV[4])
  if over > 0 then drop(redis.call('ZRANGE', times, 0, over - 1)) end
  redis.call('EXPIRE', boxes, ARGV[3])
  redis.call('EXPIRE', times, ARGV[3])
  return 1
end
local kept, found = name('of:' .. ARGV[2]), {}
for at = 4, #ARGV, 2 do
  found[#found + 1] = redis.call('HGET', kept, 'box ' .. ARGV[at] .. ' ' .. ARGV[at + 1]) or ''
end
redis.call('PEXPIRE', kept, ARGV[3])
return found
