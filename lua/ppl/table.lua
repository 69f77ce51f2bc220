-- table.lua - results as tables: rows with named columns that print aligned at the prompt and become JSON with --json.
local json = require 'ppl.json'

local tables = {}
local Table = {}
Table.__index = Table

-- columns: list of { key, title, format (of string.format, or a function), unit in the title if any }. rows: list of
-- tables by key; a key that a row lacks prints as '-'. notes: lines below. limit: rows that print at most; nil all.
function tables.new(columns, rows, notes, limit)
    return setmetatable({ columns = columns, rows = rows, notes = notes or {}, limit = limit }, Table)
end

local function cell(column, value)
    if value == nil then return '-' end
    if type(column.format) == 'function' then return column.format(value) end
    return column.format and column.format:format(value) or tostring(value)
end

local function pad(text, width, left)
    local fill = (' '):rep(width - #text)
    return left and text .. fill or fill .. text
end

-- Lines of text: titles, a rule, the rows; numbers end in one column, texts begin in one.
function Table:lines()
    local cells, widths, left = {}, {}, {}
    local shown = math.min(#self.rows, self.limit or #self.rows)
    for c, column in ipairs(self.columns) do
        widths[c], left[c] = #column.title, true
        cells[c] = {}
        for r = 1, shown do
            local row = self.rows[r]
            local value = row[column.key]
            cells[c][r] = cell(column, value)
            widths[c] = math.max(widths[c], #cells[c][r])
            if type(value) == 'number' then left[c] = false end
        end
    end
    local function line(text_of)
        local parts = {}
        for c in ipairs(self.columns) do parts[c] = pad(text_of(c), widths[c], left[c]) end
        return (table.concat(parts, '  '):gsub('%s+$', ''))
    end
    local lines = { line(function(c) return self.columns[c].title end), line(function(c) return ('-'):rep(widths[c]) end) }
    for r = 1, shown do lines[#lines + 1] = line(function(c) return cells[c][r] end) end
    if shown < #self.rows then lines[#lines + 1] = ('... %d more'):format(#self.rows - shown) end
    for _, note in ipairs(self.notes) do lines[#lines + 1] = note end
    return lines
end

function Table:__tostring() return table.concat(self:lines(), '\n') end

-- The rows as a JSON list of objects, keys in the order of the columns.
function Table:json()
    local order = {}
    for c, column in ipairs(self.columns) do order[c] = column.key end
    return json.text(json.list(self.rows), order)
end

-- Several tables under each other, as one result: the fields of the first, and `tables`, the list of all.
local Several = {}
function Several.__tostring(self)
    local texts = {}
    for i, t in ipairs(self.tables) do texts[i] = tostring(t) end
    return table.concat(texts, '\n\n')
end
Several.__index = function(self, key) return Several[key] or rawget(self, 'tables')[1][key] end
function Several:json() return self.tables[1]:json() end

function tables.several(list, fields)
    local self = fields or {}
    self.tables = list
    return setmetatable(self, Several)
end

-- ---- formats that several tables share

-- 12345678 -> "12,345,678".
function tables.thousands(n)
    local text = ('%d'):format(n)
    local head, tail = text:match('^(%-?%d%d?%d?)(.*)$')
    while #tail % 3 ~= 0 do head, tail = text:sub(1, #head - 1), text:sub(#head) end
    return head .. tail:gsub('(%d%d%d)', ',%1')
end

-- Seconds as milliseconds with three figures that matter.
function tables.ms(seconds)
    local ms = seconds * 1e3
    return ms >= 100 and ('%.0f'):format(ms) or ms >= 10 and ('%.1f'):format(ms) or ms >= 1 and ('%.2f'):format(ms)
        or ('%.3f'):format(ms)
end

-- The same with a sign: how much later.
function tables.signed_ms(seconds) return (seconds < 0 and '-' or '+') .. tables.ms(math.abs(seconds)) end

-- The median of a list of numbers (the mean of the middle two); nil of an empty one.
function tables.median(list)
    local sorted, n = { unpack(list) }, #list
    table.sort(sorted)
    if n == 0 then return nil end
    return n % 2 == 1 and sorted[(n + 1) / 2] or (sorted[n / 2] + sorted[n / 2 + 1]) / 2
end

function tables.percent(x) return ('%.1f %%'):format(x * 100) end

-- Bytes with a unit of 1024s: "1.5 MiB".
function tables.bytes(n)
    for _, unit in ipairs { 'B', 'KiB', 'MiB', 'GiB' } do
        if n < 1024 or unit == 'GiB' then return (unit == 'B' and '%d %s' or '%.1f %s'):format(n, unit) end
        n = n / 1024
    end
end

-- "1:02:03", "2:03" or "0:03".
function tables.clock(seconds)
    local s = math.floor(seconds + 0.5)
    local h, m = math.floor(s / 3600), math.floor(s / 60) % 60
    return h > 0 and ('%d:%02d:%02d'):format(h, m, s % 60) or ('%d:%02d'):format(m, s % 60)
end

return tables
