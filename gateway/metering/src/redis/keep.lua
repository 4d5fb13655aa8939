-- Keeps roll-ups, of one shard: each whose order is higher than what its key has. Value and expiry are set in one command.
--
-- KEYS: index of roll-ups, then a roll-up key each
-- ARGV: ms that a roll-up is kept, then order and the rest of the value each
-- What is no text lies at a roll-up's key by mistake, and is replaced. A script that fails is not undone: the value comes last.
-- Answers 1 (taken) or 0 (what is there is as new) each.
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local keep_ms = tonumber(ARGV[1])
local answer = {}
for i = 2, #KEYS do
  local order, rest = ARGV[i * 2 - 2], ARGV[i * 2 - 1]
  local before = redis.pcall('GETRANGE', KEYS[i], 0, 39)
  if type(before) ~= 'string' or #before < 40 or string.find(before, '%D') or order > before then
    redis.call('ZADD', KEYS[1], now_ms + keep_ms, KEYS[i])
    redis.call('PEXPIRE', KEYS[1], keep_ms)
    redis.call('SET', KEYS[i], order .. rest, 'PX', keep_ms)
    answer[#answer + 1] = 1
  else
    answer[#answer + 1] = 0
  end
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
return answer
