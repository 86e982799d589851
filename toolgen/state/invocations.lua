-- Calls that wait, one step each. KEYS[1] is what every name begins with. ARGV[1] says which:
--   key id                                              -> 1 where these calls are sealed with this key, and from now on are
--   add id principal each total asked box kind status due writer number
--                                                       -> {1, before, epoch}, {0} where too many of this status wait, {3, version, box} of the
--                                                          one that is kept, where both are of kind `call`
--   get id                                              -> {version, box} or nothing
--   unfinished kind                                     -> {id, version, box, …}, the oldest first
--   versions kind                                       -> {id, version, …} of the same
--   several id …                                        -> {id, version, box, …} of those of these that are kept
--   ended since most                                    -> the same, those that ended then or later, the first first
--   waiting status principal …                          -> for each of these the ids that are counted for it
--   owned principal after most                          -> the same, those that are counted for it, whatever has become of them
--   due at most home                                    -> {the same, those that somebody has to look at, the longest overdue first;
--                                                          {home, when it asked what is due (seconds), …}}; this home is alive
--   renew at unless id …                                -> 1: these are looked at then, but those that were to be by `unless`
--   unreadable at id …                                  -> 1: nobody can read these: they are looked at then, and `statuses` says so
--   replace id known status principal at box kind over each total home writer number
--                                                       -> {1, before, epoch}, or {0} where another version is kept, or it ended and
--                                                          `over` is not 1; {2} where it ends and there is no room for so many bytes
--                                                          (each, total; "" for no bound). `home` is told that it ended, "" for nobody
--   held principal                                      -> bytes of calls that ended, its own and all, and when the first of each ended
--   restore id known version status principal asked at box kind writer number
--                                                       -> {1, before, epoch}, or {0} where another version is kept ("" for none)
--   statuses id …                                       -> {status, version, …} of each, "" where none is kept, `unreadable` where
--                                                          somebody could not read it
--   forget before                                       -> how many
--   changes known new home writer number                -> {a number that changes with every change, the epoch, the number of this
--                                                          writer that was kept, that of the last note of departures.lua, the ids of
--                                                          calls that ended since, as this home is told once}; a store without an
--                                                          epoch begins `new`
--   lost known                                          -> the epoch, which is another than `known`
-- `status` is what a call is counted with. A call of kind `approval` is in `open`, as every call of an earlier release is. Each process
-- that writes is a writer and numbers what it writes; `before` is the number that was kept until then. `epoch` is that of the store.
local op = ARGV[1]
local function name(part) return KEYS[1] .. ':' .. part end
local ended, changes, due = name('ended'), name('changes'), name('due')
local prefix = string.match(KEYS[1], '^(.*):[^:]*$')
local LONGEST_MS = 691200000 -- a day more than a question may stand
local LONGEST_HOME_S = 86400

local function writer_of(id) return name('writer:' .. id) end

