-- equal_test.lua - what a user relies on: the same script gives the same losses and the same weights, bit by bit, after 30
-- steps on any number of stages and under any synchronous schedule: dropout, tied embeddings, a skip from the first stage to
-- the last, clipping, fewer microbatches than ranks.
local ppl = require 'ppl'
local nn = ppl.nn

local CONTEXT, DIM, VOCABULARY, BLOCKS, STEPS = 8, 16, 32, 6, 30

-- Blocks that hand the embedding on beside their own value, so that it skips to the head whatever lies between.
local function model()
    local items = { nn.layer {
        name = 'embed', flat = false, token = nn.embedding { vocabulary = VOCABULARY, dim = DIM, std = 0.1 },
        forward = function(self, ids)
            local x = self.token(ids):dropout(0.1)
            return { x, x }
        end,
    } }
    for i = 0, BLOCKS - 1 do
        items[#items + 1] = nn.layer {
            name = 'blocks.' .. i, norm = nn.layernorm(DIM), up = nn.linear(DIM, 2 * DIM), down = nn.linear(2 * DIM, DIM),
            attn = nn.attention { dim = DIM, heads = 2 },
            forward = function(self, pair)
                local x = pair[1] + self.attn(self.norm(pair[1]))
                return { x + self.down(self.up(x):gelu()):dropout(0.1), pair[2] }
            end,
        }
    end
    items[#items + 1] = nn.layer {
        name = 'head', norm = nn.layernorm(DIM),
        head = nn.linear { inputs = DIM, outputs = VOCABULARY, bias = false, tie = 'embed.token.weight' },
        forward = function(self, pair) return self.head(self.norm(pair[1] + pair[2])) end,
    }
    return nn.sequential(items)
end

local function source()
    local state = 5
    local function draw()
        state = state * 16807 % 2147483647
        return state % 7 * 3 % VOCABULARY
    end
    return ppl.data.iterator {
        inputs = { { name = 'tokens', dtype = 'i32', shape = { CONTEXT } }, { name = 'targets', dtype = 'i32', shape = { CONTEXT } } },
        next = function(_, batch)
            local tokens, targets = {}, {}
            for b = 1, batch do
                tokens[b], targets[b] = {}, {}
                for t = 1, CONTEXT do
                    tokens[b][t] = draw()
                    targets[b][t] = (tokens[b][t] + 1) % VOCABULARY
                end
            end
            return { tokens = tokens, targets = targets }
        end,
    }
end

-- The losses of all steps and the checkpoint's bytes.
local function train(dtype, clip, microbatches, stages, schedule, recompute)
    local run = ppl.trainer {
        model = model(), loss = nn.cross_entropy(), data = source(), batch = 4, dtype = dtype, steps = STEPS, seed = 3,
        pipeline = { stages = stages, microbatches = microbatches, schedule = schedule, threads = 1, recompute = recompute },
        optimizer = ppl.adamw { lr = 1e-2, warmup = 5, decay = 'linear', clip = { mode = clip, norm = 1.5 } },
    }
    local losses = {}
    run:step(STEPS)
    for step = 0, STEPS - 1 do losses[#losses + 1] = ('%.17g'):format(run:record(step).loss) end
    local path = os.tmpname()
    run:save(path)
    run:close()
    local file = assert(io.open(path, 'rb'))
    local bytes = file:read('*a')
    file:close()
    os.remove(path)
    return table.concat(losses, ' '), bytes
end

return function(T)
    for _, dtype in ipairs { 'f32', 'bf16' } do
        for _, microbatches in ipairs { 4, 2 } do
            T.case(('equal: %s, %d microbatches: the same bits on every cut'):format(dtype, microbatches), function()
                local losses, bytes = train(dtype, 'before', microbatches, 1, 'naive')
                for _, stages in ipairs { 1, 2, 3, 4, 8 } do
                    for i, schedule in ipairs { 'naive', 'gpipe', '1f1b', 'zb-h1' } do
                        local clip = (stages + i) % 2 == 0 and 'before' or 'after'
                        local recompute = stages == 3 and 'full' or stages == 4 and 'every 2' or nil
                        local l, b = train(dtype, clip, microbatches, stages, schedule, recompute)
                        local what = ('%d stages, %s, clip %s'):format(stages, schedule, clip)
                        T.truthy(l == losses, what .. ': the losses are the same')
                        T.truthy(b == bytes, what .. ': the weights are the same')
                    end
                end
            end)
        end
    end
end
