-- run_summary.lua - summary.json of a run directory: what a run measured, for `ppl report` and for other programs. Times
-- have their unit in their name, memory is in bytes, ratios are of 1. Before: training.lua. After: run_directory.lua.
--
--   format 1; name, schedule, device, dtype, ranks, stages, microbatches, batch, threads, cores, steps, interrupted,
--   seconds, tokens_per_s, first_loss, loss, eval_loss
--   bubble: measured, simulated (measured costs), theory (equal stages; where the schedule has a formula), each
--     { bubble_ratio, bubble_overhead, iteration_ms }
--   curves: bubble ratio in theory over microbatches: { of, m: [...], p: [{ ranks, bubble_ratio: [...] }] }
--   stage: [{ stage, rank, layers, parameters, f_ms, i_ms, w_ms, u_ms, f_p95_ms, ..., activation_bytes }], of a microbatch
--   rank: [{ rank, busy_ms, wait_ms, waits_for, span_idle_ms, iteration_ms, peak_activations, planned_activations, memory }],
--     of a step; memory: bytes by what they are for
--   link: [{ kind, from, to, from_rank, to_rank, bytes, median_us }]
--   timeline: the newest steps, { steps: [{ step, rank: [tasks] }] }; tasks: a text of "ACTION BEGIN DURATION PEER" joined by
--     ";", in microseconds. An action is "2F5", a wait: "receive 1F5", "credit 2F5", "norm", "validate", or a send that took
--     long: "send 2F5", "release 1F5". PEER: the rank waited for or sent to, or -1. Or { left_out: why }.
local capi = require 'ppl.capi'
local costs_of = require 'ppl.costs'
local json = require 'ppl.json'
local trainer_tables = require 'ppl.trainer_tables'

local lib = capi.lib
local summary = {}

local TASKS_MOST = 20000 -- of the timeline, as many of the newest steps as fit; about 30 bytes each
local STEP_MOST = 100000 -- a step with more is left out

local function milliseconds(seconds) return math.floor(seconds * 1e7 + 0.5) / 1e4 end

local function stages_of(trainer, run)
    local list, raw, names = {}, capi.new('ppl_stage_stats'), trainer.trace.layer_names
    for stage = 0, trainer.schedule.stages - 1 do
        lib.run_stage_stats(run, stage, raw)
        local row = { stage = stage, rank = raw.rank, layers = json.list(), parameters = tonumber(raw.parameters),
            activation_bytes = tonumber(raw.activation_bytes), u_ms = milliseconds(raw.u_median) }
        for layer = raw.first_layer, raw.first_layer + raw.layers - 1 do table.insert(row.layers, names[layer + 1] or layer) end
        for _, phase in ipairs { 'f', 'i', 'w' } do
            row[phase .. '_ms'], row[phase .. '_p95_ms'] = milliseconds(raw[phase .. '_median']), milliseconds(raw[phase .. '_p95'])
        end
        list[stage + 1] = row
    end
    return list
end

local function ranks_of(trainer, run)
    local list, raw = {}, capi.new('ppl_rank_stats')
    for rank = 0, trainer.schedule.ranks - 1 do
        lib.run_rank_stats(run, rank, raw)
        local memory = {}
        for i, name in ipairs(trainer_tables.memory_kinds) do memory[name] = tonumber(raw.memory[i - 1]) end
        list[rank + 1] = { rank = rank, busy_ms = milliseconds(raw.busy), wait_ms = milliseconds(raw.wait), waits_for = raw.waits_for,
            span_idle_ms = milliseconds(raw.span_idle), iteration_ms = milliseconds(raw.iteration),
            peak_activations = raw.peak_live, planned_activations = raw.planned_live, memory = memory }
    end
    return list
end

