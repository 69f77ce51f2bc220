-- trace.lua - what tracing costs: the demo's model trains a step with it and a step without it in turns (in one trainer: where
-- two have their memory makes more of a difference). Prints the share of a step's time. `make bench` runs it.
local ppl = require 'ppl'
local capi = require 'ppl.capi'

local cfg = ppl.config { pairs = 300, stages = 2, microbatches = 4 }
local run = ppl.trainer {
    model = ppl.nn.gpt { layers = 4, dim = 96, heads = 3, context = 64 }, loss = ppl.nn.cross_entropy(), batch = 16,
    data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = 64 },
    pipeline = { stages = cfg.stages, microbatches = cfg.microbatches, schedule = '1f1b' },
    optimizer = ppl.adamw { lr = 1e-3, clip = 1.0 },
}

local function seconds(timed)
    capi.lib.run_time(run:open(), timed and 1 or 0)
    local begin = ppl.clock()
    run:advance(1)
    return ppl.clock() - begin
end

run:step(4)
local ratios, times = {}, {}
for pair = 1, cfg.pairs do -- who is first alternates
    local a, b
    if pair % 2 == 0 then a, b = seconds(true), seconds(false) else b = seconds(false) a = seconds(true) end
    ratios[pair], times[pair] = a / b, b
end
run:close()

-- The median, and the interval that 19 of 20 such measurements have it in: so many places of the sorted list to each side
-- (the binomial distribution, taken for a normal one).
table.sort(ratios)
table.sort(times)
local n = cfg.pairs
local function percent(place) return (ratios[math.max(1, math.min(n, place))] - 1) * 100 end
local aside = math.ceil(0.98 * math.sqrt(n))
local middle, low, high = percent(math.ceil(n / 2)), percent(math.ceil(n / 2) - aside), percent(math.ceil(n / 2) + aside)
print(('a step takes %.2f ms; tracing adds %.2f %% (median of %d pairs; %.2f to %.2f %% in 19 of 20 cases), want 1 %% at most'):format(
    times[math.ceil(n / 2)] * 1e3, middle, n, low, high))
return low > 1 and 1 or 0 -- other work on the machine must not decide
