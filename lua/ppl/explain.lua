-- explain.lua - run:explain(): the lost time of a step by its causes, each the difference of two simulations that differ in one
-- thing, and the change that would help most. Before: trainer_analysis.lua. After: costs.lua, events.lua.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local costs_of = require 'ppl.costs'
local events = require 'ppl.events'
local schedules = require 'ppl.schedules'
local tables = require 'ppl.table'

local explain = {}

local PROBE_STEPS = 3

-- ---- small microbatches

local function sum_of(costs)
    local sum = 0
    for s = 1, #costs.f do sum = sum + costs.f[s] + costs.i[s] + costs.w[s] end
    return sum
end

-- The work of all stages for one sample when microbatches are twice as large, over what it is now; nil and why where it cannot
-- be measured.
local function probe(self)
    local p = self.pipeline
    if self.device == 'emulated' then return nil, 'costs of the emulated device do not depend on size' end
    if not self.data.again then return nil, 'its data cannot be read twice' end
    if p.microbatches % 2 ~= 0 then return nil, ('%d microbatches cannot be halved'):format(p.microbatches) end
    local options = {}
    for key, value in pairs(self.options) do options[key] = value end
    options.data, options.eval_data, options.pipeline = self.data.again(), nil, {}
    for key, value in pairs(p) do options.pipeline[key] = value end
    options.pipeline.microbatches, options.pipeline.schedule = p.microbatches / 2, 'gpipe'
    options.pipeline.ranks = nil
    local other = require 'ppl.trainer'.new(options)
    local ok, ratio = pcall(function()
        other:step(PROBE_STEPS)
        return sum_of(other:costs()) / 2
    end)
    other:close()
    options.data:close()
    if not ok then return nil, 'its steps failed: ' .. tostring(ratio):match('^[^\n]*') end
    return ratio / sum_of(self:costs())
end

-- ---- simulations

local function with(costs, changes)
    local result = {}
    for key, value in pairs(costs) do result[key] = value end
    for key, value in pairs(changes) do result[key] = value end
    return result
end

local function step_of(schedule, costs) return events.simulate_steady(schedule, costs).iteration end

-- ---- advice

-- The built-in schedule whose simulation with these costs is fastest: its name and time; nil where none beats the one in use.
local function best_schedule(self, costs, now)
    local best
    for _, name in ipairs(schedules.names()) do
        local ok, compiled = pcall(schedules.compile, name, { stages = self.pipeline.stages, microbatches = self.pipeline.microbatches })
        if ok then
            local description = compiled.description
            local usable = description.weights == 'sync' and compiled.name ~= self.schedule.name
            local time = usable and step_of(compiled, costs) or math.huge
            if time < now * 0.995 and (not best or time < best.time * 0.999) then best = { name = name, time = time } end
            compiled:close()
        end
    end
    return best
end

