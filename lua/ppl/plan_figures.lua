-- plan_figures.lua - the figures of a compiled schedule: what its simulation took, what each rank holds and waits for, what it
-- sends, and what the schedule's own formulas say. Before: schedule.lua, costs.lua. After: plan_text.lua, plan_compare.lua.
local capi = require 'ppl.capi'
local costs_of = require 'ppl.costs'
local events = require 'ppl.events'

local lib = capi.lib
local figures = {}

-- A schedule's formula for this plan, and '=' or 'at most'; nil where it says nothing.
local function formula(compiled, name, of)
    if not compiled.description then return nil end
    return compiled.description:formula(name, compiled.ranks, compiled.microbatches, of)
end

-- Rows by rank: tasks, busy and idle time, span idle, peak activations as planned and by the schedule's formula.
local function rank_rows(compiled, sim)
    local rows, own = {}, compiled.plan:get()
    for rank = 0, compiled.ranks - 1 do
        local busy, first, last = 0, math.huge, 0
        for _, task in ipairs(sim.rows[rank + 1]) do
            busy, first, last = busy + task.finish - task.begin, math.min(first, task.begin), math.max(last, task.finish)
        end
        local span_idle = last - first - busy
        local memory, is = formula(compiled, 'memory', rank)
        rows[rank + 1] = {
            rank = rank, tasks = tonumber(lib.plan_length(own, rank)), busy = busy, idle = sim.iteration - busy,
            bubble_ratio = sim.iteration > 0 and 1 - busy / sim.iteration or 0,
            span_idle = span_idle > 1e-9 * sim.iteration and span_idle or 0, -- sums of rounded times
            peak_activations = lib.plan_peak_live(own, rank),
            memory = memory, memory_is = is,
        }
    end
    return rows
end

-- Idle times by the schedule's formulas, which are about one step of equal stages: { idle_by_formula, idle_by_formula_is,
-- span_idle_by_formula, span_idle_by_formula_is }.
local function formulas_of(compiled, costs)
    local mean, result = costs_of.mean(costs), {}
    result.idle_by_formula, result.idle_by_formula_is = formula(compiled, 'bubble', mean)
    result.span_idle_by_formula, result.span_idle_by_formula_is = formula(compiled, 'span', mean)
    return result
end

-- From the task lists: messages of a step between ranks, and the most versions of its weights that a rank keeps.
local function counts(compiled)
    local own, send, messages, oldest = compiled.plan:get(), capi.const.PPL_TASK_SEND, 0, 0
    for rank = 0, compiled.ranks - 1 do
        local tasks = lib.plan_tasks(own, rank)
        for at = 0, tonumber(lib.plan_length(own, rank)) - 1 do
            if tasks[at].kind == send then messages = messages + 1 end
            oldest = math.max(oldest, tasks[at].version)
        end
    end
    return messages, oldest + 1
end

-- Simulates `steps` chained steps. Gives { sim (of events.simulate), by_rank, formulas, peak_activations (the most of any
-- rank, in stage-microbatches), messages (of a step), weight_versions }.
function figures.of(compiled, costs, steps)
    local sim = events.simulate(compiled, costs, steps)
    local result = { sim = sim, steps = steps, by_rank = rank_rows(compiled, sim), formulas = formulas_of(compiled, costs),
        peak_activations = 0 }
    for _, row in ipairs(result.by_rank) do
        result.peak_activations = math.max(result.peak_activations, row.peak_activations)
    end
    result.messages, result.weight_versions = counts(compiled)
    return result
end

return figures
