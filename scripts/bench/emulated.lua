-- emulated.lua - how near the emulated device comes to the simulation: three chained steps of every built-in schedule with
-- tasks of 20 ms, over links that take time. One line a schedule: measured / simulated. `ppl scripts/bench/emulated.lua --ranks 4
-- --schedules 1f1b,zb-h1`. Costs are waited for, so a machine that does other work shows as ratios above 1.
local ppl = require 'ppl'
local costs_of = require 'ppl.costs'
local events = require 'ppl.events'
local schedules = require 'ppl.schedules'
local nn = ppl.nn

local STEPS = 3
local cfg = ppl.config { ranks = '4,8', schedules = '', ms = 20.0, latency_us = 50.0, bandwidth = 1e6, jitter = 0.0 }

local function names()
    local list = {}
    if cfg.schedules ~= '' then
        for name in cfg.schedules:gmatch '[^,]+' do list[#list + 1] = name end
        return list
    end
    for _, name in ipairs(schedules.names()) do
        if name ~= 'afab' then list[#list + 1] = name end -- gpipe's other name
    end
    return list
end

-- A chain of small layers, one a stage, that computes nothing: the emulated device waits instead.
local function trainer_of(schedule, stages, microbatches, costs)
    local layers = {}
    for i = 1, stages do layers[i] = nn.linear(16, 16) end
    local input = {}
    for i = 1, microbatches do input[i] = {} for k = 1, 16 do input[i][k] = 0 end end
    return ppl.trainer {
        model = nn.sequential(layers), loss = nn.mse(), device = 'emulated', costs = costs, batch = microbatches, dtype = 'f32',
        data = ppl.data.iterator { inputs = { { name = 'x', shape = { 16 } }, { name = 'targets', shape = { 16 } } },
            next = function() return { x = input, targets = input } end },
        optimizer = ppl.sgd { lr = 0.1 },
        pipeline = { stages = stages, microbatches = microbatches, schedule = schedule, threads = 1 },
    }
end

local function measure(name, ranks)
    local microbatches, chunks, t = 2 * ranks, schedules.find(name).chunks, cfg.ms * 1e-3
    local costs = { f = t, i = t, w = t, update = t / 4, latency = cfg.latency_us * 1e-6, bandwidth = cfg.bandwidth, jitter = cfg.jitter }
    local run = trainer_of(name, ranks * chunks, microbatches, costs)
    local sim = events.simulate(run.schedule, costs_of.check('costs', costs, ranks * chunks), STEPS, run)
    run:step(STEPS)
    local took = run:record(STEPS - 1).finish - run:record(0).begin
    run:close()
    print(('%-14s %d ranks, %2d microbatches: %8.1f ms measured, %8.1f ms simulated, ratio %.4f'):format(name, ranks, microbatches,
        took / STEPS * 1e3, sim.makespan / STEPS * 1e3, took / sim.makespan))
    io.stdout:flush()
    return took / sim.makespan
end

local worst = 1
for ranks in cfg.ranks:gmatch '%d+' do
    for _, name in ipairs(names()) do worst = math.max(worst, measure(name, tonumber(ranks))) end
end
print(('the largest ratio: %.4f (want 1.02 at most on a machine at rest)'):format(worst))
