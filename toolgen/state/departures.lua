-- Notes about clients that left, in the order in which they were added. ARGV[1] says which step:
--   add body milliseconds most  -> the number of the note; the last `most` are kept
--   news after limit            -> the number of the last note of these, and the notes after a number, each with its number before it
local notes, counter = KEYS[1], KEYS[1] .. ':number'
if ARGV[1] == 'add' then
  local number = redis.call('INCR', counter)
  redis.call('ZADD', notes, number, number .. ' ' .. ARGV[2])
  redis.call('ZREMRANGEBYSCORE', notes, '-inf', number - tonumber(ARGV[4]))
  redis.call('PEXPIRE', notes, ARGV[3])
  redis.call('PEXPIRE', counter, 2 * tonumber(ARGV[3]))
  return number
end
local last, after = tonumber(redis.call('GET', counter) or '0'), tonumber(ARGV[2])
if after > last then after = 0 end -- the store was emptied since
local found = redis.call('ZRANGEBYSCORE', notes, '(' .. after, '+inf', 'LIMIT', 0, ARGV[3])
local number = #found > 0 and string.match(found[#found], '^(%d+) ') or after
return { number, unpack(found) }
