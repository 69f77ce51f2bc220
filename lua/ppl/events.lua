-- events.lua - a step's tasks as the timeline draws them: from a run's trace or a plan's simulation.
local capi = require 'ppl.capi'
local timeline = require 'ppl.timeline'

local lib = capi.lib
local events = {}

-- Task kinds that compute; the others (waiting, sending) are what a row shows as idle.
local letters = { PPL_TASK_F = 'F', PPL_TASK_B = 'B', PPL_TASK_I = 'I', PPL_TASK_W = 'W', PPL_TASK_UPDATE = 'U' }

-- Task kinds that wait, and for what.
local waits = { PPL_TASK_RECEIVE = 'value', PPL_TASK_CREDIT = 'buffer', PPL_TASK_NORM = 'norm', PPL_TASK_VALIDATE = 'norm' }

-- call: 'run_events' or 'plan_events' on `owner` (a pointer). Gives a list from rank 0 of lists of { kind, stage, microbatch,
-- begin, finish } in order of time; each list's field `waits` is one of { cause, rank waited for or nil, begin, finish }.
function events.read(call, owner, step, ranks)
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

-- ---- simulation

-- The result of simulating a compiled schedule (its abstract plan) with costs over so many chained steps: iteration,
-- makespan, busy, bubble_ratio, bubble_overhead, span_idle, and rows as of events.read of the last step.
function events.simulate(compiled, costs, steps)
    local plan = compiled.plan:get()
    local raw, arrays = require 'ppl.costs'.to_engine(costs)
    local result = capi.new('ppl_sim_result')
    lib.plan_simulate(plan, raw, steps, result)
    return {
        iteration = result.iteration, makespan = result.makespan, busy = result.busy, bubble_ratio = result.bubble_ratio,
        bubble_overhead = result.bubble_overhead, span_idle = result.span_idle,
        rows = events.read('plan_events', plan, steps - 1, compiled.ranks), costs = arrays and costs,
    }
end

-- A timeline as a result that prints.
local Timeline = {}
Timeline.__index = Timeline
function Timeline:__tostring() return table.concat(self.lines, '\n') end

function events.timeline(rows, options) return setmetatable({ rows = rows, lines = timeline.lines(rows, options) }, Timeline) end

return events
