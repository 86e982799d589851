-- Epoch of the store: an id, and since when it holds (microseconds; 0 where nothing was lost before it), as `id:since`.
-- A store that was emptied, or set back to an older copy, has not the epoch that a gateway knows. Then a new epoch begins.
local function microseconds()
  local clock = redis.call('TIME')
  return tonumber(clock[1]) * 1000000 + tonumber(clock[2])
end
local function since_of(epoch) return tonumber(string.match(epoch, ':(%d+)$') or '0') end
local function new_epoch(prefix, known)
  local since = string.format('%.0f', math.max(microseconds(), since_of(known) + 1))
  local epoch = redis.sha1hex(known .. since) .. ':' .. since
  redis.call('SET', prefix .. ':epoch', epoch)
  return epoch
end
local function epoch_of(prefix, known)
  local kept = redis.call('GET', prefix .. ':epoch') or ''
  if known ~= '' and kept ~= known and (kept == '' or since_of(kept) <= since_of(known)) then
    kept = new_epoch(prefix, known)
  end
  return kept, since_of(kept)
end