local function advise(self, rows, costs, sims)
    local list, m = {}, self.schedule.microbatches
    local function add(gain, format, ...)
        if gain > 0 then list[#list + 1] = { gain = gain, change = format:format(...) } end
    end
    local best = best_schedule(self, costs, sims.full)
    if best then
        add(sims.full - best.time, 'the schedule %s: simulated %s ms for %s ms', best.name, tables.ms(best.time), tables.ms(sims.full))
    end
    if rows.bubble.seconds > 0 and m < self.batch and self.batch % (2 * m) == 0 then
        add(rows.bubble.seconds / 2, '%d microbatches for %d: about half the bubble, if half the size is as efficient', 2 * m, m)
    end
    if rows.imbalance.seconds > 0 then
        local slow, fast = 1, 1
        for s = 2, #costs.f do
            local time = costs.f[s] + costs.i[s] + costs.w[s]
            if time > costs.f[slow] + costs.i[slow] + costs.w[slow] then slow = s end
            if time < costs.f[fast] + costs.i[fast] + costs.w[fast] then fast = s end
        end
        local change = self:stage_stats()[slow].layers > 1
            and 'an even cut: layers moved from stage %d, the slowest, towards stage %d, the fastest (pipeline.cut)'
            or 'stage %d, the slowest, is one layer, which no cut divides: two layers in its place, or a cheaper one'
        add(rows.imbalance.seconds, change, slow - 1, fast - 1)
    end
    add(rows.links.seconds, 'fewer or smaller values over links: fewer stages, or a cut where less crosses')
    if rows.small then
        add(rows.small.seconds, 'fewer, larger microbatches: twice the size does the same work in %s less',
            tables.percent(rows.small.share_of_work))
    end
    local crowded = self.device ~= 'emulated' and self.device ~= 'cuda' and self.schedule.ranks > require 'ppl.capi'.lib.cpu_cores()
    add(rows.overhead.seconds, crowded and 'fewer ranks: there are more of them than cores'
        or 'larger tasks (fewer microbatches or stages): what the engine and the system add counts less')
    table.sort(list, function(a, b) return a.gain > b.gain end)
    return list
end

-- ---- the table

local columns = {
    { key = 'what', title = 'what' }, { key = 'seconds', title = 'ms a step', format = tables.ms },
    { key = 'share', title = 'share', format = tables.percent }, { key = 'why', title = 'why' },
}

-- What a step's measured time is made of; all rows sum to it.
local function split(self, costs, sims, iteration, ratio, why)
    local work = sum_of(costs) * self.schedule.microbatches / self.schedule.ranks
    local small = ratio and math.max(0, work * (1 - ratio)) or nil
    local rows = {
        work = { what = 'work', seconds = work - (small or 0), why = 'F, I and W, shared equally by the ranks' },
        small = small and { what = 'small microbatches', seconds = small, share_of_work = 1 - ratio,
            why = 'what microbatches of twice the size would save' } or nil,
        bubble = { what = 'bubble', seconds = sims.equal - work, why = 'idle by the order of actions, with equal stages' },
        imbalance = { what = 'imbalance', seconds = sims.stages - sims.equal, why = 'stages that take longer than others' },
        links = { what = 'links', seconds = sims.links - sims.stages, why = 'time on the way that no work covers' },
        update = { what = 'optimizer', seconds = sims.full - sims.links, why = 'updates, and waiting for the norm of all ranks' },
        overhead = { what = 'overhead', seconds = iteration - sims.full,
            why = 'the engine, the system, other programs; tasks that took longer than their median' },
    }
    local list = {}
    for _, name in ipairs { 'work', 'small', 'bubble', 'imbalance', 'links', 'update', 'overhead' } do
        if rows[name] then list[#list + 1] = rows[name] end
    end
    for _, row in ipairs(list) do
        if math.abs(row.seconds) < 1e-9 then row.seconds = 0 end
        row.share = iteration > 0 and row.seconds / iteration or 0
    end
    list[#list + 1] = { what = 'step', seconds = iteration, share = 1, why = 'measured, the median of the traced steps' }
    return list, rows, why and 'small microbatches: not measured, ' .. why or nil
end

-- Which attention a GPU's own kernels serve though cuDNN was to, and why: the engine's words.
local function add_attention(notes)
    local text, i = capi.string(capi.lib.gpu_attention_exception(0)), 0
    if text then notes[#notes + 1] = 'attention that cuDNN does not serve:' end
    while text do
        notes[#notes + 1] = '  ' .. text
        i = i + 1
        text = capi.string(capi.lib.gpu_attention_exception(i))
    end
end

function explain.run(self, options)
    check.keys('explain', options, check.set('measure'))
    local measure = check.boolean('explain: measure', options.measure, true)
    self:need_steps('explain')
    local costs, schedule = self:costs(), self.schedule
    local none = { latency = 0, links = {}, update = 0, barrier = false }
    local sims = { equal = step_of(schedule, with(costs_of.equal(costs), none)), stages = step_of(schedule, with(costs, none)),
        links = step_of(schedule, with(costs, { update = 0, barrier = false })), full = step_of(schedule, costs) }
    local ratio, why
    if measure then ratio, why = probe(self) else why = 'as asked for' end
    local list, rows, note = split(self, costs, sims, self:bubble().measured.iteration_ms / 1e3, ratio, why)
    local advice, notes = advise(self, rows, costs, sims), {}
    notes[1] = note
    notes[#notes + 1] = ''
    notes[#notes + 1] = advice[1] and 'what would help most:' or 'nothing that is lost could be had back'
    for i = 1, math.min(3, #advice) do
        notes[#notes + 1] = ('  %d. %s (up to %s ms, %s of the step)'):format(i, advice[i].change, tables.ms(advice[i].gain),
            tables.percent(advice[i].gain / list[#list].seconds))
    end
    add_attention(notes)
    local result = tables.new(columns, list, notes)
    result.advice = advice
    return result
end

return explain
