-- schedules.lua - every synchronous schedule of the library on the cuda device over the emulation: a tiny GPT and a tiny Llama,
-- f32 and bf16, three steps on 1, 2 and 4 stages. The losses and the weights are those of one stage, bit by bit; the losses are
-- near those of the cpu device. Where there are several GPUs, each rank has one. Run by schedules.sh; a sample of it, or with
-- PPL_TEST_FULL=1 all.
package.path = 'tests/lua/?.lua;' .. package.path
local ppl = require 'ppl'
local schedules = require 'ppl.schedules'
local T = require 'support'
local nn = ppl.nn

local CONTEXT, VOCABULARY, BATCH, STEPS = 8, 32, 4, 3
local FULL = os.getenv 'PPL_TEST_FULL' == '1'
local LAYERS = FULL and 4 or 2
local SAMPLE = { ['zb-v'] = true, ['looped-bfs'] = true, ['dualpipe-v'] = true } -- the others are test_train.c's, or near those

local MODELS = {
    gpt = function()
        return nn.gpt { layers = LAYERS, dim = 16, heads = 2, context = CONTEXT, vocabulary = VOCABULARY, dropout = 0.1 }
    end,
    llama = function()
        return nn.llama { layers = LAYERS, dim = 16, heads = 4, kv_heads = 2, hidden = 32, context = CONTEXT, vocabulary = VOCABULARY }
    end,
}

local function source()
    local state = 5
    local function draw()
        state = state * 16807 % 2147483647
        return state % 7 * 3 % VOCABULARY
    end
    local i32 = { dtype = 'i32', shape = { CONTEXT } }
    return ppl.data.iterator {
        inputs = { { name = 'tokens', dtype = i32.dtype, shape = i32.shape }, { name = 'targets', dtype = i32.dtype, shape = i32.shape } },
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

-- The losses, and the bytes of a checkpoint.
local function train(device, model, dtype, stages, schedule, clip)
    local run = ppl.trainer {
        model = MODELS[model](), loss = nn.cross_entropy(), data = source(), batch = BATCH, dtype = dtype, steps = STEPS,
        seed = 3, device = device, pipeline = { stages = stages, microbatches = BATCH, schedule = schedule, threads = 1 },
        optimizer = ppl.adamw { lr = 1e-2, clip = { mode = clip, norm = 1 } },
    }
    local losses = {}
    run:step(STEPS)
    for step = 0, STEPS - 1 do losses[step + 1] = run:record(step).loss end
    local path = os.tmpname()
    run:save(path)
    run:close()
    local bytes = T.read(path)
    os.remove(path)
    return losses, bytes
end

-- All of the library but second names.
local function synchronous()
    local list, seen = {}, {}
    for _, name in ipairs(schedules.names()) do
        local description = schedules.find(name)
        if description.weights == 'sync' and not seen[description] then list[#list + 1] = name end
        seen[description] = true
    end
    return list
end

-- Schedules with chunks have two stages a rank here: 2 stages are on one rank, 4 on two.
local function check(model, dtype, tolerance)
    local losses, bytes = train('cuda', model, dtype, 1, 'naive', 'before')
    T.near(losses, (train('cpu', model, dtype, 1, 'naive', 'before')), tolerance)
    local done = 0
    for i, schedule in ipairs(synchronous()) do
        for _, stages in ipairs { 2, 4 } do
            if FULL or SAMPLE[schedule] and stages == 4 then
                local l, b = train('cuda', model, dtype, stages, schedule, (i + stages / 2) % 2 == 0 and 'before' or 'after')
                local what = ('%s, %d stages'):format(schedule, stages)
                T.equal(l, losses, what .. ': the losses')
                T.truthy(b == bytes, what .. ': the weights are the same')
                done = done + 1
            end
        end
    end
    T.truthy(done >= (FULL and 20 or 3), 'enough schedules')
end

for _, case in ipairs {
    { 'gpt', 'f32', 1e-4 }, { 'llama', 'bf16', 5e-2 }, { 'gpt', 'bf16', 5e-2, true }, { 'llama', 'f32', 1e-4, true },
} do
    local model, dtype, tolerance, rare = unpack(case)
    if FULL or not rare then
        T.case(('cuda: %s in %s: the same bits under every schedule'):format(model, dtype), function() check(model, dtype, tolerance) end)
    end
end
print(('%d passed, %d failed, %d skipped'):format(T.passed, T.failed, T.skipped))
return T.failed > 0 and 1 or 0
