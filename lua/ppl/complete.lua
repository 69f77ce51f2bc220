-- complete.lua - what a Tab completes at the prompt: globals, fields and methods of what the line has come to, schedules and
-- parameters inside quotes. Nothing is called on the way, and no metamethod runs. Before: cli/prompt.lua.
local help = require 'ppl.help'
local schedules = require 'ppl.schedules'
local terminal = require 'ppl.terminal'

local complete = {}

local WORDS = { 'and', 'break', 'do', 'else', 'elseif', 'end', 'false', 'for', 'function', 'if', 'in', 'local', 'nil', 'not', 'or',
    'repeat', 'return', 'then', 'true', 'until', 'while', 'exit' }

-- The table that lookups of a value fall back to; nil where there is none.
local function fallback(value)
    local meta = debug.getmetatable(value)
    local index = type(meta) == 'table' and rawget(meta, '__index')
    return type(index) == 'table' and index or nil
end

local function lookup(value, key)
    for _ = 1, 8 do
        if type(value) == 'table' then
            local found = rawget(value, key)
            if found ~= nil then return found end
        end
        value = fallback(value)
        if value == nil then return nil end
    end
end

-- The value of "a.b[1]:c", all but its last name; ok: it was found. "" stands for the globals.
local function resolve(path)
    if path == '' then return _G, true end
    local value, rest = _G, '.' .. path
    while rest ~= '' do
        local name, tail = rest:match('^[.:]([%a_][%w_]*)(.*)$')
        local index
        if not name then index, tail = rest:match('^%[(%d+)%](.*)$') end
        if not name and not index then return nil, false end
        value = lookup(value, name or tonumber(index))
        if value == nil then return nil, false end
        rest = tail
    end
    return value, true
end

local function is_trainer(value) return require 'ppl.trainer'.is(value) end

-- Names of a value that begin with `prefix`: a set. only_functions: after a colon.
local function names_of(value, prefix, only_functions)
    local set, public = {}, nil
    if is_trainer(value) then
        public = {}
        for _, entry in ipairs(help.methods()) do public[entry.name] = true end
    end
    local depth = 0
    while value ~= nil and depth < 8 do
        for key, item in next, type(value) == 'table' and value or {} do
            local is_function = type(item) == 'function'
            if type(key) == 'string' and key:match('^[%a_][%w_]*$') and key:sub(1, #prefix) == prefix
                and (is_function or not only_functions) and not (public and is_function and not public[key]) then
                set[key] = is_function and 'function' or 'value'
            end
        end
        value = fallback(value)
        depth = depth + 1
    end
    return set
end

-- The quote that is open at the end of a text and what stands behind it; nil where none is.
local function open_quote(text)
    local quote, from, i = nil, nil, 1
    while i <= #text do
        local c = text:sub(i, i)
        if quote and c == '\\' then
            i = i + 1
        elseif quote and c == quote then
            quote = nil
        elseif not quote and (c == '"' or c == "'") then
            quote, from = c, i
        end
        i = i + 1
    end
    if quote then return quote, text:sub(from + 1), text:sub(1, from - 1) end
end

-- What may stand inside quotes: parameters where a method takes one, else schedules.
local function quoted(prefix, before)
    local set, names = {}, schedules.names()
    local path, method = before:match('([%a_][%w_.]*):([%a_]+)%s*%(?%s*$')
    local value = path and resolve(path)
    if (method == 'tensor' or method == 'assign') and value and is_trainer(value) and value.run then
        names = {}
        for i, info in ipairs(value:parameter_list()) do names[i] = info.name end
    elseif before:match('help%s*%(?%s*$') then
        local first = #names
        for i, entry in ipairs(help.methods()) do names[first + i] = entry.name end
    end
    for _, name in ipairs(names) do
        if name:sub(1, #prefix) == prefix then set[name] = 'text' end
    end
    return set
end

local function common(list)
    local text = list[1]
    for _, name in ipairs(list) do
        while name:sub(1, #text) ~= text do text = text:sub(1, -2) end
    end
    return text
end

-- Names side by side, as many as the terminal has room for.
local function columns(list)
    local width = 0
    for _, name in ipairs(list) do width = math.max(width, #name + 2) end
    local each = math.max(1, math.floor(terminal.width() / width))
    local rows, lines = math.ceil(#list / each), {}
    for r = 1, rows do
        local parts = {}
        for i = r, #list, rows do parts[#parts + 1] = ('%-' .. width .. 's'):format(list[i]) end
        lines[r] = table.concat(parts):gsub('%s+$', '')
    end
    return table.concat(lines, '\n')
end

-- The candidates of a line up to its cursor: a set of names with what they are, and what of the last one is there.
function complete.candidates(before)
    local quote, inside, outside = open_quote(before)
    if quote then return quoted(inside, outside), inside, quote end
    local chain = before:match('[%a_][%w_.:%[%]]*$')
    if not chain and before:match('[%w_.:%])"\']$') then return {}, '' end
    chain = chain or ''
    local path, mark, prefix = chain:match('^(.*)([.:])([%w_]*)$')
    if not path then path, mark, prefix = '', '.', chain end
    local value, found = resolve(path)
    if not found then return {}, prefix end
    local set = names_of(value, prefix, mark == ':')
    if path == '' then
        for _, word in ipairs(WORDS) do
            if word:sub(1, #prefix) == prefix and prefix ~= '' then set[word] = set[word] or 'word' end
        end
    end
    return set, prefix
end

-- What a Tab does behind the text `before`: a text to insert, and one to list.
function complete.tab(before)
    local set, prefix, quote = complete.candidates(before)
    local list = {}
    for name in pairs(set) do list[#list + 1] = name end
    table.sort(list)
    if #list == 0 then return '', '' end
    if #list == 1 then
        local ending = set[list[1]] == 'function' and '(' or quote or ''
        return list[1]:sub(#prefix + 1) .. ending, ''
    end
    local more = common(list):sub(#prefix + 1)
    return more, more == '' and columns(list) or ''
end

return complete
