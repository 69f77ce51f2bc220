-- learn_test.lua - a source whose entropy is known is learned to within 2 % of it: a seeded Markov chain over four states.
local ppl = require 'ppl'

local STATES, CONTEXT, BATCH = 4, 32, 16
-- Rows of the transition matrix.
local P = { { 0.7, 0.1, 0.1, 0.1 }, { 0.05, 0.05, 0.85, 0.05 }, { 0.25, 0.25, 0.25, 0.25 }, { 0.4, 0.0, 0.0, 0.6 } }

-- Nats a symbol: the rows' entropies under the chain's stationary distribution (by iteration).
local function entropy()
    local pi = { 0.25, 0.25, 0.25, 0.25 }
    for _ = 1, 1000 do
        local next_pi = { 0, 0, 0, 0 }
        for i = 1, STATES do
            for j = 1, STATES do next_pi[j] = next_pi[j] + pi[i] * P[i][j] end
        end
        pi = next_pi
    end
    local h = 0
    for i = 1, STATES do
        for j = 1, STATES do
            if P[i][j] > 0 then h = h - pi[i] * P[i][j] * math.log(P[i][j]) end
        end
    end
    return h
end

local function chain(seed)
    local random, state = seed, 1
    return function()
        random = random * 16807 % 2147483647 -- Park and Miller's minimal generator
        local u, s = random / 2147483647, state
        for j = 1, STATES do
            u = u - P[s][j]
            state = j
            if u < 0 then break end
        end
        return state - 1
    end
end

local function source(seed)
    local draw = chain(seed)
    return ppl.data.iterator {
        inputs = { { name = 'tokens', dtype = 'i32', shape = { CONTEXT } }, { name = 'targets', dtype = 'i32', shape = { CONTEXT } } },
        next = function(_, batch)
            local tokens, targets = {}, {}
            for b = 1, batch do
                local last = draw()
                tokens[b], targets[b] = {}, {}
                for t = 1, CONTEXT do
                    tokens[b][t] = last
                    last = draw()
                    targets[b][t] = last
                end
            end
            return { tokens = tokens, targets = targets }
        end,
    }
end

return function(T)
    T.case('learn: a Markov chain to within 2 % of its entropy', function()
        local run = ppl.trainer {
            model = ppl.nn.gpt { layers = 2, dim = 32, heads = 2, context = CONTEXT, vocabulary = STATES },
            loss = ppl.nn.cross_entropy(), data = source(11), eval_data = source(77), batch = BATCH, dtype = 'f32', steps = 200,
            pipeline = { stages = 2, microbatches = 4, schedule = '1f1b', threads = 1 },
            optimizer = ppl.adamw { lr = 5e-3, warmup = 10, decay = 'cosine', weight_decay = 0, clip = 1 },
        }
        local before = run:evaluate(4)
        run:step(200)
        local h, loss = entropy(), run:evaluate(32)
        T.truthy(before > 1.15 * h, ('untrained loss %.4f, entropy %.4f'):format(before, h))
        T.truthy(math.abs(loss - h) <= 0.02 * h, ('loss %.4f, entropy %.4f: %.1f %% apart'):format(loss, h, 100 * (loss / h - 1)))
        run:close()
    end)
end
