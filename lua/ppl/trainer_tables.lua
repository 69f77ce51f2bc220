-- trainer_tables.lua - what a trainer says of itself: times by stage, waiting by rank, links, the bubble in theory, simulated
-- and measured, parameters, and the timeline of a step. Results print as tables. Before: trainer_run.lua. Beside it:
-- trainer_memory.lua; after it: trainer_analysis.lua, trainer_compare.lua.
local capi = require 'ppl.capi'
local costs_of = require 'ppl.costs'
local events = require 'ppl.events'
local fail = require 'ppl.fail'
local tables = require 'ppl.table'

local lib = capi.lib
local methods = {}

-- That a step has run since the schedule was chosen or a checkpoint loaded: what is told is of such steps.
function methods:need_steps(what)
    if self:steps_done() > (self.since or 0) then return end
    fail('%s: no step has run%s, want run:step() before', what,
        self.since and (' with schedule %s since it was chosen or weights were loaded'):format(self.schedule.name) or '')
end

-- The first and the last of the newest steps whose tasks are kept.
function methods:traced()
    return math.max(self.since or 0, self:steps_done() - self.trace_steps), self:steps_done() - 1
end

-- ---- by stage and by rank

-- Rows by stage: what the engine measured.
function methods:stage_stats()
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

local memories = { 'parameters', 'gradients', 'optimizer', 'packed', 'activations', 'pending', 'edges', 'links', 'workspace', 'other' }
methods.memory_kinds = memories

-- Rows by rank, memory among them.
function methods:rank_stats()
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

-- What the counters of its GPU say, into a row by rank: shares of 1, means over activity_seconds; or activity_reason, why
-- they say nothing. Ranks on other devices have neither.
local function add_activity(row, raw)
    local reason = capi.string(raw.reason)
    if raw.gpu < 0 then return end
    row.gpu, row.activity_reason = raw.gpu, reason ~= '' and reason or nil
    if raw.seconds <= 0 then return end
    row.activity_seconds = raw.seconds
    local shares = { sm_active = raw.sm, sm_occupancy = raw.occupancy, tensor_active = raw.tensor, memory_bandwidth = raw.memory }
    for key, share in pairs(shares) do
        if share == share then row[key] = share end -- NaN: this one is not counted
    end
end

-- ---- links

local link_columns = {
    { key = 'edge', title = 'edge' }, { key = 'kind', title = 'kind' }, { key = 'from', title = 'from stage' },
    { key = 'to', title = 'to stage' }, { key = 'from_rank', title = 'from rank' }, { key = 'to_rank', title = 'to rank' },
    { key = 'buffers', title = 'buffers' }, { key = 'bytes', title = 'bytes', format = tables.bytes },
    { key = 'median', title = 'median ms', format = tables.ms },
}

-- run:links(): a row for each edge and reader: what crosses, its size, and the time from send to seen. The time is the median
-- over readers that were waiting already; 0 where none was, or where both ends are one rank.
function methods:links()
    local run, count = self:open(), capi.new('int32_t[1]')
    lib.run_edge_stats(run, nil, 0, count)
    local n = count[0]
    local raw, rows = capi.new('ppl_edge_stats[?]', math.max(n, 1)), {}
    lib.run_edge_stats(run, raw, n, count)
    local kinds = { [capi.const.PPL_F] = 'activation', [capi.const.PPL_B] = 'gradient', [capi.const.PPL_U] = 'tied gradient' }
    for i = 0, n - 1 do
        local e = raw[i]
        rows[i + 1] = { edge = e.edge, kind = kinds[e.kind], from = e.src_stage, to = e.dst_stage, from_rank = e.src_rank,
            to_rank = e.dst_rank, buffers = e.buffers, bytes = tonumber(e.bytes), median = e.median }
    end
    return tables.new(link_columns, rows)
end

-- By rank, of what it receives from other ranks in a step: seconds on the way (medians, one after the other) and bytes.
local function link_sums(self)
    local sums = {}
    for rank = 1, self.schedule.ranks do sums[rank] = { time = 0, bytes = 0 } end
    for _, row in ipairs(self:links().rows) do
        if row.from_rank ~= row.to_rank then
            local uses, sum = row.kind == 'tied gradient' and 1 or self.schedule.microbatches, sums[row.to_rank + 1]
            sum.time, sum.bytes = sum.time + uses * row.median, sum.bytes + uses * row.bytes
        end
    end
    return sums
end

-- ---- costs and the bubble

-- Whether every rank waits for the norms of all before its update.
function methods:waits_for_norms() return (self.clip or self.optimizer.clip).mode == 'before' end

