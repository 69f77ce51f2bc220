-- sample.lua - text from a trained language model: its forward played back with eager tensors over the run's weights, one
-- token at a time, batch 1, the context growing up to the model's.
local check = require 'ppl.check'
local capi = require 'ppl.capi'
local eager = require 'ppl.eager'
local fail = require 'ppl.fail'
local trace = require 'ppl.trace'

local methods = {}

-- A generator of numbers in [0, 1): Park and Miller's, seeded.
local function generator(seed)
    local state = (seed * 7919 + 12345) % 2147483646 + 1
    return function()
        state = state * 16807 % 2147483647
        return state / 2147483647
    end
end

-- The index (from 0) drawn from a list of logits: temperature 0 takes the largest; top_k 0 keeps all.
local function draw(logits, temperature, top_k, random)
    local order, n = {}, #logits
    for i = 1, n do order[i] = i end
    table.sort(order, function(a, b)
        local x, y = logits[a], logits[b]
        return x > y or (x == y and a < b)
    end)
    if temperature == 0 then return order[1] - 1 end
    local kept = top_k > 0 and math.min(top_k, n) or n
    local largest, sum, weights = logits[order[1]], 0, {}
    for k = 1, kept do
        weights[k] = math.exp((logits[order[k]] - largest) / temperature)
        sum = sum + weights[k]
    end
    local at = random() * sum
    for k = 1, kept do
        at = at - weights[k]
        if at < 0 then return order[k] - 1 end
    end
    return order[kept] - 1
end

-- The last position's logits for a list of tokens. What the playback makes on the way is freed at once.
local function last_logits(self, tokens, parameter)
    return eager.scope(function()
        local ids = eager.tensor({ tokens }, { dtype = 'i32', device = self:eager_device() })
        local play = trace.playback(parameter, { tokens = ids })
        local logits = play:with(function() return play:run(nil, self.model, ids) end)
        return logits:slice(1, #tokens - 1, 1):numbers()
    end)
end

-- run:sample(prompt, n, { temperature = 0.8, top_k = 40, seed = 1 }): the prompt and n bytes more, of a model over bytes
-- (ppl.data.text). options.each(text) gets each new byte as it comes.
function methods:sample(prompt, n, options)
    options = options or {}
    check.keys('sample', options, check.set('temperature', 'top_k', 'seed', 'each'))
    if not self.data.bytes_as_text then fail('sample: the data is no text, want a trainer over ppl.data.text') end
    check.text('sample: prompt', prompt, '\n')
    n = check.integer('sample: n', n, 0, nil, 200)
    local temperature = check.number('sample: temperature', options.temperature, 0, nil, 0.8)
    local top_k = check.integer('sample: top_k', options.top_k, 0, nil, 40)
    local random = generator(check.seed('sample: seed', options.seed, 1) % 2 ^ 31)
    local weights = {}
    for _, info in ipairs(self:parameter_list()) do
        local weight = self:tensor(info.name) -- from the process that holds it
        if capi.leads() then weights[info.name] = weight end
    end
    if not capi.leads() then return capi.same_text('a sample', nil) end
    local function parameter(path) return weights[path] end
    local tokens = { (prompt or '\n'):byte(1, -1) }
    if #tokens == 0 then tokens[1] = 10 end
    local context = self.data.inputs[1].shape[1]
    local text = {}
    for i = 1, n do
        local window = { unpack(tokens, math.max(1, #tokens - context + 1)) }
        local token = draw(last_logits(self, window, parameter), temperature, top_k, random)
        tokens[#tokens + 1] = token
        text[i] = string.char(token % 256)
        if options.each then options.each(text[i]) end
        if capi.lib.host_interrupted() then break end
    end
    return capi.same_text('a sample', (prompt or '\n') .. table.concat(text))
end

return methods
