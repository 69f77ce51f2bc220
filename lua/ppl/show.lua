-- show.lua - values as the prompt prints them: what prints itself does so, lists of records become aligned columns, other
-- tables are written out within bounds. Before: cli/prompt.lua.
local tables = require 'ppl.table'
local terminal = require 'ppl.terminal'

local show = {}

local ROWS, ITEMS, DEPTH = 50, 40, 4 -- of a list of records, of any other table, of tables in tables
local FIELD, LINE = 160, 2000        -- characters of a field's value, of a list

local WORDS = {}
for word in ('and break do else elseif end false for function if in local nil not or repeat return then true until while')
    :gmatch('%a+') do WORDS[word] = true end

local function prints_itself(value)
    local meta = type(value) == 'table' and getmetatable(value)
    return type(meta) == 'table' and rawget(meta, '__tostring') ~= nil
end

-- Numbers first, in order, then texts, then the rest by how they print.
local function before(a, b)
    if type(a) == 'number' and type(b) == 'number' then return a < b end
    if type(a) ~= type(b) then
        if type(a) == 'number' or type(b) == 'number' then return type(a) == 'number' end
        return type(a) < type(b)
    end
    return tostring(a) < tostring(b)
end

local function sorted_keys(t)
    local keys = {}
    for key in next, t do keys[#keys + 1] = key end
    table.sort(keys, before)
    return keys
end

local function length(t) -- of a list; nil if the table is none
    local n = #t
    for key in next, t do
        if type(key) ~= 'number' or key < 1 or key > n or key % 1 ~= 0 then return nil end
    end
    return n
end

-- ---- one value on one line

local function scalar(value)
    if type(value) == 'string' then return ('%q'):format(value):gsub('\\\n', '\\n'):gsub('%c', '.') .. '' end
    if type(value) == 'number' and value ~= value then return 'nan' end
    return tostring(value)
end

local function key_text(key)
    if type(key) == 'string' and key:match('^[%a_][%w_]*$') and not WORDS[key] then return key end
    return '[' .. scalar(key) .. ']'
end

local function short(value, depth, seen)
    if type(value) ~= 'table' then return scalar(value) end
    if prints_itself(value) then
        local text = tostring(value)
        return #text <= 60 and not text:find('\n', 1, true) and text or '{ ... }'
    end
    if next(value) == nil then return '{}' end
    if depth == 0 or seen[value] then return '{ ... }' end
    seen[value] = true
    local parts, n = {}, length(value)
    for i, key in ipairs(sorted_keys(value)) do
        if i > ITEMS then
            parts[i] = '...'
            break
        end
        local text = short(rawget(value, key), depth - 1, seen)
        parts[i] = n and text or key_text(key) .. ' = ' .. text
    end
    seen[value] = nil
    return '{ ' .. table.concat(parts, ', ') .. ' }'
end

-- Of a text so many characters.
local function bounded(text, most) return #text <= most and text or text:sub(1, most) .. ' ...' end

-- ---- tables on several lines

-- Columns of a list of records: all keys, in the order in which they are met, sorted within a record. nil where the table
-- is no list of records.
local function record_columns(list)
    local n = length(list)
    if not n or n == 0 then return nil end
    local columns, known = {}, {}
    for i = 1, math.min(n, ROWS) do
        local record = list[i]
        if type(record) ~= 'table' or prints_itself(record) or next(record) == nil then return nil end
        for _, key in ipairs(sorted_keys(record)) do
            if type(key) ~= 'string' then return nil end
            if not known[key] then
                known[key] = true
                columns[#columns + 1] = { key = key, title = key, format = function(value)
                    return type(value) == 'string' and value or type(value) == 'number' and ('%.6g'):format(value)
                        or short(value, 1, {})
                end }
            end
        end
    end
    return columns
end

local function records(list, columns)
    local rows = {}
    for i = 1, math.min(#list, ROWS) do rows[i] = list[i] end
    return tostring(tables.new(columns, rows, #list > ROWS and { ('... %d more'):format(#list - ROWS) } or nil))
end

-- "key  value" a line.
local function fields(t)
    local lines, width, keys = {}, 0, sorted_keys(t)
    for i = 1, math.min(#keys, ITEMS) do width = math.max(width, #key_text(keys[i])) end
    for i = 1, math.min(#keys, ITEMS) do
        lines[i] = ('%-' .. math.min(width, 40) .. 's  %s'):format(key_text(keys[i]),
            bounded(short(rawget(t, keys[i]), DEPTH - 2, {}), FIELD))
    end
    if #keys > ITEMS then lines[#lines + 1] = ('... %d more'):format(#keys - ITEMS) end
    return table.concat(lines, '\n')
end

-- A text for a terminal: what would move the cursor or change its modes is written as \x1b; colours, lines and tabs stay.
function show.printable(text)
    return (text:gsub('([%z\1-\8\11-\31\127])(%[?[%d;]*m?)', function(control, behind)
        if control == '\27' and behind:match '^%[[%d;]*m$' then return nil end
        return ('\\x%02x%s'):format(control:byte(), behind)
    end))
end

-- The text of a value: a text as it is.
function show.text(value)
    if type(value) == 'string' then return value end
    if type(value) ~= 'table' then return scalar(value) end
    if prints_itself(value) then return tostring(value) end
    local columns = record_columns(value)
    if columns then return records(value, columns) end
    local line = short(value, DEPTH, {})
    if length(value) or #line <= math.min(terminal.width(), 100) then return bounded(line, LINE) end
    return fields(value)
end

return show
