-- chained.lua - 20 chained steps on the emulated device, tasks of 20 ms, p = 4, m = 8: ZB-H2 and PipeDream beside the simulation
-- of as many, and beside the same steps handed over one by one. In units of a task: 27.0 and 33.0 a step with a barrier, 24
-- and one fill or drain for all steps without (24.3 and 24.9 over ten). Threads that wake late for other work on the machine
-- show here as a slower step; `chrt -f 1 ./ppl scripts/bench/chained.lua` is free of that.
local ppl = require 'ppl'
local events = require 'ppl.events'
local nn = ppl.nn

local cfg = ppl.config { task = 0.02, steps = 20 }
local P, M = 4, 8

local function open(schedule)
    return ppl.trainer {
        model = nn.gpt { layers = 4, dim = 16, heads = 2, context = 16, tied = false }, loss = nn.cross_entropy(),
        data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = 16 },
        pipeline = { stages = P, microbatches = M, threads = 1, schedule = schedule }, optimizer = ppl.adamw { lr = 1e-3 },
        batch = M, steps = 3 * cfg.steps, dtype = 'f32', device = 'emulated',
        costs = { f = cfg.task, i = cfg.task, w = cfg.task },
    }
end

-- Seconds of all steps, in calls of so many.
local function measure(run, group)
    local begin = ppl.clock()
    for _ = 1, cfg.steps / group do run:step(group) end
    return ppl.clock() - begin
end

local function simulate(run, steps)
    local cost = {}
    for stage = 1, P do cost[stage] = cfg.task end
    return events.simulate(run.schedule, { f = cost, i = cost, w = cost, latency = 0, update = 0 }, steps).makespan
end

print(('%d steps, p=%d, m=%d, tasks of %g ms; steps in units of a task'):format(cfg.steps, P, M, cfg.task * 1e3))
print('schedule        chained  simulated      off   one by one  simulated   gain  simulated')
for _, name in ipairs { 'zb-h2', 'pipedream', 'pipedream-2bw' } do
    local run = open(name)
    run:step() -- threads, memory
    local together, apart = measure(run, cfg.steps), measure(run, 1)
    local want, want_apart = simulate(run, cfg.steps), cfg.steps * simulate(run, 1)
    local unit = cfg.task * cfg.steps
    print(('%-14s %8.2f %10.2f %+7.2f %% %11.2f %10.2f %6.3f %10.3f%s'):format(name, together / unit, want / unit,
        (together / want - 1) * 100, apart / unit, want_apart / unit, apart / together, want_apart / want,
        together / want > 1.03 and '   more than 3 % off' or ''))
    run:close()
end
