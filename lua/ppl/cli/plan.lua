-- plan.lua - `ppl plan WHAT`: compiles a schedule, proves it, simulates it, and draws its timeline and each rank's memory.
-- WHAT is a training script, a schedule's .lua or .csv file, or a built-in's name, with options: interleaved:chunks=3. Trains
-- nothing.
local costs_of = require 'ppl.costs'
local events = require 'ppl.events'
local fail = require 'ppl.fail'
local json = require 'ppl.json'
local nearest = require 'ppl.nearest'
local options = require 'ppl.cli.options'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'
local tables = require 'ppl.table'
local capi = require 'ppl.capi'

local plan = {}

local SPEC = {
    { name = '--ranks', short = '-p', value = 'P', help = 'ranks (default 4)' },
    { name = '--microbatches', short = '-m', value = 'M', help = 'microbatches (default 8)' },
    { name = '--costs', value = 'COSTS', help = 'F=1,I=1,W=1[,latency=0][,update=0] of a stage, or a run\'s costs.json' },
    { name = '--steps', value = 'N', help = 'steps simulated, chained without a barrier; the last is drawn (default 1)' },
    { name = '--csv', value = 'FILE', help = 'write the compute order in PyTorch\'s form' },
    { name = '--tasks', help = 'print each rank\'s task list' },
    { name = '--config', value = 'FILE', help = 'of a training script' },
    { name = '--set', value = 'A.B=V', help = 'of a training script' },
    { name = '--json', help = 'print one JSON object' },
    { name = '--help', short = '-h', help = 'this text' },
}

-- Runs a .lua file: gives a schedule's description or a trainer.
local function load_lua(path)
    local result = require 'ppl.cli.script'.load(path, { quiet = true })
    if schedule.is(result) or require 'ppl.trainer'.is(result) then return result end
    return fail('%s: returns %s, want a trainer or ppl.schedule { ... }', path, type(result))
end

local function unknown(name)
    local known = {}
    for i, option in ipairs(SPEC) do known[i] = option.name end
    fail.usage('%s: unknown option of ppl plan%s; ppl plan --help lists them; a schedule\'s own stand behind its name, as in ' ..
        'interleaved:chunks=3', name, nearest.hint(name, known))
end

-- The command line; unknown options are settings where a script is named, and wrong usage elsewhere.
local function parse(arguments)
    local is_script = false
    for _, word in ipairs(arguments) do is_script = is_script or word:match('^[^-].*%.lua$') ~= nil end
    return options.parse('ppl plan', SPEC, arguments, is_script and options.pend or unknown)
end

-- The compiled schedule of WHAT, and the trainer if it is one's.
local function compile(what, values)
    local p = values.ranks and options.integer('--ranks', values.ranks, 1, 4096)
    local m = values.microbatches and options.integer('--microbatches', values.microbatches, 1, 65536)
    local thing = what
    if what:match('%.lua$') then
        thing = load_lua(what)
    elseif values.config or values.set then
        fail.usage('--%s: is for a training script, want a .lua file', values.config and 'config' or 'set')
    end
    if require 'ppl.trainer'.is(thing) then
        if p or m then
            fail.usage('%s: is a training script, want --set pipeline.stages=P and --set pipeline.microbatches=M', what)
        end
        return thing.schedule, thing
    end
    if what:match('%.csv$') then return schedules.compile(what, { ranks = p, microbatches = m }) end
    return schedules.compile(thing, { ranks = p or 4, microbatches = m or 8 })
end

local function read_costs(text, stages)
    if not text then return costs_of.parse('', stages) end
    if text:match('%.json$') or text:match('%.yaml$') then return costs_of.read(text, stages) end
    return costs_of.parse(text, stages)
end

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
            rank = rank, tasks = tonumber(capi.lib.plan_length(own, rank)), busy = busy, idle = sim.iteration - busy,
            bubble_ratio = sim.iteration > 0 and 1 - busy / sim.iteration or 0,
            span_idle = span_idle > 1e-9 * sim.iteration and span_idle or 0, -- sums of rounded times
            peak_activations = capi.lib.plan_peak_live(own, rank),
            memory = memory, memory_is = is,
        }
    end
    return rows
end

local function columns(time, memory_is)
    return {
        { key = 'rank', title = 'rank' }, { key = 'tasks', title = 'tasks' }, { key = 'busy', title = 'busy', format = time },
        { key = 'idle', title = 'idle', format = time }, { key = 'bubble_ratio', title = 'bubble ratio', format = tables.percent },
        { key = 'span_idle', title = 'span idle', format = time }, { key = 'peak_activations', title = 'peak act' },
        { key = 'memory', title = memory_is == 'at most' and 'at most' or 'by formula' },
    }
end

local function print_tasks(compiled)
    local own, text = compiled.plan:get(), capi.new('char[256]')
    for rank = 0, compiled.ranks - 1 do
        print(('rank %d'):format(rank))
        for at = 0, tonumber(capi.lib.plan_length(own, rank)) - 1 do
            capi.lib.task_print(own, rank, at, text)
            print('  ' .. capi.string(text))
        end
    end
