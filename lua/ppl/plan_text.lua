-- plan_text.lua - a compiled schedule and its figures as text: for people, as JSON, as the CSV of its compute order, and its
-- task lists. Before: plan_figures.lua. After: cli/plan.lua, which says where the text goes.
local capi = require 'ppl.capi'
local events = require 'ppl.events'
local json = require 'ppl.json'
local tables = require 'ppl.table'
local count = require 'ppl.count'

local text = {}

-- How times print: milliseconds where costs were measured, units otherwise.
function text.time(timed)
    return timed and function(x) return tables.ms(x) .. ' ms' end or function(x) return ('%g'):format(x) end
end

local function columns(time, row)
    local list = {
        { key = 'rank', title = 'rank' }, { key = 'tasks', title = 'tasks' }, { key = 'busy', title = 'busy', format = time },
        { key = 'idle', title = 'idle', format = time }, { key = 'bubble_ratio', title = 'bubble ratio', format = tables.percent },
        { key = 'span_idle', title = 'span idle', format = time }, { key = 'peak_activations', title = 'peak act' },
        { key = 'memory', title = row.memory_is == 'at most' and 'at most' or 'by formula' },
    }
    if row.weight_versions then
        list[#list + 1] = { key = 'weight_versions', title = 'weight versions',
            format = function(v) return table.concat(v, ' ') end }
    end
    return list
end

-- "schedule 1f1b: 4 ranks, 4 stages, 8 microbatches"
function text.title(compiled)
    return ('schedule %s: %s, %s, %s'):format(compiled.name, count(compiled.ranks, 'rank'), count(compiled.stages, 'stage'),
        count(compiled.microbatches, 'microbatch'))
end

local function add_formulas(lines, formulas, time)
    for _, entry in ipairs { { 'idle_by_formula', 'idle' }, { 'span_idle_by_formula', 'span idle' } } do
        local value, is = formulas[entry[1]], formulas[entry[1] .. '_is']
        if value then
            lines[#lines + 1] = ('%s time of a rank in one step of equal stages, by formula: %s%s'):format(entry[2],
                is == '=' and '' or is .. ' ', time(value))
        end
    end
end

local MOST_LINKS = 16 -- that the table shows

-- The links of a step: who sends to whom, how much, and for how long; of many, those that are busiest or carry most.
local function add_links(lines, links, time)
    if not links or #links == 0 then return end
    local shown, rest = {}, #links - MOST_LINKS
    for i, link in ipairs(links) do
        shown[i] = setmetatable({ link = ('%d to %d'):format(link.from, link.to), order = tonumber(('%.9g'):format(link.busy)) },
            { __index = link })
    end
    if rest > 0 then
        table.sort(shown, function(a, b)
            if a.order ~= b.order then return a.order > b.order end
            if a.messages ~= b.messages then return a.messages > b.messages end
            return a.from < b.from or a.from == b.from and a.to < b.to
        end)
        for i = #shown, MOST_LINKS + 1, -1 do shown[i] = nil end
    end
    lines[#lines + 1] = '\nlinks, in one step (queued: messages waited for those before them; longest: from a send to its being there)\n'
    lines[#lines + 1] = tostring(tables.new({
        { key = 'link', title = 'ranks' }, { key = 'messages', title = 'messages' },
        { key = 'bytes', title = 'bytes', format = tables.bytes },
        { key = 'busy', title = 'busy', format = time }, { key = 'utilisation', title = 'utilisation', format = tables.percent },
        { key = 'queued', title = 'queued', format = time }, { key = 'longest', title = 'longest', format = time },
    }, shown, rest > 0 and { ('%d more, less busy; --json has all'):format(rest) }))
end

-- For people. options: timed (costs were measured), plain (no colour, whatever the terminal).
function text.table(compiled, figures, options)
    local time, sim, d = text.time(options.timed), figures.sim, compiled.description
    local lines = { text.title(compiled) }
    if d and d.doc then lines[2] = d.doc .. (d.paper and ' (' .. d.paper .. ')' or '') end
    lines[#lines + 1] = ''
    for _, line in ipairs(events.timeline(sim.rows, { unit = options.timed and 'ms' or '', plain = options.plain,
        with_stage = compiled.stages > compiled.ranks }).lines) do lines[#lines + 1] = line end
    lines[#lines + 1] = '\n' .. tostring(tables.new(columns(time, figures.by_rank[1]), figures.by_rank))
    lines[#lines + 1] = ('\nmakespan %s, bubble ratio %s (idle / iteration), bubble overhead %s (idle / ideal), largest span idle %s')
        :format(time(sim.makespan), tables.percent(sim.bubble_ratio), tables.percent(sim.bubble_overhead), time(sim.span_idle))
    add_formulas(lines, figures.formulas, time)
    if figures.chained_iteration then
        lines[#lines + 1] = ('steps that follow one another take %s each: they do not drain in between'):format(
            time(figures.chained_iteration))
    end
    add_links(lines, figures.links, time)
    lines[#lines + 1] = 'complete, in order, free of deadlock'
    return table.concat(lines, '\n')
end

-- Each rank's task list.
function text.tasks(compiled)
    local own, lines, task = compiled.plan:get(), {}, capi.new('char[256]')
    for rank = 0, compiled.ranks - 1 do
        lines[#lines + 1] = ('rank %d'):format(rank)
        for at = 0, tonumber(capi.lib.plan_length(own, rank)) - 1 do
            capi.lib.task_print(own, rank, at, task)
            lines[#lines + 1] = '  ' .. capi.string(task)
        end
    end
    return table.concat(lines, '\n')
end

-- One JSON object.
function text.json(compiled, figures)
    local cells, sim = {}, figures.sim
    for rank, row in ipairs(compiled:cells()) do cells[rank] = json.list(row) end
    local result = {
        schedule = compiled.name, ranks = compiled.ranks, stages = compiled.stages, microbatches = compiled.microbatches,
        makespan = sim.makespan, iteration = sim.iteration, bubble_ratio = sim.bubble_ratio,
        bubble_overhead = sim.bubble_overhead, span_idle = sim.span_idle, chained_iteration = figures.chained_iteration,
        by_rank = figures.by_rank, links = sim.links, actions = cells,
    }
    for key, value in pairs(figures.formulas) do result[key] = value end
    return json.text(result, { 'schedule', 'ranks', 'stages', 'microbatches', 'makespan', 'iteration', 'bubble_ratio',
        'bubble_overhead', 'span_idle', 'idle_by_formula', 'idle_by_formula_is', 'span_idle_by_formula',
        'span_idle_by_formula_is', 'rank' })
end

-- The compute order as Compiled:write writes it, without the last line's end: the engine writes files only, so that one goes to
-- a temporary path and comes back.
function text.csv(compiled, messages, plan)
    local path = os.tmpname()
    local ok, words = pcall(compiled.write, compiled, path, messages, plan)
    local file = ok and io.open(path, 'rb')
    local content = file and file:read('*a')
    if file then file:close() end
    os.remove(path)
    if not content then error(ok and path .. ': cannot be read back, want a folder for temporary files' or words, 0) end
    return (content:gsub('\n$', ''))
end

return text
