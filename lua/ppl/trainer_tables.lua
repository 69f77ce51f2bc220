-- trainer_tables.lua - what a trainer says of itself: times by stage, waiting and memory by rank, the bubble in theory,
-- simulated and measured, parameters, and the timeline of a step. Results print as tables. Before: trainer_run.lua.
local capi = require 'ppl.capi'
local costs_of = require 'ppl.costs'
local events = require 'ppl.events'
local fail = require 'ppl.fail'
local tables = require 'ppl.table'

local lib = capi.lib
local methods = {}

local function need_steps(self, what)
    if self:steps_done() == 0 then fail('%s: no step has run, want run:step() before', what) end
end

-- ---- by stage and by rank

local function stage_stats(self)
    local run, list, raw = self:open(), {}, capi.new('ppl_stage_stats')
    for stage = 0, self.schedule.stages - 1 do
        lib.run_stage_stats(run, stage, raw)
        list[stage + 1] = {
            stage = raw.stage, rank = raw.rank, first_layer = raw.first_layer, layers = raw.layers,
            parameters = tonumber(raw.parameters), f = raw.f_median, i = raw.i_median, w = raw.w_median, u = raw.u_median,
            f_p95 = raw.f_p95, i_p95 = raw.i_p95, w_p95 = raw.w_p95, flops_f = raw.flops_f, flops_b = raw.flops_b,
            activation_bytes = tonumber(raw.activation_bytes), samples = tonumber(raw.samples),
        }
    end
    return list
end

local memories = { 'parameters', 'gradients', 'optimizer', 'packed', 'activations', 'pending', 'edges', 'workspace', 'other' }

local function rank_stats(self)
    local run, list, raw = self:open(), {}, capi.new('ppl_rank_stats')
    for rank = 0, self.schedule.ranks - 1 do
        lib.run_rank_stats(run, rank, raw)
        local row = {
            rank = rank, peak_activations = raw.peak_live, planned_activations = raw.planned_live, busy = raw.busy,
            wait = raw.wait, span_idle = raw.span_idle, iteration = raw.iteration, total = 0,
            waits_for = raw.waits_for >= 0 and raw.waits_for or nil,
        }
        for i, name in ipairs(memories) do
            row[name] = tonumber(raw.memory[i - 1])
            row.total = row.total + row[name]
        end
        list[rank + 1] = row
    end
    return list
end

-- The measured costs of the stages, as costs.lua has them.
function methods:costs()
    need_steps(self, 'costs')
    local clip = self.clip or self.optimizer.clip
    local result = { f = {}, i = {}, w = {}, latency = 0, update = 0, barrier = clip.mode == 'before' }
    local stages = stage_stats(self)
    for s, stage in ipairs(stages) do
        result.f[s], result.i[s], result.w[s] = stage.f, stage.i, stage.w
        result.update = math.max(result.update, stage.u)
    end
    return result, stages
end

-- The bubble of the newest traced steps: measured = the mean of their records; simulated = the plan with the measured
-- costs; theory = the schedule's formula for equal stages (nil where it has none). Each { ratio, overhead }: idle /
-- iteration time and idle / ideal time.
function methods:bubble()
    need_steps(self, 'bubble')
    local costs = self:costs()
    local result = {}
    local sum, n, time = 0, 0, 0
    for step = math.max(0, self:steps_done() - self.trace_steps), self:steps_done() - 1 do
        local record = self:record(step)
        sum, n, time = sum + record.bubble, n + 1, time + record.step_ms
    end
    local ratio = sum / n
    result.measured = { ratio = ratio, overhead = ratio < 1 and ratio / (1 - ratio) or nil, iteration_ms = time / n }
    local sim = events.simulate(self.schedule, costs, 1)
    result.simulated = { ratio = sim.bubble_ratio, overhead = sim.bubble_overhead, iteration_ms = sim.iteration * 1e3 }
    local description = self.schedule.description
    if description and description.bubble then
        local s = self.schedule
        local mean = costs_of.mean(costs)
        local idle, is = description:formula('bubble', s.ranks, s.microbatches, mean)
        local ideal = s.microbatches * description.chunks * (mean.f + mean.i + mean.w)
        if idle and is == '=' and ideal > 0 then
            result.theory = { ratio = idle / (ideal + idle), overhead = idle / ideal, iteration_ms = (ideal + idle) * 1e3 }
        end
    end
    return result
end

local function bubble_notes(bubble)
    local notes = { '' }
    for _, entry in ipairs { { 'theory', 'in theory (equal stages)' }, { 'simulated', 'simulated, measured costs' },
        { 'measured', 'measured' } } do
        local b = bubble[entry[1]]
        if b then
            notes[#notes + 1] = ('%-26s bubble ratio %7s   bubble overhead %7s   iteration %s ms'):format(entry[2],
                tables.percent(b.ratio), b.overhead and tables.percent(b.overhead) or '-', tables.ms(b.iteration_ms / 1e3))
        end
    end
    return notes
