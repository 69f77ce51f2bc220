-- trainer_analysis.lua - why a step takes as long as it does: the slowest stages, the simulation beside what was measured, and
-- the lost time by its causes. Before: trainer_tables.lua.
local events = require 'ppl.events'
local explain = require 'ppl.explain'
local tables = require 'ppl.table'

local methods = {}

local LIMIT = 20 -- rows of actions that print

-- ---- the slowest stages

local slowest_columns = {
    { key = 'stage', title = 'stage' }, { key = 'rank', title = 'rank' }, { key = 'layers', title = 'layers' },
    { key = 'time', title = 'F+I+W ms', format = tables.ms }, { key = 'over', title = 'over mean', format = tables.percent },
    { key = 'of_step', title = 'ms a step', format = tables.ms }, { key = 'share', title = 'share of step', format = tables.percent },
    { key = 'jitter', title = 'p95/median F', format = '%.2f' },
}

-- run:slowest(): stages by the time of a microbatch (F, I and W together), the slowest first. A rank's stages together bound
-- the step: below stands which rank does, and what equal ranks would take.
function methods:slowest()
    self:need_steps('slowest')
    local rows, m = self:stage_stats(), self.schedule.microbatches
    local iteration = self:bubble().measured.iteration_ms / 1e3
    local sum, by_rank = 0, {}
    for _, row in ipairs(rows) do
        row.time = row.f + row.i + row.w
        row.of_step, row.jitter = row.time * m, row.f > 0 and row.f_p95 / row.f or nil
        sum = sum + row.time
        by_rank[row.rank] = (by_rank[row.rank] or 0) + row.of_step
    end
    for _, row in ipairs(rows) do
        row.over = sum > 0 and row.time * #rows / sum - 1 or nil
        row.share = iteration > 0 and row.of_step / iteration or nil
    end
    table.sort(rows, function(a, b) return a.time > b.time or (a.time == b.time and a.stage < b.stage) end)
    local worst = 0
    for rank, time in pairs(by_rank) do
        if time > by_rank[worst] or (time == by_rank[worst] and rank < worst) then worst = rank end
    end
    local mean = sum * m / self.schedule.ranks
    local words = 'rank %d bounds the step: %s ms of work for %d microbatches; equal ranks would have %s ms, %s less'
    return tables.new(slowest_columns, rows, { words:format(worst, tables.ms(by_rank[worst]), m, tables.ms(mean),
        tables.percent(1 - mean / by_rank[worst])) })
end

-- ---- predicted beside measured

local predicted_columns = {
    { key = 'rank', title = 'rank' }, { key = 'action', title = 'action' },
    { key = 'predicted', title = 'predicted at ms', format = tables.ms },
    { key = 'measured', title = 'measured at ms', format = tables.ms },
    { key = 'late', title = 'ends later ms', format = tables.signed_ms },
    { key = 'takes', title = 'predicted takes ms', format = tables.ms }, { key = 'took', title = 'took ms', format = tables.ms },
}

local function begin_of(rows)
    local first = math.huge
    for _, tasks in ipairs(rows) do
        if tasks[1] then first = math.min(first, tasks[1].begin) end
    end
    return first
end

local function end_of(rows)
    local last = -math.huge
    for _, tasks in ipairs(rows) do
        if tasks[1] then last = math.max(last, tasks[#tasks].finish) end
    end
    return last
end

-- How many chained steps a simulation does to be like the last measured one: that began before the one before it had ended?
local function chained(self, measured)
    local first, last = self:traced()
    return last > first and end_of(events.own(self:events(last - 1))) > begin_of(measured) and 3 or 1
end

-- run:predicted(): the simulator fed with the measured costs, beside the last measured step: action by action when it began
-- and what it took, those that end furthest from the prediction first. Times count from the step's first task. Fields: rows,
-- predicted_ms and measured_ms of the step.
function methods:predicted()
    self:need_steps('predicted')
    local measured = events.own(self:events())
    local sim = events.own(events.simulate(self.schedule, self:costs(), chained(self, measured), self).rows)
    local from, sim_from, rows = begin_of(measured), begin_of(sim), {}
    for r, tasks in ipairs(measured) do
        for at, task in ipairs(tasks) do
            local want = sim[r][at]
            local row = { rank = r - 1, action = ('%d%s%s'):format(task.stage, task.kind, task.microbatch or ''),
                predicted = want.begin - sim_from, measured = task.begin - from, takes = want.finish - want.begin,
                took = task.finish - task.begin }
            row.late = row.measured + row.took - row.predicted - row.takes
            row.order = #rows
            rows[#rows + 1] = row
        end
    end
    table.sort(rows, function(a, b)
        local x, y = math.abs(a.late), math.abs(b.late)
        return x > y or (x == y and a.order < b.order)
    end)
    local predicted_ms, measured_ms = (end_of(sim) - sim_from) * 1e3, (end_of(measured) - from) * 1e3
    local result = tables.new(predicted_columns, rows, { '', ('the step: predicted %s ms, measured %s ms, %+.1f %%'):format(
        tables.ms(predicted_ms / 1e3), tables.ms(measured_ms / 1e3), (measured_ms / predicted_ms - 1) * 100) }, LIMIT)
    result.predicted_ms, result.measured_ms = predicted_ms, measured_ms
    return result
end

-- ---- the lost time by its causes

-- run:explain { measure = true }: a step's time split into useful work and what is lost to the bubble, to unequal stages, to
-- links, to the optimizer, to small microbatches and to the rest (overhead), and the change that would help most. The share of
-- small microbatches is measured by a few steps of a second trainer with half as many of twice the size; measure = false leaves
-- that out. Fields: rows (what, seconds, share), advice (list of { change, gain }).
function methods:explain(options) return (explain.run(self, options or {})) end -- no tail call: fail.lua looks for this frame

return methods
