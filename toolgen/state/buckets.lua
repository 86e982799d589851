-- Counts one batch for one gateway process, in one step and by this server's clock. ARGV[1] is JSON:
--   prefix, process, lease_ms, beat (whether the process says that it lives), epoch (that the process knows, "" for none)
--   releases, renewals: [[key, lease], …]
--   takes: [[lease, [[key, cost, tokens a second, burst, concurrency], …]], …]
--   looks, which there may be none of: [[key, tokens a second, burst, concurrency], …]
-- Answers {processes that live, then for each take two numbers: the charge that refused (0: none) and after how many milliseconds it
-- might not (-1: when a call in flight ends); then for each look thousandths of tokens that are left, and calls in flight}.
local given = cjson.decode(ARGV[1])
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local now_ms = math.floor(now / 1000)
local SLACK, STEP_BACK, LONGEST_MS = 1e-9, 60 * 1000000, 31536000000

-- Where the store has lost something, nobody knows what was taken since: buckets begin empty then, and places in flight are taken until
-- every process has named its own again.
local epoch, since = epoch_of(given.prefix, given.epoch or '')
local RENEWED_US = given.lease_ms * 1000 / 4
local function bucket(key) return given.prefix .. (since > 0 and ':bucket:' .. epoch .. ':' or ':bucket:') .. key end
local function flights(key) return given.prefix .. ':flight:' .. key end

local function fly(key, lease)
  redis.call('ZADD', flights(key), now_ms + given.lease_ms, lease)
  redis.call('PEXPIRE', flights(key), 2 * given.lease_ms)
end

-- What is left in a bucket, and from when on it fills. A clock that went back by less than a minute fills nothing until it caught up.
local function level(key, rate, burst)
  local kept = redis.call('GET', bucket(key))
  if not kept then return since > 0 and math.max(0, math.min(burst, (now - since) / 1000000 * rate)) or burst, now end
  local tokens, at = struct.unpack('>dd', kept)
  if now >= at then return math.min(burst, tokens + (now - at) / 1000000 * rate), now end
  if at - now > STEP_BACK then return tokens, now end
  return tokens, at
end

local function take(lease, charges)
  local refused, longest, levels = 0, -2, {}
  for index, charge in ipairs(charges) do
    local key, cost, rate, burst, concurrency = unpack(charge)
    local wait = -2
    if burst > 0 then
      local tokens, at = level(key, rate, burst)
      local left = tokens - cost
      if left >= -SLACK then
        levels[index] = { left, at }
      else
        wait = math.min(LONGEST_MS, math.ceil(-left / rate * 1000))
      end
    end
    if concurrency > 0 then
      redis.call('ZREMRANGEBYSCORE', flights(key), '-inf', now_ms)
      local unknown = since > 0 and now - since < RENEWED_US
      if unknown or redis.call('ZCARD', flights(key)) >= concurrency then wait = math.max(wait, -1) end
    end
    if wait > longest then refused, longest = index, wait end
  end
  if refused > 0 then return refused, longest end
  for index, charge in ipairs(charges) do
    local key, cost, rate, burst, concurrency = unpack(charge)
    if levels[index] then
      local left, at = unpack(levels[index])
      local full_ms = math.min(LONGEST_MS, math.ceil((burst - left) / rate * 1000))
      redis.call('SET', bucket(key), struct.pack('>dd', left, at), 'PX', full_ms + STEP_BACK / 1000)
    end
    if concurrency > 0 then fly(key, lease) end
  end
  return 0, 0
end

for _, one in ipairs(given.releases) do redis.call('ZREM', flights(one[1]), one[2]) end
for _, one in ipairs(given.renewals) do fly(one[1], one[2]) end

local processes = given.prefix .. ':processes'
if given.beat then
  redis.call('ZADD', processes, now_ms, given.process)
  redis.call('ZREMRANGEBYSCORE', processes, '-inf', now_ms - given.lease_ms)
  redis.call('PEXPIRE', processes, given.lease_ms)
end
local answer = { redis.call('ZCARD', processes) }
for _, one in ipairs(given.takes) do
  local refused, wait = take(one[1], one[2])
  answer[#answer + 1] = refused
  answer[#answer + 1] = wait
end
for _, one in ipairs(given.looks or {}) do
  local key, rate, burst, concurrency = unpack(one)
  local tokens = burst > 0 and (level(key, rate, burst)) or 0
  answer[#answer + 1] = math.floor(tokens * 1000 + 0.5)
  answer[#answer + 1] = concurrency > 0 and redis.call('ZCOUNT', flights(key), '(' .. now_ms, '+inf') or 0
end
return answer
