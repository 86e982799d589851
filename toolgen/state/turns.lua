-- Counts turns of conversations, in one step and by this server's clock. ARGV[1] is JSON:
--   prefix, limit, most (calls a turn), lease_ms, kept_ms
--   steps: [[what, conversation, lease, whose], …], done in this order; what: 0 enter, 1 leave, 2 stay
-- Answers two numbers for each step: 0 (fine), 1 (its turns are used up) or 2 (its turn is full), and after how many milliseconds it may
-- be tried again.
local given = cjson.decode(ARGV[1])
local clock = redis.call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local CROWDED_MS = 1000

local function state(name) return given.prefix .. ':turns:' .. name end
local function flights(name) return given.prefix .. ':turns:' .. name .. ':flights' end

local function stay(name, lease)
  redis.call('ZADD', flights(name), now_ms + given.lease_ms, lease)
  redis.call('PEXPIRE', flights(name), 2 * given.lease_ms)
end

local function enter(name, lease)
  redis.call('ZREMRANGEBYSCORE', flights(name), '-inf', now_ms)
  local flying = redis.call('ZCARD', flights(name)) > 0
  local turns = tonumber(redis.call('HGET', state(name), 'turns') or 0)
  if not flying or turns == 0 then
    if turns >= given.limit then return 1, math.max(1, redis.call('PTTL', state(name))) end
    redis.call('HSET', state(name), 'turns', turns + 1, 'calls', 0)
  elseif tonumber(redis.call('HGET', state(name), 'calls')) >= given.most then
    return 2, CROWDED_MS
  end
  redis.call('HINCRBY', state(name), 'calls', 1)
  redis.call('PEXPIRE', state(name), given.kept_ms)
  stay(name, lease)
  return 0, 0
end

local answer = {}
for _, step in ipairs(given.steps) do
  local what, name, lease = unpack(step)
  local refused, wait = 0, 0
  if what == 0 then
    refused, wait = enter(name, lease)
  elseif what == 1 then
    redis.call('ZREM', flights(name), lease)
  else
    stay(name, lease)
  end
  answer[#answer + 1] = refused
  answer[#answer + 1] = wait
end
return answer