-- The stage that makes an edge's value and the letter of what it is, by edge; and the rows of `link`.
local function links_of(run)
    local count = capi.new('int32_t[1]')
    lib.run_edge_stats(run, nil, 0, count)
    local n = count[0]
    local raw, edges, list = capi.new('ppl_edge_stats[?]', math.max(n, 1)), {}, json.list()
    lib.run_edge_stats(run, raw, n, count)
    local kinds = { [capi.const.PPL_F] = { 'F', 'activation' }, [capi.const.PPL_B] = { 'B', 'gradient' },
        [capi.const.PPL_U] = { 'U', 'tied gradient' } }
    for i = 0, n - 1 do
        local e = raw[i]
        local kind = kinds[e.kind]
        edges[e.edge] = { letter = kind[1], stage = e.src_stage }
        if e.src_rank ~= e.dst_rank then
            table.insert(list, { kind = kind[2], from = e.src_stage, to = e.dst_stage, from_rank = e.src_rank,
                to_rank = e.dst_rank, bytes = tonumber(e.bytes), median_us = math.floor(e.median * 1e7 + 0.5) / 10 })
        end
    end
    return edges, list
end

-- ---- the timeline

local COMPUTE = { PPL_TASK_F = 'F', PPL_TASK_B = 'B', PPL_TASK_I = 'I', PPL_TASK_W = 'W' }
local LINK = { PPL_TASK_RECEIVE = 'receive', PPL_TASK_CREDIT = 'credit', PPL_TASK_SEND = 'send', PPL_TASK_RELEASE = 'release' }
local SENDS = { send = true, release = true }
local ALONE = { PPL_TASK_NORM = 'norm', PPL_TASK_VALIDATE = 'validate' }
local LEAST_WAIT, LEAST_SEND = 1e-6, 1e-5 -- seconds: shorter ones were none

local function by_constant(names)
    local result = {}
    for constant, name in pairs(names) do result[capi.const[constant]] = name end
    return result
end

-- Gives a function: the text of a task, nil for one that the timeline leaves out.
local function namer(edges)
    local compute, link, alone, update = by_constant(COMPUTE), by_constant(LINK), by_constant(ALONE), capi.const.PPL_TASK_UPDATE
    return function(e)
        local kind = e.kind
        if compute[kind] then return ('%d%s%d'):format(e.stage, compute[kind], e.microbatch) end
        if kind == update then return e.stage .. 'U' .. (e.microbatch >= 0 and e.microbatch or '') end
        if e['end'] - e.begin < LEAST_WAIT then return nil end
        if alone[kind] then return alone[kind] end
        local edge, what = edges[e.edge], link[kind]
        if not edge or not what or (SENDS[what] and e['end'] - e.begin < LEAST_SEND) then return nil end
        return ('%s %d%s%s'):format(what, edge.stage, edge.letter, edge.letter == 'U' and '' or e.microbatch)
    end
end

local function tenths(seconds) return math.floor(seconds * 1e7 + 0.5) / 10 end