-- What was measured of messages between ranks: { from, to, bytes, seconds (median from send to seen) }, one an edge and reader.
local function measured_links(self)
    local rows = {}
    for _, link in ipairs(self:links().rows) do
        if link.from_rank ~= link.to_rank and link.median > 0 then
            rows[#rows + 1] = { from = link.from_rank, to = link.to_rank, bytes = link.bytes, seconds = link.median }
        end
    end
    return rows
end

-- The measured costs of the stages and links, as costs.lua has them; second and third result: the rows by stage, by link.
function methods:costs()
    self:need_steps('costs')
    local result = { f = {}, i = {}, w = {}, update = 0, barrier = self:waits_for_norms() }
    local stages, measured = self:stage_stats(), measured_links(self)
    result.links, result.latency = costs_of.of_links(measured)
    for s, stage in ipairs(stages) do
        result.f[s], result.i[s], result.w[s] = stage.f, stage.i, stage.w
        result.update = math.max(result.update, stage.u)
    end
    return costs_of.check('costs', result, #stages), stages, measured
end

local ALIKE = 0.05 -- measured costs that are so near each other count as equal: formulas hold up to W <= I, or for F = I = W

-- The schedule's idle time by its formula with these mean costs; nil where it says nothing or gives a bound.
local function idle_by_formula(self, mean)
    local s, description = self.schedule, self.schedule.description
    local idle, is = description:formula('bubble', s.ranks, s.microbatches, mean)
    if idle or math.abs(mean.i - mean.w) > ALIKE * mean.i then return is == '=' and idle or nil end
    local middle = (mean.i + mean.w) / 2
    if math.abs(mean.f - middle) <= ALIKE * middle then middle = (mean.f + mean.i + mean.w) / 3 end
    local even = { f = math.abs(mean.f - middle) <= ALIKE * middle and middle or mean.f, i = middle, w = middle }
    idle, is = description:formula('bubble', s.ranks, s.microbatches, even)
    return is == '=' and idle or nil
end

local function bubble_of(sim)
    return { ratio = sim.bubble_ratio, overhead = sim.bubble_overhead, iteration_ms = sim.iteration * 1e3 }
end

-- By the schedule's formula, with the mean of the costs for all stages; by simulation where steps overlap, which no formula of
-- one step tells. nil where neither does.
local function theory(self, costs)
    local s, description, mean = self.schedule, self.schedule.description, costs_of.mean(costs)
    if s:overlaps() then
        local equal = costs_of.equal(costs)
        equal.latency, equal.update, equal.links = 0, 0, {}
        return bubble_of(events.simulate_steady(s, equal))
    end
    if not description or not description.bubble then return nil end
    local idle = idle_by_formula(self, mean)
    local ideal = s.microbatches * description.chunks * (mean.f + mean.i + mean.w)
    if not idle or ideal <= 0 then return nil end
    return { ratio = idle / (ideal + idle), overhead = idle / ideal, iteration_ms = (ideal + idle) * 1e3 }
end

-- The bubble of the newest traced steps: measured = the median of their records; simulated = the plan with the measured
-- costs; theory = for equal stages, nil where nothing says it. Each { ratio, overhead, iteration_ms }: idle / iteration time and
-- idle / ideal time.
function methods:bubble()
    self:need_steps('bubble')
    local costs = self:costs()
    local result, ratios, iterations = {}, {}, {}
    local first, last = self:traced()
    for step = first, last do
        local record = self:record(step)
        ratios[#ratios + 1], iterations[#iterations + 1] = record.bubble, record.step_ms
    end
    local ratio = tables.median(ratios)
    result.measured = { ratio = ratio, overhead = ratio < 1 and ratio / (1 - ratio) or nil, iteration_ms = tables.median(iterations) }
    result.simulated = bubble_of(events.simulate_steady(self.schedule, costs, self))
    result.theory = theory(self, costs)
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

local function ms(key, title) return { key = key, title = title, format = tables.ms } end

local stage_columns = {
    { key = 'stage', title = 'stage' }, { key = 'rank', title = 'rank' }, { key = 'layers', title = 'layers' },
    { key = 'parameters', title = 'parameters', format = tables.thousands },
    ms('f', 'F ms'), ms('f_p95', 'p95'), ms('i', 'I ms'), ms('i_p95', 'p95'), ms('w', 'W ms'), ms('w_p95', 'p95'), ms('u', 'U ms'),
    { key = 'activation_bytes', title = 'act bytes', format = tables.bytes },
}

local rank_columns = {
    { key = 'rank', title = 'rank' }, ms('busy', 'busy ms'), ms('wait', 'waits ms'), { key = 'waits_for', title = 'for rank' },
    { key = 'bubble_ratio', title = 'idle', format = tables.percent }, ms('span_idle', 'span idle ms'), ms('link_time', 'links ms'),
    { key = 'link_bytes', title = 'link bytes', format = tables.bytes }, { key = 'peak_activations', title = 'peak act' },
    { key = 'total', title = 'memory', format = tables.bytes },
}

local activity_columns = {
    { key = 'gpu', title = 'GPU' }, { key = 'sm_active', title = 'SMs active', format = tables.percent },
    { key = 'sm_occupancy', title = 'warps', format = tables.percent },
    { key = 'tensor_active', title = 'tensor cores', format = tables.percent },
    { key = 'memory_bandwidth', title = 'memory bandwidth', format = tables.percent },
}

-- The columns by rank, the GPUs' activity among them where there are figures; and a line on what those are.
local function columns_of(ranks)
    local columns, seconds = { unpack(rank_columns) }, nil
    for _, row in ipairs(ranks) do seconds = seconds or row.activity_seconds end
    if not seconds then return columns end
    for _, column in ipairs(activity_columns) do columns[#columns + 1] = column end
    return columns, ('GPUs by their own counters, whoever uses them: means over %.1f s of the newest steps'):format(seconds)
end

-- run:timings(): where a step's time went. By stage: median and 95th percentile of milliseconds of F, I and W (of a microbatch)
-- and U (of a step), and the bytes of one activation. By rank, of a step: busy, waiting and for whom most, idle share, idle
-- between its first and last task, time and bytes of what it receives over links, peak activations, memory. Below: the bubble
-- ratio (idle / iteration time) and the bubble overhead (idle / ideal time), in theory, simulated with the measured costs, and
-- measured. By rank too, where its GPU counts it (Hopper and later; `ppl devices` says why not): multiprocessors that had work,
-- warps of those there is room for, time with tensor cores at work, bandwidth of the memory used; of the whole GPU, as means over
-- the newest steps that took 0.1 s at once. Fields: rows (by stage), ranks (there sm_active, sm_occupancy, tensor_active,
-- memory_bandwidth from 0 to 1, activity_seconds; or activity_reason, why they are not there), bubble.
function methods:timings()
    self:need_steps('timings')
    local rows, ranks, links = self:stage_stats(), self:rank_stats(), link_sums(self)
    local run, activity = self:open(), capi.new('ppl_gpu_activity')
    for r, rank in ipairs(ranks) do
        lib.run_gpu_activity(run, rank.rank, activity)
        add_activity(rank, activity)
        rank.link_time, rank.link_bytes = links[r].time, links[r].bytes
        rank.bubble_ratio = rank.iteration > 0 and math.max(0, 1 - rank.busy / rank.iteration) or nil
    end
    for _, row in ipairs(rows) do
        local rank = ranks[row.rank + 1]
        row.wait, row.waits_for, row.peak_activations, row.memory = rank.wait, rank.waits_for, rank.peak_activations, rank.total
        row.bubble_ratio, row.span_idle = rank.bubble_ratio, rank.span_idle
    end
    local bubble = self:bubble()
    local columns, note = columns_of(ranks)
    local notes = bubble_notes(bubble)
    if note then table.insert(notes, 1, note) end
    return tables.several({ tables.new(stage_columns, rows), tables.new(columns, ranks, notes) },
        { bubble = bubble, ranks = ranks, rows = rows })
end

-- ---- parameters

local parameter_columns = {
    { key = 'name', title = 'name' }, { key = 'shape', title = 'shape', format = tostring },
    { key = 'numbers', title = 'numbers', format = tables.thousands }, { key = 'stages', title = 'stage' },
    { key = 'norm', title = 'norm', format = '%.4g' }, { key = 'grad_norm', title = 'gradient norm', format = '%.4g' },
}

-- nil where the parameter has no such part now.
local function norm_of(self, index, part)
    local out = capi.new('double[1]')
    return capi.try.run_norm(self:open(), index, capi.const[part], out) and out[0] or nil
end

-- run:parameters(pattern): a row a parameter whose name holds the (Lua) pattern; without one, of all. Shape, stages that use it,
-- norm, and the gradient's norm in the last step, summed over microbatches, before clipping.
function methods:parameters(pattern)
    if pattern ~= nil then
        local ok, words = pcall(string.find, '', require 'ppl.check'.text('parameters: pattern', pattern))
        if not ok then fail('parameters: %q is no pattern: %s', pattern, words) end
    end
    local rows, sum = {}, 0
    for _, row in ipairs(self:parameter_list()) do
        if not pattern or row.name:find(pattern) then
            row.stages = row.first_stage == row.last_stage and row.first_stage or ('%d-%d'):format(row.first_stage, row.last_stage)
            row.norm, row.grad_norm = norm_of(self, row.index, 'PPL_PART_WEIGHT'), norm_of(self, row.index, 'PPL_PART_GRADIENT')
            rows[#rows + 1] = row
            sum = sum + row.numbers
        end
    end
    return tables.new(parameter_columns, rows, { ('%s numbers in %d parameters'):format(tables.thousands(sum), #rows) })
end

-- ---- one step

-- The tasks of one of the newest steps, by rank: { kind, stage, microbatch, begin, finish }, and waits among their fields.
function methods:events(step)
    self:need_steps('events')
    local first, last = self:traced()
    step = step or last
    if type(step) ~= 'number' or step < first or step > last then
        fail('step %s: its tasks are not kept, want one of %d to %d', tostring(step), first, last)
    end
    return events.read('run_events', self:open(), step, self.schedule.ranks, self.schedule:overlaps())
end

-- run:timeline(step): one of the newest steps (the last) as a picture, a row a rank. A task is drawn by its letter and
-- microbatch; idle time by what the rank waited for: .1. a value of rank 1, ,1, a free buffer of rank 1, - the norm of all.
function methods:timeline(step)
    return events.timeline(self:events(step), { unit = 'ms', with_stage = self.schedule.stages > self.schedule.ranks, causes = true })
end

return methods
