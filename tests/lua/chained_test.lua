-- chained_test.lua - 20 steps handed over at once on the emulated device: what of a step lies within the one before it, by the
-- trace. How long they take is measured by scripts/bench/chained.lua.
local ppl = require 'ppl'
local nn = ppl.nn

local STEPS, P, M = 20, 4, 8

local function make(T, schedule)
    return ppl.trainer {
        model = nn.gpt { layers = 4, dim = 16, heads = 2, context = 16, tied = false }, loss = nn.cross_entropy(),
        data = ppl.data.text { files = { T.temporary(('abcdefghijklmnopqrstuvwxyz'):rep(40)) }, context = 16 },
        pipeline = { stages = P, microbatches = M, threads = 1, schedule = schedule }, optimizer = ppl.adamw { lr = 1e-2 },
        batch = 8, steps = STEPS, dtype = 'f32', seed = 3, trace_steps = STEPS, device = 'emulated',
        costs = { f = 0.002, i = 0.002, w = 0.002 },
    }
end

-- All tasks of a rank in order of time, each with its step.
local function tasks_of(run, rank)
    local list = {}
    for step = 0, STEPS - 1 do
        for _, task in ipairs(run:events(step)[rank + 1]) do
            if not task.step then list[#list + 1] = { step = step, kind = task.kind, microbatch = task.microbatch,
                begin = task.begin, finish = task.finish } end
        end
    end
    table.sort(list, function(a, b) return a.begin < b.begin end)
    return list
end

-- How many of a rank's forwards ran before the last backward of the step before.
local function forwards_within(list)
    local last, count = {}, 0
    for _, task in ipairs(list) do
        if task.kind == 'B' then last[task.step] = task.begin end
    end
    for _, task in ipairs(list) do
        if task.kind == 'F' and task.step > 0 and task.begin < last[task.step - 1] then count = count + 1 end
    end
    return count
end

return function(T)
    T.case('chained: PipeDream\'s forwards of a step lie within the step before', function()
        for _, name in ipairs { 'pipedream', 'pipedream-2bw' } do
            local run = make(T, name)
            run:step(STEPS)
            for rank = 0, P - 1 do
                local list = tasks_of(run, rank)
                for i = 2, #list do T.truthy(list[i].begin >= list[i - 1].finish, 'a rank does two tasks at once') end
                T.equal(forwards_within(list), (STEPS - 1) * (P - rank - 1), ('%s, rank %d'):format(name, rank))
            end
            run:close()
            run = make(T, name) -- handed over one by one, they drain
            for _ = 1, STEPS do run:step() end
            for rank = 0, P - 1 do T.equal(forwards_within(tasks_of(run, rank)), 0, ('%s, rank %d, one by one'):format(name, rank)) end
            run:close()
        end
    end)
    T.case('chained: ZB-H2 begins a step while other ranks end the one before', function()
        -- Rank 0 ends p - 1 tasks before the last rank, and goes on at once: of all steps some must show it, whatever the machine
        -- does meanwhile. A barrier between steps lets none.
        for _, chained in ipairs { true, false } do
            local run, early = make(T, 'zb-h2'), 0
            if chained then run:step(STEPS) else for _ = 1, STEPS do run:step() end end
            local first, last = tasks_of(run, 0), tasks_of(run, P - 1)
            for step = 1, STEPS - 1 do
                local begin, finish = math.huge, 0
                for _, task in ipairs(first) do
                    if task.step == step then begin = math.min(begin, task.begin) end
                end
                for _, task in ipairs(last) do
                    if task.step == step - 1 then finish = math.max(finish, task.finish) end
                end
                if begin < finish then early = early + 1 end
            end
            if chained then T.truthy(early > 0, 'no step began early') else T.equal(early, 0, 'one by one') end
            run:close()
        end
    end)
end
