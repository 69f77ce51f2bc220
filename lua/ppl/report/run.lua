-- report/run.lua - a run directory as data for the page: metrics by column, the summary, the settings. A run that is still
-- going, or that was ended from outside, lacks a summary and may have half a last line: the page then says so. Before: what
-- run_directory.lua wrote. After: page.lua.
local assets = require 'ppl.assets'
local capi = require 'ppl.capi'
local fail = require 'ppl.fail'
local json = require 'ppl.json'
local yaml = require 'ppl.yaml'

local try = capi.try
local run = {}

local COLUMNS = { 'step', 'loss', 'lr', 'grad_norm', 'tokens_per_s', 'step_ms', 'bubble', 'peak_bytes', 'eval_loss' }
local NEEDED = { 'step', 'tokens_per_s', 'step_ms' }
local POINTS = 2000 -- of a curve; longer runs are shown as means of so many groups of steps
local FORMAT = 1    -- of summary.json

-- Means of groups of equal size: columns of at most POINTS numbers. The steps are the groups' first.
local function thin(columns, count)
    local group = math.ceil(count / POINTS)
    if group == 1 then return columns, 1 end
    local result = {}
    for _, key in ipairs(COLUMNS) do
        local from, to = columns[key], {}
        for first = 1, count, group do
            local sum, n = 0, 0
            for i = first, math.min(first + group - 1, count) do
                if from[i] then sum, n = sum + from[i], n + 1 end
            end
            to[#to + 1] = key == 'step' and from[first] or n > 0 and sum / n or false
        end
        result[key] = to
    end
    return result, group
end

-- Reads one line into the columns; one that is damaged is named. A loss that is not finite was written as null.
local function read_line(path, number, line, names, out, columns)
    local where = ('%s:%d'):format(path, number)
    local ok, words = try.json_numbers(where, line, #line, names, #COLUMNS, out)
    if not ok then fail('%s: is damaged, want an object of numbers a line', words) end
    for i, key in ipairs(COLUMNS) do
        local x = out[i - 1]
        columns[key][number] = x == x and x or false
    end
    for _, key in ipairs(NEEDED) do
        if not columns[key][number] then fail('%s: is damaged: has no %s, want an object of numbers a line', where, key) end
    end
end

-- { columns of numbers by name (false: none), count, group (steps a point), cut (the last line is half) }.
local function read_metrics(path)
    local text, words = assets.file(path)
    if not text then fail('%s: is not a run directory (%s), want one that training wrote', path:match('^(.*)/') or path, words) end
    local lines = {}
    for line in text:gmatch('([^\n]*)\n') do lines[#lines + 1] = line end
    local rest = text:match('([^\n]*)$')
    if #lines == 0 then fail('%s: has no whole line, want a run that has done a step', path) end
    local columns = {}
    for _, key in ipairs(COLUMNS) do columns[key] = {} end
    local names = capi.strings(COLUMNS)
    local out = capi.new('double[?]', #COLUMNS)
    for i, line in ipairs(lines) do read_line(path, i, line, names, out, columns) end
    local thinned, group = thin(columns, #lines)
    return { columns = thinned, count = #lines, group = group, cut = rest ~= '' }
end

-- ---- the summary

local LISTS, OBJECTS = { 'stage', 'rank', 'link' }, { 'bubble', 'curves', 'timeline' }

-- The text of summary.json, which the page holds as it is; nil where there is none.
local function read_summary(path)
    local text = assets.file(path)
    if not text then return nil end
    local out = capi.new('double[1]')
    local ok, words = try.json_numbers(path, text, #text, capi.strings { 'format' }, 1, out)
    if ok and out[0] ~= FORMAT then
        fail('%s: format is %s, want %d: another version of ppl wrote it', path, out[0] == out[0] and tostring(out[0]) or 'missing', FORMAT)
    end
    if ok then
        ok, words = try.json_check(path, text, #text, capi.strings(LISTS), #LISTS, (capi.strings(OBJECTS)), #OBJECTS)
    end
    if not ok then fail('%s: is damaged, want the summary.json that training wrote', words) end
    return text
end

-- ---- settings

-- Rows { "pipeline.stages", "2" } of a config.yaml in its order; what the trainer made of it (in_force) comes last.
local function flatten(node, prefix, rows)
    for i, child in ipairs(node.children) do
        local key = prefix .. (child.key or tostring(i))
        local plain = child.kind == 'sequence'
        for _, item in ipairs(child.children) do plain = plain and item.kind == 'scalar' end
        if child.kind == 'scalar' then
            rows[#rows + 1] = json.list { key, child.text }
        elseif plain then
            local items = {}
            for n, item in ipairs(child.children) do items[n] = item.text end
            rows[#rows + 1] = json.list { key, table.concat(items, ', ') }
        else
            flatten(child, key .. '.', rows)
        end
    end
    return rows
end

local function read_config(path)
    if not assets.file(path) then return json.list() end
    local root = yaml.open(path)
    return root and root.kind == 'mapping' and flatten(root, '', json.list()) or json.list()
end

-- Whether something lies at a path, files and directories alike.
local function exists(path)
    local file = io.open(path, 'rb')
    if file then file:close() end
    return file ~= nil
end

-- The data of one run as JSON text, and what a caller may say of it: { name, steps, whole }.
function run.read(path)
    path = path:gsub('(.)/+$', '%1')
    if not exists(path) then fail('%s: no such directory, want the directory of a run', path) end
    if assets.file(path) then fail('%s: is a file, want the directory of a run', path) end
    local metrics = read_metrics(path .. '/metrics.jsonl')
    local summary = read_summary(path .. '/summary.json')
    local name = path:match('([^/]+)$') or path
    local columns = {}
    for _, key in ipairs(COLUMNS) do
        local cells = {}
        for i, value in ipairs(metrics.columns[key]) do cells[i] = value and json.number(value) or 'null' end
        columns[#columns + 1] = ('"%s": [%s]'):format(key, table.concat(cells, ','))
    end
    local text = ('{"directory": %s, "name": %s, "steps": %d, "group": %d, "cut": %s,\n"metrics": {%s},\n"config": %s,\n"summary": %s}')
        :format(json.text(path), json.text(name), metrics.count, metrics.group, tostring(metrics.cut), table.concat(columns, ',\n'),
            json.text(read_config(path .. '/config.yaml')), summary or 'null')
    return text, { name = name, steps = metrics.count, whole = summary ~= nil and not metrics.cut }
end

return run
