-- plan_figures.lua - the figures of a compiled schedule: what its simulation took, what each rank holds and waits for, what it
-- sends, and what the schedule's own formulas say. Before: schedule.lua, costs.lua. After: plan_text.lua, plan_compare.lua.
local capi = require 'ppl.capi'
local costs_of = require 'ppl.costs'
local events = require 'ppl.events'
local json = require 'ppl.json'

local lib = capi.lib
local figures = {}

-- A schedule's formula for this plan, and '=' or 'at most'; nil where it says nothing.
local function formula(compiled, name, of)
    if not compiled.description then return nil end
    return compiled.description:formula(name, compiled.ranks, compiled.microbatches, of)
end

-- Copies of the weights that each of a rank's stages keeps; nil with synchronous schedules.
local function versions(compiled, rank)
    local list, several = {}, false
    for stage, owner in ipairs(compiled.stage_rank) do
        local n = lib.plan_versions(compiled.plan:get(), stage - 1)
        if owner == rank then list[#list + 1] = n end
        several = several or n > 1
    end
    return several and json.list(list) or nil
end

-- Rows by rank: tasks, busy and idle time, span idle, peak activations as planned and by the schedule's formula, versions.
local function rank_rows(compiled, sim)
    local rows, own = {}, sim.plan
    for rank = 0, compiled.ranks - 1 do
        local busy, others, first, last = 0, 0, math.huge, 0 -- others: tasks of the step before, where steps overlap
        for _, task in ipairs(sim.rows[rank + 1]) do
            local time = task.finish - task.begin
            if task.step then
                others = others + time
            else
                busy, first, last = busy + time, math.min(first, task.begin), math.max(last, task.finish)
            end
        end
        local span_idle, idle = last - first - busy - others, sim.iteration - busy
        if idle < 1e-9 * sim.iteration then idle = 0 end -- sums of rounded times
        local memory, is = formula(compiled, 'memory', rank)
        rows[rank + 1] = {
            rank = rank, tasks = tonumber(lib.plan_length(own, rank)), busy = busy, idle = idle,
            bubble_ratio = sim.iteration > 0 and idle / sim.iteration or 0,
            span_idle = span_idle > 1e-9 * sim.iteration and span_idle or 0,
            peak_activations = lib.plan_peak_live(own, rank),
            memory = memory, memory_is = is, weight_versions = versions(compiled, rank),
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

-- Messages of a step between ranks, and the most versions of its weights that a stage keeps.
local function counts(compiled, own)
    local send, messages, most = capi.const.PPL_TASK_SEND, 0, 0
    for rank = 0, compiled.ranks - 1 do
        local tasks = lib.plan_tasks(own, rank)
        for at = 0, tonumber(lib.plan_length(own, rank)) - 1 do
            if tasks[at].kind == send then messages = messages + 1 end
        end
    end
    for stage = 0, compiled.stages - 1 do most = math.max(most, lib.plan_versions(own, stage)) end
    return messages, most
end

-- Whether costs say more of links than one latency, so that their load is worth a table.
local function speaks_of_links(costs) return costs.bandwidth or costs.between or #costs.links > 0 or costs.bytes end

-- Simulates `steps` chained steps; trainer: of the plan of its model, nil: of the abstract one. Gives { plan (the engine's),
-- sim (of events.simulate), by_rank, formulas, peak_activations (the most of any rank, in stage-microbatches), messages (of a
-- step), weight_versions, chained_iteration (of a step between others, where steps overlap; else nil), links (sim.links where
-- there is something to say of them), link_utilisation (of the busiest) }.
function figures.of(compiled, costs, steps, trainer)
    local chained = compiled:overlaps() and events.simulate_steady(compiled, costs, trainer).iteration or nil
    local sim = events.simulate(compiled, costs, steps, trainer)
    local result = { plan = sim.plan, sim = sim, chained_iteration = chained, steps = steps, by_rank = rank_rows(compiled, sim),
        formulas = formulas_of(compiled, costs), peak_activations = 0 }
    for _, row in ipairs(result.by_rank) do
        result.peak_activations = math.max(result.peak_activations, row.peak_activations)
    end
    result.messages, result.weight_versions = counts(compiled, sim.plan)
    result.links, result.link_utilisation = (trainer or speaks_of_links(costs)) and sim.links or nil, 0
    for _, link in ipairs(sim.links) do result.link_utilisation = math.max(result.link_utilisation, link.utilisation) end
    return result
end

return figures
