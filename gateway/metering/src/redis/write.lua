-- Takes the snapshots of one tick, of one shard: each that is newer than what its key has becomes its value and an entry of the
-- stream. Value and expiry are set in one command, and no key is left without an expiry.
--
-- KEYS: stream, count, index, then a snapshot key each
-- ARGV: ms that a snapshot is kept, ms that the stream is kept, entries of the stream, then order and snapshot each
-- Answers the server's time (s, µs), then 1 (taken) or 0 (not newer) each.
--
-- A script that fails is not undone: the value comes last, so that what did not get that far is taken when it is sent again. What
-- does not begin with an order lies at a snapshot's key by mistake, and is replaced.
--
-- Commands of Redis 6.2. Effects are replicated, not the script, so that replicas need not agree on the time.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local received = string.format('%013.0f', now_ms)
local keep_ms, stream_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local answer = { tonumber(time[1]), tonumber(time[2]) }
for i = 4, #KEYS do
  local order, snapshot = ARGV[i * 2 - 4], ARGV[i * 2 - 3]
  local before = redis.pcall('GETRANGE', KEYS[i], 0, 39)
  if type(before) == 'table' then
    if not string.find(before.err, 'WRONGTYPE', 1, true) then
      return before
    end
    before = ''
  elseif #before ~= 40 or string.find(before, '%D') then
    before = ''
  end
  if order > before then
    local n = redis.call('INCR', KEYS[2])
    redis.call('PEXPIRE', KEYS[2], stream_ms)
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], '*', 'n', n, 's', snapshot)
    redis.call('PEXPIRE', KEYS[1], stream_ms)
    redis.call('ZADD', KEYS[3], now_ms + keep_ms, KEYS[i])
    redis.call('PEXPIRE', KEYS[3], keep_ms)
    redis.call('SET', KEYS[i], order .. received .. snapshot, 'PX', keep_ms)
    answer[#answer + 1] = 1
  else
    answer[#answer + 1] = 0
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[3], '-inf', now_ms)
return answer