-- One step's tasks by rank. origin: the time that begins at 0.
local function step_tasks(raw, n, ranks, name_of, origin)
    local rows = {}
    for rank = 1, ranks do rows[rank] = {} end
    for i = 0, n - 1 do
        local e = raw[i]
        local name = name_of(e)
        if name then
            local row, begin, finish = rows[e.rank + 1], tenths(e.begin - origin), tenths(e['end'] - origin)
            row[#row + 1] = ('%s %.14g %.14g %d'):format(name, begin, math.floor((finish - begin) * 10 + 0.5) / 10, e.peer)
        end
    end
    for rank = 1, ranks do rows[rank] = table.concat(rows[rank], ';') end
    return rows
end

local function timeline_of(trainer, run, edges)
    local last, count = trainer:steps_done() - 1, capi.new('int64_t[1]')
    lib.run_events(run, last, nil, 0, count)
    local n = tonumber(count[0])
    if n > STEP_MOST then return { left_out = ('a step has %d tasks, more than the %d that are kept'):format(n, STEP_MOST) } end
    local steps = math.max(1, math.min(trainer.trace_steps, math.floor(TASKS_MOST / math.max(n, 1))))
    local raw, name_of, result, origin = capi.new('ppl_event[?]', math.max(n, 1)), namer(edges), { steps = json.list() }, nil
    for step = math.max(last - steps + 1, 0), last do
        if capi.try.run_events(run, step, raw, n, count) then -- after a loaded checkpoint the oldest were never run here
            for i = 0, n - 1 do
                if not origin or raw[i].begin < origin then origin = raw[i].begin end
            end
            table.insert(result.steps, { step = step, rank = step_tasks(raw, n, trainer.schedule.ranks, name_of, origin) })
        end
    end
    return result
end

-- ---- the bubble in theory

local RANKS, MICROBATCHES = { 2, 4, 8, 16, 32 }, { 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128 }

local function with(list, value)
    local result = { value }
    for _, x in ipairs(list) do
        if x ~= value then result[#result + 1] = x end
    end
    table.sort(result)
    return result
end

-- The schedule's own formula for stages of the measured mean; 1F1B's where it has none.
local function curves_of(trainer)
    local s, mean = trainer.schedule, costs_of.mean((trainer:costs()))
    local description = s.description
    local ideal = description and description.chunks * (mean.f + mean.i + mean.w) or 0
    local function own(p, m)
        if not description or ideal <= 0 then return nil end
        local idle, is = description:formula('bubble', p, m, mean)
        return idle and is == '=' and idle / (m * ideal + idle) or nil
    end
    local has_own = own(s.ranks, s.microbatches) ~= nil
    local result = { of = has_own and s.name or '1f1b', m = with(MICROBATCHES, s.microbatches), p = json.list() }
    for _, p in ipairs(with(RANKS, s.ranks)) do
        local row = { ranks = p, bubble_ratio = {} }
        for i, m in ipairs(result.m) do
            local ratio = (p - 1) / (m + p - 1)
            if has_own then ratio = own(p, m) or 0 / 0 end -- null: outside the formula's domain
            row.bubble_ratio[i] = ratio
        end
        table.insert(result.p, row)
    end
    return result
end

local function bubble_of(trainer)
    local result = {}
    for kind, b in pairs(trainer:bubble()) do
        result[kind] = { bubble_ratio = b.ratio, bubble_overhead = b.overhead, iteration_ms = b.iteration_ms }
    end
    return result
end

-- The summary of a trainer that has trained; result: of training.run.
function summary.of(trainer, result)
    local run, s = trainer:open(), trainer.schedule
    local edges, links = links_of(run)
    return {
        format = 1, name = trainer.name, schedule = s.name, device = trainer.device, dtype = trainer.dtype, ranks = s.ranks,
        stages = s.stages, microbatches = s.microbatches, batch = trainer.batch, threads = trainer.pipeline.threads,
        cores = lib.cpu_cores(), steps = result.steps, interrupted = result.interrupted, seconds = result.seconds,
        tokens_per_s = result.tokens_per_s, first_loss = result.first_loss, loss = result.loss, eval_loss = result.eval_loss,
        bubble = bubble_of(trainer), curves = curves_of(trainer), stage = stages_of(trainer, run), rank = ranks_of(trainer, run),
        link = links, timeline = timeline_of(trainer, run, edges),
    }
end

local ORDER = { 'format', 'name', 'schedule', 'device', 'dtype', 'ranks', 'stages', 'microbatches', 'batch', 'threads', 'cores',
    'steps', 'interrupted', 'seconds', 'tokens_per_s', 'first_loss', 'loss', 'eval_loss', 'bubble', 'curves' }
local PARTS = { 'stage', 'rank', 'link' }

-- The same as text: a line for each of its parts.
function summary.text(value)
    local parts = {}
    for _, key in ipairs(ORDER) do
        if value[key] ~= nil then parts[#parts + 1] = ('"%s": %s'):format(key, json.text(value[key])) end
    end
    for _, key in ipairs(PARTS) do parts[#parts + 1] = ('"%s": %s'):format(key, json.text(value[key], { key, 'kind' })) end
    parts[#parts + 1] = '"timeline": ' .. json.text(value.timeline, { 'step' })
    return '{' .. table.concat(parts, ',\n') .. '}\n'
end

return summary
