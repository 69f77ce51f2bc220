-- trainer_compare.lua - run:compare(): schedules measured side by side on the same weights. Each runs a few steps on a copy
-- (trainer_run.lua's trial), so that nothing of the run changes. Before: trainer_tables.lua.
local fail = require 'ppl.fail'
local schedules = require 'ppl.schedules'
local tables = require 'ppl.table'

local methods = {}

local WARM, MEASURED = 1, 5 -- steps of each schedule; in all fewer than a queue of data keeps for another time

local columns = {
    { key = 'schedule', title = 'schedule' }, { key = 'ranks', title = 'ranks' },
    { key = 'iteration', title = 'step ms', format = tables.ms }, { key = 'against', title = 'against now', format = '%.2f x' },
    { key = 'tokens_per_s', title = 'tokens/s', format = function(n) return tables.thousands(math.floor(n)) end },
    { key = 'bubble_ratio', title = 'bubble ratio', format = tables.percent },
    { key = 'bubble_overhead', title = 'overhead', format = tables.percent },
    { key = 'theory', title = 'ratio in theory', format = tables.percent },
    { key = 'wait', title = 'waits ms', format = tables.ms }, { key = 'peak_activations', title = 'peak act' },
    { key = 'memory', title = 'memory', format = tables.bytes },
}

-- The row of what ran during the trial.
local function row_of(self, first)
    local ranks, iterations, bubbles, tokens = self:rank_stats(), {}, {}, {}
    for step = first, self:steps_done() - 1 do
        local record = self:record(step)
        iterations[#iterations + 1], bubbles[#bubbles + 1], tokens[#tokens + 1] = record.step_ms / 1e3, record.bubble, record.tokens_per_s
    end
    local row = { schedule = self.schedule.name, ranks = self.schedule.ranks, iteration = tables.median(iterations),
        bubble_ratio = tables.median(bubbles), tokens_per_s = tables.median(tokens), peak_activations = 0, wait = 0, memory = 0 }
    row.bubble_overhead = row.bubble_ratio < 1 and row.bubble_ratio / (1 - row.bubble_ratio) or nil
    for _, rank in ipairs(ranks) do
        row.peak_activations, row.wait = math.max(row.peak_activations, rank.peak_activations), row.wait + rank.wait / #ranks
        row.memory = row.memory + rank.total
    end
    local theory = self:bubble().theory
    row.theory = theory and theory.ratio
    return row
end

local function measure(self, compiled)
    return self:trial(compiled, function()
        local first = self:steps_done() + WARM
        for _ = 1, WARM + MEASURED do
            local _, stopped = self:advance(1) -- one by one: each step's time is its own
            if stopped then fail('compare: interrupted') end
        end
        return row_of(self, first)
    end)
end

-- run:compare(schedule, ...): the schedule in use and others, each as run:use_schedule takes them, measured for a few steps on
-- copies of the same weights with the same data. Weights, optimizer state, the place in the data and the timings stay as they
-- are. It takes the memory of a second set of ranks. A row each: time of a step, bubble, waiting of a rank, peak activations of
-- the rank that has most, memory of all.
function methods:compare(...)
    local list = { self.schedule }
    for i = 1, select('#', ...) do
        list[i + 1] = schedules.compile((select(i, ...)), { stages = self.pipeline.stages, microbatches = self.pipeline.microbatches })
    end
    if #list == 1 then fail('compare: no schedule, want run:compare(\'gpipe\', ...)') end
    self:open()
    local rows = {}
    for i, compiled in ipairs(list) do
        rows[i] = measure(self, compiled)
        rows[i].against = rows[i].iteration / rows[1].iteration
        if i > 1 then compiled:close() end
    end
    return tables.new(columns, rows, { ('%d steps each, medians; the weights are as they were'):format(MEASURED) })
end

return methods
