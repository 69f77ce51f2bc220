-- trace.lua - what tracing costs: the demo's model trains with it and without it, in turns of a few steps, and the medians
-- of the pairs are compared. Prints the share of a step's time. `make bench` runs it; ppl scripts/bench/trace.lua.
local ppl = require 'ppl'

local cfg = ppl.config { pairs = 60, steps = 4, stages = 2, microbatches = 4 }

local function trainer(traced)
    local run = ppl.trainer {
        model = ppl.nn.gpt { layers = 4, dim = 96, heads = 3, context = 64 }, loss = ppl.nn.cross_entropy(), seed = 1,
        data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = 64 }, batch = 16,
        pipeline = { stages = cfg.stages, microbatches = cfg.microbatches, schedule = '1f1b' },
        optimizer = ppl.adamw { lr = 1e-3, clip = 1.0 },
    }
    if not traced then run.trace_steps = 0 end
    run:step(cfg.steps) -- opens it, and fills the caches
    return run
end

local function seconds(run)
    local begin = ppl.clock()
    run:advance(cfg.steps)
    return ppl.clock() - begin
end

local function median(list)
    table.sort(list)
    return list[math.ceil(#list / 2)]
end

local with, without = trainer(true), trainer(false)
local ratios, times = {}, {}
for pair = 1, cfg.pairs do -- who is first alternates
    local a, b
    if pair % 2 == 0 then a, b = seconds(with), seconds(without) else b = seconds(without) a = seconds(with) end
    ratios[pair], times[pair] = a / b, b / cfg.steps
end
local quarter = math.ceil(cfg.pairs / 4)
local middle = median(ratios)
print(('step %.2f ms; tracing costs %.2f %% (median of %d pairs, quartiles %.2f to %.2f %%), want 1 %% at most'):format(
    median(times) * 1e3, (middle - 1) * 100, cfg.pairs, (ratios[quarter] - 1) * 100, (ratios[cfg.pairs - quarter + 1] - 1) * 100))
with:close()
without:close()
return middle <= 1.01 and 0 or 1
