-- plan_compare.lua - several schedules side by side, for the same ranks, microbatches and costs of a rank. Before:
-- plan_figures.lua. After: cli/plan.lua.
local costs_of = require 'ppl.costs'
local json = require 'ppl.json'
local plan_figures = require 'ppl.plan_figures'
local plan_text = require 'ppl.plan_text'
local schedules = require 'ppl.schedules'
local tables = require 'ppl.table'
local count = require 'ppl.count'

local compare = {}

-- 'gpipe,hanayo:waves=2,x=3,mine.csv' -> 'gpipe', 'hanayo:waves=2,x=3', 'mine.csv': an entry name=number is an option of the
-- name with options before it.
function compare.split(text)
    local list = {}
    for entry in text:gmatch('[^,]+') do
        local before = list[#list]
        if before and before:find(':', 1, true) and entry:match('^%s*[%w_-]+%s*=%s*%-?%d+%s*$') then
            list[#list] = before .. ',' .. entry
        else
            list[#list + 1] = entry:match('^%s*(.-)%s*$')
        end
    end
    return list
end

local DIVIDED = { f = true, i = true, w = true, update = true }

-- One number is the cost of all of a rank's layers: a stage of a rank with several has its part of it. Lists are of stages.
local function of_stages(costs, chunks)
    local result = { f = 1 / chunks, i = 1 / chunks, w = 1 / chunks }
    for key, value in pairs(costs) do
        result[key] = DIVIDED[key] and type(value) == 'number' and value / chunks or value
    end
    return result
end

local function row_of(what, options)
    local compiled = schedules.compile(what, { ranks = options.ranks, microbatches = options.microbatches })
    local chunks = compiled.stages / compiled.ranks
    local costs = costs_of.check('--costs', of_stages(options.costs, chunks), compiled.stages)
    local figures = plan_figures.of(compiled, costs, options.steps)
    local sim, formulas = figures.sim, figures.formulas
    local row = {
        schedule = compiled.name, ranks = compiled.ranks, stages = compiled.stages, microbatches = compiled.microbatches,
        makespan = sim.makespan, iteration = sim.iteration, bubble_ratio = sim.bubble_ratio,
        bubble_overhead = sim.bubble_overhead, span_idle = sim.span_idle, peak_activations = figures.peak_activations,
        peak_microbatches = figures.peak_activations / chunks, messages = figures.messages,
        link_utilisation = figures.link_utilisation, weight_versions = figures.weight_versions, idle_by_formula = formulas.idle_by_formula,
        idle_by_formula_is = formulas.idle_by_formula_is, span_idle_by_formula = formulas.span_idle_by_formula,
        span_idle_by_formula_is = formulas.span_idle_by_formula_is,
    }
    compiled:close()
    return row
end

-- Compiles and simulates each. list: names with options, or paths. options: ranks, microbatches, steps, costs (of
-- costs.read_text or costs.read_file: numbers of a rank, or lists of a stage each). Gives the rows of those that work and, of
-- the others, { schedule, reason }.
function compare.rows(list, options)
    local rows, refused = {}, {}
    for _, what in ipairs(list) do
        local ok, result = pcall(row_of, what, options)
        if ok then
            rows[#rows + 1] = result
        else
            refused[#refused + 1] = { schedule = what, reason = tostring(result) }
        end
    end
    return rows, refused
end

local function columns(time, steps, with_links)
    local function formula(key)
        return function(row) return row[key] and (row[key .. '_is'] == '=' and '' or row[key .. '_is'] .. ' ') .. time(row[key]) end
    end
    local total = steps > 1 and 'iteration' or 'makespan'
    local list = {
        { key = 'schedule', title = 'schedule' }, { key = 'stages', title = 'stages' },
        { key = total, title = total, format = time },
        { key = 'bubble_ratio', title = 'bubble ratio', format = tables.percent },
        { key = 'bubble_overhead', title = 'overhead', format = tables.percent },
        { key = 'span_idle', title = 'span idle', format = time }, { key = 'peak_microbatches', title = 'peak act', format = '%g' },
        { key = 'messages', title = 'messages' }, { key = 'weight_versions', title = 'versions' },
        { key = 'idle', title = 'idle by formula', of = formula 'idle_by_formula' },
    }
    if with_links then table.insert(list, 9, { key = 'link_utilisation', title = 'busiest link', format = tables.percent }) end
    return list
end

-- options: timed, steps. Lines: the table, what its columns mean, and why the others are refused.
function compare.text(rows, refused, options)
    local time, lines = plan_text.time(options.timed), {}
    if #rows > 0 then
        local with_links, list = false, {}
        for _, row in ipairs(rows) do with_links = with_links or row.link_utilisation > 0 end
        local shown = columns(time, options.steps, with_links)
        for r, row in ipairs(rows) do
            list[r] = setmetatable({}, { __index = row })
            for _, column in ipairs(shown) do
                if column.of then list[r][column.key] = column.of(row) end
            end
        end
        lines[1] = ('%s, %s%s\n'):format(count(rows[1].ranks, 'rank'), count(rows[1].microbatches, 'microbatch'),
            options.steps > 1 and (', the last of %d chained steps'):format(options.steps) or '')
        lines[2] = tostring(tables.new(shown, list))
        lines[3] = '\nbubble ratio: idle / iteration; overhead: idle / ideal; span idle: the largest of a rank; peak act: microbatches\n' ..
            'through all layers of a rank; messages: of a step; costs of one number are a rank\'s: its stages share them'
    end
    for i, refusal in ipairs(refused) do
        local reason, own = refusal.reason:gsub('\n\n.*$', ''), ('schedule %s: '):format(refusal.schedule) -- without the grid
        if reason:sub(1, #own) == own then reason = reason:sub(#own + 1) end
        lines[#lines + 1] = (i == 1 and #rows > 0 and '\n' or '') .. ('refused %s: %s'):format(refusal.schedule, reason)
    end
    return table.concat(lines, '\n')
end

function compare.json(rows, refused, options)
    return json.text({ steps = options.steps, schedules = json.list(rows), refused = json.list(refused) }, { 'steps', 'schedules',
        'refused', 'schedule', 'ranks', 'stages', 'microbatches', 'makespan', 'iteration', 'bubble_ratio', 'bubble_overhead',
        'span_idle', 'peak_activations', 'peak_microbatches', 'messages', 'link_utilisation', 'weight_versions', 'idle_by_formula',
        'idle_by_formula_is', 'span_idle_by_formula', 'span_idle_by_formula_is', 'reason' })
end

return compare