local function wrote()
  local key = writer_of(ARGV[#ARGV - 1])
  local before = tonumber(redis.call('GET', key) or '0')
  redis.call('SET', key, ARGV[#ARGV], 'PX', LONGEST_MS)
  redis.call('INCR', changes)
  return { 1, before, redis.call('GET', prefix .. ':epoch') or '' }
end

local function told(home) return name('told:' .. home) end
local function box_of(id) return redis.call('HMGET', name('call:' .. id), 'version', 'box') end
local function open_of(kind) return kind == 'approval' and name('open') or name('open:' .. kind) end
local function like(status, principal)
  return name('waiting:' .. status), name('waiting:' .. status .. ':' .. principal)
end

local function count(status, principal, asked, id)
  for _, set in ipairs({like(status, principal)}) do
    redis.call('ZADD', set, asked, id)
    redis.call('PEXPIRE', set, LONGEST_MS)
  end
end

local function all_of(principal) return name('own:' .. principal) end

local function keep_mine(principal, asked, id)
  redis.call('ZADD', all_of(principal), asked, id)
  redis.call('PEXPIRE', all_of(principal), LONGEST_MS)
end

local function uncount(status, principal, id)
  for _, set in ipairs({like(status, principal)}) do redis.call('ZREM', set, id) end
end

-- How many are counted in a set: those whose time is over are looked for only where there seem to be too many.
local function counted(set, most)
  if redis.call('ZCARD', set) >= most then
    for _, id in ipairs(redis.call('ZRANGE', set, 0, -1)) do
      if redis.call('EXISTS', name('call:' .. id)) == 0 then redis.call('ZREM', set, id) end
    end
  end
  return redis.call('ZCARD', set)
end

local bytes, sizes = name('bytes'), name('sizes') -- by principal, and `all`; by call, with whose it is

local function held(principal)
  return tonumber(redis.call('HGET', bytes, principal) or '0'), tonumber(redis.call('HGET', bytes, 'all') or '0')
end

local function hold(id, principal, size)
  redis.call('HSET', sizes, id, principal .. ' ' .. size)
  redis.call('HINCRBY', bytes, principal, size)
  redis.call('HINCRBY', bytes, 'all', size)
end

local function release(id)
  local principal, size = string.match(redis.call('HGET', sizes, id) or '', '^(%S+) (%d+)$')
  if not size then return end
  redis.call('HDEL', sizes, id)
  redis.call('HINCRBY', bytes, 'all', -size)
  if redis.call('HINCRBY', bytes, principal, -size) <= 0 then redis.call('HDEL', bytes, principal) end
end

local function boxes(ids, set)
  local found = {}
  for _, id in ipairs(ids) do
    local kept = box_of(id)
    if kept[1] then
      found[#found + 1] = id
      found[#found + 1] = kept[1]
      found[#found + 1] = kept[2]
    else
      redis.call('ZREM', set, id)
    end
  end
  return found
end

if op == 'key' then
  redis.call('SETNX', name('key'), ARGV[2])
  for _, id in ipairs(redis.call('ZRANGE', name('open'), 0, -1)) do -- what an earlier release kept
    local known = redis.call('HMGET', name('call:' .. id), 'status', 'principal', 'kind')
    if known[1] and not known[3] then
      redis.call('HSET', name('call:' .. id), 'kind', 'approval')
      redis.call('ZADD', due, 0, id)
      count(known[1], known[2], redis.call('ZSCORE', name('open'), id), id)
    end
  end
  return redis.call('GET', name('key')) == ARGV[2] and 1 or 0
elseif op == 'add' then
  local id, principal, each, total, asked, box, kind, status, at = unpack(ARGV, 2)
  local all, own = like(status, principal)
  each, total = tonumber(each), tonumber(total)
  local there = redis.call('HMGET', name('call:' .. id), 'version', 'box', 'kind')
  if there[1] and there[3] == 'call' and kind == 'call' then return { 3, there[1], there[2] } end
  if there[1] then return redis.error_reply('TOOLGEN that call is kept already') end
  if counted(own, each) >= each or counted(all, total) >= total then return { 0 } end
  redis.call('HSET', name('call:' .. id), 'version', '1', 'status', status, 'principal', principal, 'box', box, 'kind', kind)
  redis.call('PEXPIRE', name('call:' .. id), LONGEST_MS)
  redis.call('ZADD', open_of(kind), asked, id)
  redis.call('ZADD', due, at, id)
  count(status, principal, asked, id)
  keep_mine(principal, asked, id)
  return wrote()
elseif op == 'get' then
  return box_of(ARGV[2])
elseif op == 'unfinished' then
  return boxes(redis.call('ZRANGE', open_of(ARGV[2]), 0, -1), open_of(ARGV[2]))
elseif op == 'versions' then
  local found, set = {}, open_of(ARGV[2])
  for _, id in ipairs(redis.call('ZRANGE', set, 0, -1)) do
    local version = redis.call('HGET', name('call:' .. id), 'version')
    if version then
      found[#found + 1] = id
      found[#found + 1] = version
    else
      redis.call('ZREM', set, id)
    end
  end
  return found
elseif op == 'several' then
  return boxes({unpack(ARGV, 2)}, open_of('approval'))
elseif op == 'ended' then
  return boxes(redis.call('ZRANGEBYSCORE', ended, ARGV[2], '+inf', 'LIMIT', 0, ARGV[3]), ended)
elseif op == 'waiting' then
  local found = {}
  for number = 3, #ARGV do
    local _, own = like(ARGV[2], ARGV[number])
    found[#found + 1] = redis.call('ZRANGE', own, 0, -1)
  end
  return found
elseif op == 'owned' then
  local set = all_of(ARGV[2])
  return boxes(redis.call('ZRANGEBYSCORE', set, ARGV[3], '+inf', 'LIMIT', 0, ARGV[4]), set)
elseif op == 'due' then
  redis.call('ZADD', name('homes'), microseconds() / 1000000, ARGV[4])
  redis.call('ZREMRANGEBYSCORE', name('homes'), '-inf', microseconds() / 1000000 - LONGEST_HOME_S)
  return {
    boxes(redis.call('ZRANGEBYSCORE', due, '-inf', ARGV[2], 'LIMIT', 0, ARGV[3]), due),
    redis.call('ZRANGE', name('homes'), 0, -1, 'WITHSCORES')
  }
elseif op == 'renew' then
  for number = 4, #ARGV do
    local at = redis.call('ZSCORE', due, ARGV[number])
    if at and tonumber(at) > tonumber(ARGV[3]) then redis.call('ZADD', due, 'XX', ARGV[2], ARGV[number]) end
  end
  return 1
elseif op == 'unreadable' then
  for number = 3, #ARGV do
    redis.call('ZADD', due, 'XX', ARGV[2], ARGV[number])
    if redis.call('EXISTS', name('call:' .. ARGV[number])) == 1 then
      redis.call('HSET', name('call:' .. ARGV[number]), 'unreadable', '1')
    end
  end
  return 1
elseif op == 'replace' then
  local id, known, status, principal, at, box, kind, over, each, total, home = unpack(ARGV, 2)
  local kept = name('call:' .. id)
  local there = redis.call('HMGET', kept, 'version', 'status', 'kind', 'principal')
  if there[1] ~= known or (there[2] == 'ended' and over ~= '1') then return { 0 } end
  if status == 'ended' then
    local own, all = held(principal)
    if each ~= '' and (own + #box > tonumber(each) or all + #box > tonumber(total)) then return { 2 } end
    release(id)
    hold(id, principal, #box)
    if home ~= '' then
      redis.call('ZADD', told(home), 0, id)
      redis.call('PEXPIRE', told(home), LONGEST_MS)
    end
  end
  local version = string.format('%d', tonumber(known) + 1)
  local before = there[3] or 'approval'
  local asked = redis.call('ZSCORE', open_of(before), id) or '0'
  redis.call('HSET', kept, 'version', version, 'status', status, 'principal', principal, 'box', box, 'kind', kind)
  redis.call('HDEL', kept, 'unreadable')
  if there[2] ~= status then uncount(there[2], there[4], id) end
  if there[4] ~= principal then
    redis.call('ZREM', all_of(there[4]), id)
    keep_mine(principal, asked, id)
  end
  if status == 'ended' then
    redis.call('ZREM', open_of(before), id)
    redis.call('ZREM', due, id)
    redis.call('ZADD', ended, at, id)
  else
    redis.call('ZADD', due, at, id)
    if there[2] ~= status then count(status, principal, asked, id) end
    if before ~= kind then
      redis.call('ZREM', open_of(before), id)
      redis.call('ZADD', open_of(kind), asked, id)
    end
  end
  return wrote()
elseif op == 'held' then
  local own, all = held(ARGV[2])
  local first, own_first = redis.call('ZRANGE', ended, 0, 0, 'WITHSCORES')[2] or '0', nil
  for _, id in ipairs(redis.call('ZRANGE', all_of(ARGV[2]), 0, 99)) do
    local at = redis.call('ZSCORE', ended, id)
    if at and (not own_first or tonumber(at) < tonumber(own_first)) then own_first = at end
  end
  return {own, all, own_first or '0', first}
elseif op == 'restore' then
  local id, known, version, status, principal, asked, at, box, kind = unpack(ARGV, 2)
  local kept = name('call:' .. id)
  local there = redis.call('HMGET', kept, 'version', 'status', 'kind', 'principal')
  if (there[1] or '') ~= known then return { 0 } end
  if there[1] then
    uncount(there[2], there[4], id)
    redis.call('ZREM', all_of(there[4]), id)
    redis.call('ZREM', open_of(there[3] or 'approval'), id)
  end
  redis.call('ZREM', ended, id)
  release(id)
  redis.call('HSET', kept, 'version', version, 'status', status, 'principal', principal, 'box', box, 'kind', kind)
  redis.call('HDEL', kept, 'unreadable')
  redis.call('PEXPIRE', kept, LONGEST_MS)
  keep_mine(principal, asked, id)
  if status == 'ended' then
    redis.call('ZREM', due, id)
    redis.call('ZADD', ended, at, id)
    hold(id, principal, #box)
  else
    redis.call('ZADD', open_of(kind), asked, id)
    redis.call('ZADD', due, at, id)
    count(status, principal, asked, id)
  end
  return wrote()
elseif op == 'statuses' then
  local found = {}
  for number = 2, #ARGV do
    local there = redis.call('HMGET', name('call:' .. ARGV[number]), 'status', 'version', 'unreadable')
    found[#found + 1] = there[3] and 'unreadable' or there[1] or ''
    found[#found + 1] = there[2] or ''
  end
  return found
elseif op == 'lost' then
  local kept = epoch_of(prefix, ARGV[2])
  return kept == ARGV[2] and new_epoch(prefix, kept) or kept
elseif op == 'forget' then
  local old = redis.call('ZRANGEBYSCORE', ended, '-inf', '(' .. ARGV[2])
  for _, id in ipairs(old) do
    local principal = redis.call('HGET', name('call:' .. id), 'principal')
    if principal then redis.call('ZREM', all_of(principal), id) end
    redis.call('DEL', name('call:' .. id))
    redis.call('ZREM', ended, id)
    release(id)
  end
  return #old
end
local known, new, home, writer, number = unpack(ARGV, 2)
local epoch = epoch_of(prefix, known)
if epoch == '' then
  epoch = new
  redis.call('SET', prefix .. ':epoch', epoch)
end
-- Each look is numbered too: a store that was set back is noticed also where no call changed meanwhile.
local before = tonumber(redis.call('GET', writer_of(writer)) or '0')
redis.call('SET', writer_of(writer), math.max(before, tonumber(number)), 'PX', LONGEST_MS)
local over = redis.call('ZRANGE', told(home), 0, -1)
if #over > 0 then redis.call('DEL', told(home)) end
return {
  tonumber(redis.call('GET', changes) or '0'), epoch, before,
  tonumber(redis.call('GET', prefix .. ':departures:number') or '0'), over
}