end

local stage_columns = {
    { key = 'stage', title = 'stage' }, { key = 'rank', title = 'rank' }, { key = 'layers', title = 'layers' },
    { key = 'parameters', title = 'parameters', format = tables.thousands },
    { key = 'f', title = 'F ms', format = tables.ms }, { key = 'i', title = 'I ms', format = tables.ms },
    { key = 'w', title = 'W ms', format = tables.ms }, { key = 'u', title = 'U ms', format = tables.ms },
    { key = 'wait', title = 'waits ms', format = tables.ms }, { key = 'waits_for', title = 'for rank' },
    { key = 'bubble_ratio', title = 'idle', format = tables.percent },
    { key = 'peak_activations', title = 'peak act' }, { key = 'memory', title = 'memory', format = tables.bytes },
}

-- run:timings(): a row a stage: layers, parameters, median milliseconds of F, I, W (of a microbatch) and U (of a step), and
-- of its rank: waiting a step, idle share, peak activations, memory. Below: the bubble.
function methods:timings()
    need_steps(self, 'timings')
    local rows, ranks = stage_stats(self), rank_stats(self)
    for _, row in ipairs(rows) do
        local rank = ranks[row.rank + 1]
        row.wait, row.waits_for, row.peak_activations, row.memory = rank.wait, rank.waits_for, rank.peak_activations, rank.total
        row.bubble_ratio = rank.iteration > 0 and 1 - rank.busy / rank.iteration or nil
        row.span_idle = rank.span_idle
    end
    local bubble = self:bubble()
    local result = tables.new(stage_columns, rows, bubble_notes(bubble))
    result.bubble, result.ranks = bubble, ranks
    return result
end

local memory_columns = { { key = 'rank', title = 'rank' } }
for _, name in ipairs(memories) do memory_columns[#memory_columns + 1] = { key = name, title = name, format = tables.bytes } end
memory_columns[#memory_columns + 1] = { key = 'total', title = 'total', format = tables.bytes }
memory_columns[#memory_columns + 1] = { key = 'planned_activations', title = 'planned act' }
memory_columns[#memory_columns + 1] = { key = 'peak_activations', title = 'peak act' }

-- run:memory(): bytes of each rank by what they are for; activations at once, planned and measured.
function methods:memory() return tables.new(memory_columns, rank_stats(self)) end

-- Bytes of all ranks together.
function methods:total_memory()
    local sum = 0
    for _, row in ipairs(rank_stats(self)) do sum = sum + row.total end
    return sum
end

local link_columns = {
    { key = 'edge', title = 'edge' }, { key = 'kind', title = 'kind' }, { key = 'from', title = 'from stage' },
    { key = 'to', title = 'to stage' }, { key = 'buffers', title = 'buffers' },
    { key = 'bytes', title = 'bytes', format = tables.bytes }, { key = 'median', title = 'median ms', format = tables.ms },
}

-- run:links(): a row for each (edge, reader): what crosses, its size, and the time from send to seen.
function methods:links()
    local run, count = self:open(), capi.new('int32_t[1]')
    lib.run_edge_stats(run, nil, 0, count)
    local n = count[0]
    local raw, rows = capi.new('ppl_edge_stats[?]', math.max(n, 1)), {}
    lib.run_edge_stats(run, raw, n, count)
    local kinds = { [capi.const.PPL_F] = 'activation', [capi.const.PPL_B] = 'gradient', [capi.const.PPL_U] = 'tied gradient' }
    for i = 0, n - 1 do
        local e = raw[i]
        rows[i + 1] = { edge = e.edge, kind = kinds[e.kind], from = e.src_stage, to = e.dst_stage, buffers = e.buffers,
            bytes = tonumber(e.bytes), median = e.median }
    end
    return tables.new(link_columns, rows)
end

local parameter_columns = {
    { key = 'name', title = 'name' }, { key = 'shape', title = 'shape', format = tostring },
    { key = 'numbers', title = 'numbers', format = tables.thousands }, { key = 'first_stage', title = 'first stage' },
    { key = 'last_stage', title = 'last stage' },
}

-- run:parameters(): a row a parameter: name, shape and the stages that use it.
function methods:parameters()
    local rows, sum = self:parameter_list(), 0
    for _, row in ipairs(rows) do sum = sum + row.numbers end
    return tables.new(parameter_columns, rows, { ('%s numbers in all'):format(tables.thousands(sum)) })
end

-- run:events(step): the tasks of one of the newest steps, by rank: { kind, stage, microbatch, begin, finish }.
function methods:events(step)
    need_steps(self, 'events')
    return events.read('run_events', self:open(), step or self:steps_done() - 1, self.schedule.ranks)
end

-- run:timeline(step): one of the newest steps (the last) as text, a row a rank.
function methods:timeline(step)
    return events.timeline(self:events(step), { unit = 'ms', with_stage = self.schedule.stages > self.schedule.ranks })
end

return methods