end

-- Idle times by the schedule's formulas, which are about one step of equal stages: { idle_by_formula, idle_by_formula_is,
-- span_idle_by_formula, span_idle_by_formula_is }.
local function formulas_of(compiled, costs)
    local mean, result = costs_of.mean(costs), {}
    result.idle_by_formula, result.idle_by_formula_is = formula(compiled, 'bubble', mean)
    result.span_idle_by_formula, result.span_idle_by_formula_is = formula(compiled, 'span', mean)
    return result
end

local function formula_lines(formulas, time)
    local lines = {}
    for _, entry in ipairs { { 'idle_by_formula', 'idle' }, { 'span_idle_by_formula', 'span idle' } } do
        local value, is = formulas[entry[1]], formulas[entry[1] .. '_is']
        if value then
            lines[#lines + 1] = ('%s time of a rank in one step of equal stages, by formula: %s%s'):format(entry[2],
                is == '=' and '' or is .. ' ', time(value))
        end
    end
    return lines
end

local function print_text(compiled, sim, rows, formulas, timed)
    local time = timed and function(x) return tables.ms(x) .. ' ms' end or function(x) return ('%g'):format(x) end
    local d = compiled.description
    print(('schedule %s: %d ranks, %d stages, %d microbatches'):format(compiled.name, compiled.ranks, compiled.stages,
        compiled.microbatches))
    if d and d.doc then print(d.doc .. (d.paper and ' (' .. d.paper .. ')' or '')) end
    print()
    for _, line in ipairs(events.timeline(sim.rows,
        { unit = timed and 'ms' or '', with_stage = compiled.stages > compiled.ranks }).lines) do print(line) end
    print('\n' .. tostring(tables.new(columns(time, rows[1].memory_is), rows)))
    print(('\nmakespan %s, bubble ratio %s (idle / iteration), bubble overhead %s (idle / ideal), largest span idle %s'):format(
        time(sim.makespan), tables.percent(sim.bubble_ratio), tables.percent(sim.bubble_overhead), time(sim.span_idle)))
    for _, line in ipairs(formula_lines(formulas, time)) do print(line) end
    print('complete, in order, free of deadlock')
end

local function print_json(compiled, sim, rows, formulas)
    local cells = {}
    for rank, row in ipairs(compiled:cells()) do cells[rank] = json.list(row) end
    local result = {
        schedule = compiled.name, ranks = compiled.ranks, stages = compiled.stages, microbatches = compiled.microbatches,
        makespan = sim.makespan, iteration = sim.iteration, bubble_ratio = sim.bubble_ratio,
        bubble_overhead = sim.bubble_overhead, span_idle = sim.span_idle, by_rank = rows, actions = cells,
    }
    for key, value in pairs(formulas) do result[key] = value end
    print(json.text(result, { 'schedule', 'ranks', 'stages', 'microbatches', 'makespan', 'iteration', 'bubble_ratio',
        'bubble_overhead', 'span_idle', 'idle_by_formula', 'idle_by_formula_is', 'span_idle_by_formula',
        'span_idle_by_formula_is', 'rank' }))
end

-- A line for each built-in schedule: its name, its options with their defaults, and what it is.
local function list_schedules()
    local lines = {}
    for _, name in ipairs(schedules.names()) do
        local description = schedules.find(name)
        for option, default in pairs(description.defaults) do name = ('%s:%s=%d'):format(name, option, default) end
        lines[#lines + 1] = ('  %-24s %s'):format(name, description.doc)
    end
    return table.concat(lines, '\n')
end

function plan.run(arguments)
    local values, rest = parse(arguments)
    if values.help then
        print('usage: ppl plan SCRIPT.lua|SCHEDULE.lua|FILE.csv|NAME[:option=value,...] [options]\n\n' .. options.help(SPEC) ..
            '\n\nbuilt-in schedules, with their options\' defaults:\n' .. list_schedules())
        return 0
    end
    if #rest ~= 1 then
        fail.usage('ppl plan: got %d arguments, want one: a script, a .lua or .csv file, or one of %s', #rest,
            table.concat(schedules.names(), ', '))
    end
    local compiled, trainer = compile(rest[1], values)
    local costs = read_costs(values.costs, compiled.stages)
    local steps = values.steps and options.integer('--steps', values.steps, 1, 10000) or 1
    local sim = events.simulate(compiled, costs, steps)
    local rows, formulas = rank_rows(compiled, sim), formulas_of(compiled, costs)
    if values.csv then compiled:write(values.csv) end
    if values.json then
        print_json(compiled, sim, rows, formulas)
    else
        local timed = values.costs and values.costs:match('%.json$') ~= nil
        print_text(compiled, sim, rows, formulas, timed)
        if values.tasks then print_tasks(compiled) end
        if trainer then print('\nmemory of each rank:\n' .. tostring(trainer:memory())) end
    end
    if trainer then trainer:close() else compiled:close() end
    return 0
end

return plan
