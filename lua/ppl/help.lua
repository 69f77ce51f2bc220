-- help.lua - `help` and help(x) at the prompt. A function's words are the comment that stands right above it in its source:
-- written once, beside the function. Before: cli/prompt.lua.
local fail = require 'ppl.fail'
local host = require 'ppl.host'
local nearest = require 'ppl.nearest'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'
local terminal = require 'ppl.terminal'

local help = {}

local LIBRARY = '=<ppl>/'

local texts = {} -- source -> list of lines, or false

-- The lines of a chunk's source; nil where it is not to be had.
local function lines_of(source)
    if texts[source] == nil then
        local path = source:sub(1, 1) == '@' and source:sub(2)
            or source:sub(1, #LIBRARY) == LIBRARY and ('%s/ppl/%s'):format(host.library, source:sub(#LIBRARY + 1))
        local file, lines = path and io.open(path, 'rb'), {}
        if file then
            for line in file:lines() do lines[#lines + 1] = line end
            file:close()
        end
        texts[source] = file and lines or false
    end
    return texts[source] or nil
end

-- The comment right above a function, as one text with its line breaks; nil where there is none.
function help.doc(f)
    local info = debug.getinfo(f, 'S')
    local lines = info.what ~= 'C' and lines_of(info.source)
    if not lines then return nil end
    local first = info.linedefined
    while first > 1 and (lines[first - 1] or ''):match('^%s*%-%-') do first = first - 1 end
    local text = {}
    for i = first, info.linedefined - 1 do
        local line = lines[i]:match('^%s*%-%- ?(.*)$')
        if line:match('^%-%-%-') then text = {} else text[#text + 1] = line end -- a heading of several functions
    end
    return text[1] and table.concat(text, '\n') or nil
end

-- Of a comment "run:step(n): n more steps. Gives ..." the signature and the first sentence; nil where it is not of that form.
function help.split(doc, prefix)
    if not doc or doc:sub(1, #prefix) ~= prefix then return nil end
    local words = doc:gsub('%s*\n%s*', ' ')
    local signature, rest = words:match('^([%w_.:]+%b()):%s*(.*)$')
    if not signature then signature, rest = words:match('^([%w_.:]+ ?%b{}):%s*(.*)$') end
    if not signature then return words, '' end
    return signature, rest:match('^(.-%.)%s') or rest
end

-- Entries { name, signature, sentence } of the functions in a table whose comment begins with `prefix`, in the order of
-- their sources.
function help.entries(t, prefix)
    local list = {}
    for name, f in pairs(t) do
        if type(f) == 'function' then
            local signature, sentence = help.split(help.doc(f), prefix)
            local info = debug.getinfo(f, 'S')
            if signature then
                list[#list + 1] = { name = name, signature = signature, sentence = sentence,
                    place = ('%s:%06d'):format(info.source, info.linedefined) }
            end
        end
    end
    table.sort(list, function(a, b) return a.place < b.place end)
    return list
end

local FILES = { 'trainer', 'trainer_run', 'trainer_tables', 'trainer_memory', 'trainer_analysis', 'trainer_compare', 'sample' }
for i, file in ipairs(FILES) do FILES[LIBRARY .. file .. '.lua'] = i end

-- What a trainer does at the prompt: file by file, what works before what tells.
function help.methods()
    local list = help.entries(require 'ppl.trainer'.methods, 'run:')
    for at, entry in ipairs(list) do
        entry.order = (FILES[entry.place:match('^(.*):')] or #FILES + 1) * 1000 + at
    end
    table.sort(list, function(a, b) return a.order < b.order end)
    return list
end

local SIGNATURE = 34 -- columns
local NARROW = 76    -- columns: below, a sentence stands under its signature

-- A text word by word in lines that fit.
local function add_wrapped(lines, text, indent, width)
    local line = indent
    for word in text:gmatch '%S+' do
        if #line + #word >= width and line:match '%S' then
            lines[#lines + 1] = line
            line = indent
        end
        line = line .. (line:match '%S' and ' ' or '') .. word
    end
    lines[#lines + 1] = line
end

local function add_entries(lines, entries)
    local width = math.max(40, math.min(terminal.width(), 120))
    for _, entry in ipairs(width < NARROW and entries or {}) do
        add_wrapped(lines, entry.signature, '  ', width)
        add_wrapped(lines, entry.sentence, '      ', width)
    end
    for _, entry in ipairs(width >= NARROW and entries or {}) do
        local left = ('  %-' .. SIGNATURE .. 's '):format(entry.signature)
        if #entry.signature > SIGNATURE then
            left = '  ' .. entry.signature:match('^[%w_.:]+') .. (entry.signature:match('^[%w_.:]+%(') and '(...)' or ' { ... }')
            left = ('%-' .. SIGNATURE + 3 .. 's'):format(left)
        end
        local line = left .. entry.sentence
        lines[#lines + 1] = #line <= width and line or line:sub(1, width - 4):gsub('%s+%S*$', '') .. ' ...'
    end
end

-- "title: a, b, c" in lines that fit.
local function add_list(lines, title, names)
    local width = math.max(40, math.min(terminal.width(), 120))
    local line = title .. ':'
    for i, name in ipairs(names) do
        local part = ' ' .. name .. (i < #names and ',' or '')
        if #line + #part > width then
            lines[#lines + 1] = line
            line = ' '
        end
        line = line .. part
    end
    lines[#lines + 1] = line
end

local function overview()
    local lines = { 'An expression prints its value, a statement runs; globals stay. Tab completes, Ctrl-C stops what runs,',
        'exit or Ctrl-D leaves. help(run.timings), help(ppl.adamw), help \'zb-h1\' say more of one thing.', '' }
    if rawget(_G, 'run') then
        lines[#lines + 1] = 'run, the trainer:'
        add_entries(lines, help.methods())
        lines[#lines + 1] = ''
    end
    lines[#lines + 1] = 'ppl, the library:'
    add_entries(lines, help.entries(require 'ppl', 'ppl.'))
    add_entries(lines, help.entries(require 'ppl'.data, 'ppl.'))
    lines[#lines + 1] = ''
    add_list(lines, 'layers (ppl.nn)', nearest.keys(require 'ppl.nn'))
    add_list(lines, 'schedules', schedules.names())
    return table.concat(lines, '\n')
end

local function of_schedule(description)
    return tostring(description) .. (description.paper and '\n' .. description.paper or '')
end

local function of_name(name)
    local method = require 'ppl.trainer'.methods[name]
    if method and help.doc(method) then return help.doc(method) end
    for _, known in ipairs(schedules.names()) do
        if known == name then return of_schedule(schedules.find(name)) end
    end
    local names = schedules.names()
    for _, entry in ipairs(help.methods()) do names[#names + 1] = entry.name end
    local ppl = require 'ppl'
    for prefix, t in pairs { ['ppl.'] = ppl, ['ppl.data.'] = ppl.data, ['nn.'] = ppl.nn } do
        for key, f in pairs(t) do
            if (key == name or prefix .. key == name) and type(f) == 'function' and help.doc(f) then return help.doc(f) end
            names[#names + 1] = key
        end
    end
    return fail('help: %s is no method of a trainer, no schedule and nothing of the library%s', name, nearest.hint(name, names))
end

local function of_table(value)
    if schedule.is(value) then return of_schedule(value) end
    local lines = {}
    if require 'ppl.trainer'.is(value) then
        add_entries(lines, help.methods())
    else
        add_entries(lines, help.entries(value, 'ppl.'))
    end
    if not lines[1] then return 'no help on this table; help(f) of a function in it may say more' end
    return table.concat(lines, '\n')
end

-- The words on a value; without one, on all there is.
function help.text(...)
    if select('#', ...) == 0 then return overview() end
    local value = (...)
    if type(value) == 'string' then return of_name(value) end
    if type(value) == 'table' then return getmetatable(value) == help and overview() or of_table(value) end
    if type(value) ~= 'function' then return fail('help: got %s, want a function, a name or the trainer', tostring(value)) end
    return help.doc(value) or 'no words stand above this function in its source'
end

-- help(x), and `help` alone: the global of the prompt.
help.__tostring = overview
help.__call = function(_, ...) return help.text(...) end
help.object = setmetatable({}, help)

return help
