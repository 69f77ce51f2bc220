-- events.lua - a step's tasks as the timeline draws them: from a run's trace or a plan's simulation.
local capi = require 'ppl.capi'
local json = require 'ppl.json'
local timeline = require 'ppl.timeline'

local lib = capi.lib
local events = {}
local CHAINED = 10 -- steps after which those of an asynchronous schedule take the same time each

-- Task kinds that compute; the others (waiting, sending) are what a row shows as idle.
local letters = { PPL_TASK_F = 'F', PPL_TASK_B = 'B', PPL_TASK_I = 'I', PPL_TASK_W = 'W', PPL_TASK_UPDATE = 'U' }

-- Task kinds that wait, and for what.
local waits = { PPL_TASK_RECEIVE = 'value', PPL_TASK_CREDIT = 'buffer', PPL_TASK_NORM = 'norm', PPL_TASK_VALIDATE = 'norm' }

local function read(call, owner, step, ranks)
    local names, causes = {}, {}
    for constant, letter in pairs(letters) do names[capi.const[constant]] = letter end
    for constant, cause in pairs(waits) do causes[capi.const[constant]] = cause end
    local count = capi.new('int64_t[1]')
    lib[call](owner, step, nil, 0, count)
    local n = tonumber(count[0])
    local raw = capi.new('ppl_event[?]', math.max(n, 1))
    lib[call](owner, step, raw, n, count)
    local rows = {}
    for rank = 1, ranks do rows[rank] = { waits = {} } end
    for i = 0, n - 1 do
        local e, letter, cause = raw[i], names[raw[i].kind], causes[raw[i].kind]
        if cause and rows[e.rank + 1] and e['end'] > e.begin then
            table.insert(rows[e.rank + 1].waits, { cause = cause, rank = cause ~= 'norm' and e.peer >= 0 and e.peer or nil,
                begin = e.begin, finish = e['end'] })
        elseif letter and rows[e.rank + 1] then
            table.insert(rows[e.rank + 1], { kind = letter, stage = e.stage,
                microbatch = letter ~= 'U' and e.microbatch or nil, begin = e.begin, finish = e['end'] })
        end
    end
    return rows
end

-- Puts what a rank did and waited for in another step, between the first and the last of its own tasks, among them.
local function merge(rows, others, step)
    for rank, tasks in ipairs(rows) do
        local from, to = tasks[1] and tasks[1].begin or 0, tasks[1] and tasks[#tasks].begin or 0
        for _, task in ipairs(others[rank]) do
            task.step = step
            if task.begin >= from and task.begin < to then tasks[#tasks + 1] = task end
        end
        for _, wait in ipairs(others[rank].waits) do
            if wait.begin >= from and wait.begin < to then table.insert(tasks.waits, wait) end
        end
        table.sort(tasks, function(x, y)
            if x.begin ~= y.begin then return x.begin < y.begin end
            return x.finish < y.finish
        end)
    end
end

-- call: 'run_events' or 'plan_events' on `owner` (a pointer). Gives a list from rank 0 of lists of { kind, stage, microbatch,
-- begin, finish } in order of time; each list's field `waits` is one of { cause, rank waited for or nil, begin, finish }.
-- overlaps: what is known of the steps on both sides is among them, where it lies between a rank's first and last task of the
-- step; its tasks have a field `step`.
function events.read(call, owner, step, ranks, overlaps)
    local rows, count = read(call, owner, step, ranks), capi.new('int64_t[1]')
    for _, other in ipairs(overlaps and { step - 1, step + 1 } or {}) do
        if other >= 0 and capi.try[call](owner, other, nil, 0, count) then
            merge(rows, read(call, owner, other, ranks), other)
        end
    end
    return rows
end

-- Such rows with the step's own tasks alone.
function events.own(rows)
    local result = {}
    for rank, tasks in ipairs(rows) do
        result[rank] = { waits = tasks.waits }
        for _, task in ipairs(tasks) do
            if not task.step then table.insert(result[rank], task) end
        end
    end
    return result
end

-- ---- simulation

-- The load of each link that a simulated plan uses in its last step: { from, to (ranks), messages, bytes (nil: not known),
-- busy, queued, longest (seconds), utilisation (busy / iteration) }.
local function links(plan, iteration, has_bytes)
    local count = capi.new('int32_t[1]')
    lib.plan_links(plan, nil, 0, count)
    local raw, list = capi.new('ppl_link_load[?]', math.max(count[0], 1)), json.list {}
    lib.plan_links(plan, raw, count[0], count)
    for i = 0, count[0] - 1 do
        local l = raw[i]
        list[i + 1] = { from = l.from, to = l.to, messages = tonumber(l.messages), bytes = has_bytes and tonumber(l.bytes) or nil,
            busy = l.busy, queued = l.queued, longest = l.longest, utilisation = iteration > 0 and l.busy / iteration or 0 }
    end
    return list
end

-- The result of simulating a compiled schedule with costs over so many chained steps: iteration, makespan, busy,
-- bubble_ratio, bubble_overhead, span_idle, links, and rows as of events.read of the last step. trainer: goes by the plan of
-- its model instead of the abstract one. plan: the engine's, for what else there is to ask.
function events.simulate(compiled, costs, steps, trainer)
    local raw, arrays = require 'ppl.costs'.to_engine(costs)
    local result = capi.new('ppl_sim_result')
    if trainer then
        lib.run_simulate(trainer:open(), raw, steps, result)
    else
        lib.plan_simulate(compiled.plan:get(), raw, steps, result)
    end
    local plan = trainer and lib.run_plan(trainer:open()) or compiled.plan:get()
    return {
        plan = plan, links = links(plan, result.iteration, trainer or costs.bytes),
        iteration = result.iteration, makespan = result.makespan, busy = result.busy, bubble_ratio = result.bubble_ratio,
        bubble_overhead = result.bubble_overhead, span_idle = result.span_idle,
        rows = events.read('plan_events', plan, steps - 1, compiled.ranks, compiled:overlaps()), costs = arrays and costs,
    }
end

-- The same of a step among others where steps overlap, else of a step alone.
function events.simulate_steady(compiled, costs, trainer)
    return events.simulate(compiled, costs, compiled:overlaps() and CHAINED or 1, trainer)
end

-- A timeline as a result that prints.
local Timeline = {}
Timeline.__index = Timeline
function Timeline:__tostring() return table.concat(self.lines, '\n') end

function events.timeline(rows, options) return setmetatable({ rows = rows, lines = timeline.lines(rows, options) }, Timeline) end

return events
