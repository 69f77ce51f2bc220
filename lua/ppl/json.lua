-- json.lua - Lua values as JSON text. Tables with a first element (or marked by json.list) are lists; keys are written in
-- order, those of `order` first.
local json = {}

local List = {}

-- Marks a table as a list, so that an empty one is written as [].
function json.list(t) return setmetatable(t or {}, List) end

local escapes = { ['"'] = '\\"', ['\\'] = '\\\\', ['\n'] = '\\n', ['\r'] = '\\r', ['\t'] = '\\t' }

local function quote(text)
    return '"' .. text:gsub('[%z\1-\31"\\\127]', function(c) return escapes[c] or ('\\u%04x'):format(c:byte()) end) .. '"'
end

-- The shortest text that reads back as x; null where JSON has no word for it.
function json.number(x)
    if x ~= x or x == math.huge or x == -math.huge then return 'null' end
    if x % 1 == 0 and math.abs(x) < 2 ^ 53 then return ('%d'):format(x) end
    for digits = 15, 16 do
        local short = ('%.' .. digits .. 'g'):format(x)
        if tonumber(short) == x then return short end
    end
    return ('%.17g'):format(x)
end

local function sorted_keys(t, order)
    local keys, placed = {}, {}
    for _, key in ipairs(order or {}) do
        if t[key] ~= nil then
            keys[#keys + 1] = key
            placed[key] = true
        end
    end
    local rest = {}
    for key in pairs(t) do
        if not placed[key] then rest[#rest + 1] = key end
    end
    table.sort(rest, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(rest) do keys[#keys + 1] = key end
    return keys
end

-- order: keys that come first in every object that has them.
function json.text(value, order)
    local kind = type(value)
    if kind == 'nil' then return 'null' end
    if kind == 'boolean' then return tostring(value) end
    if kind == 'number' then return json.number(value) end
    if kind == 'string' then return quote(value) end
    if kind ~= 'table' then return quote(tostring(value)) end
    local parts = {}
    if value[1] ~= nil or getmetatable(value) == List then
        for i, item in ipairs(value) do parts[i] = json.text(item, order) end
        return '[' .. table.concat(parts, ', ') .. ']'
    end
    for i, key in ipairs(sorted_keys(value, order)) do
        parts[i] = quote(tostring(key)) .. ': ' .. json.text(value[key], order)
    end
    return '{' .. table.concat(parts, ', ') .. '}'
end

return json
