-- check.lua - the helpers that hold a function's options against what it knows. Every message says where, what is, and
-- what is wanted.
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'

local check = {}

-- A value as messages show it: texts quoted, what has no words of its own by its type alone.
local function show(value)
    local kind = type(value)
    if kind == 'string' then return ('%q'):format(value) end
    if (kind == 'table' or kind == 'function') and not (getmetatable(value) or {}).__tostring then return 'a ' .. kind end
    return tostring(value)
end
check.show = show

-- Refuses keys of `options` that `known` (a set or a table of defaults) lacks.
function check.keys(where, options, known)
    if type(options) ~= 'table' then fail('%s: got a %s, want a table of options', where, type(options)) end
    for key in pairs(options) do
        if known[key] == nil then
            fail('%s: unknown option %s%s', where, show(key), nearest.hint(tostring(key), nearest.keys(known)))
        end
    end
end

function check.set(...)
    local set = {}
    for _, name in ipairs { ... } do set[name] = true end
    return set
end

local LARGEST = 2 ^ 31 - 1 -- what the engine's int32_t holds

-- A whole number within low .. high (nil: 2^31 - 1 on either side); default where value is nil.
function check.integer(where, value, low, high, default)
    if value == nil then value = default end
    if type(value) ~= 'number' or value % 1 ~= 0 or value < (low or -LARGEST) or value > (high or LARGEST) then
        local large = type(value) == 'number' and value > LARGEST
        if high and high == (low or 0) then fail('%s: is %s, want %d', where, show(value), high) end
        local range = (high or large) and ('%d to %d'):format(low or 0, high or LARGEST) or low and ('%d or more'):format(low) or ''
        fail('%s: is %s, want a whole number%s', where, show(value), range ~= '' and ' of ' .. range or '')
    end
    return value
end

-- A finite number within low .. high (either may be nil).
function check.number(where, value, low, high, default)
    if value == nil then value = default end
    if type(value) ~= 'number' or value - value ~= 0 or (low and value < low) or (high and value > high) then
        local range = low and high and (' of %g to %g'):format(low, high) or low and (' of %g or more'):format(low) or ''
        fail('%s: is %s, want a number%s', where, show(value), range)
    end
    return value
end

function check.boolean(where, value, default)
    if value == nil then value = default end
    if type(value) ~= 'boolean' then fail('%s: is %s, want true or false', where, show(value)) end
    return value
end

function check.text(where, value, default)
    if value == nil then value = default end
    if type(value) ~= 'string' then fail('%s: is %s, want a text', where, show(value)) end
    return value
end

function check.table(where, value, default)
    if value == nil then value = default end
    if type(value) ~= 'table' then fail('%s: is %s, want a table', where, show(value)) end
    return value
end

-- One of the names in the list or set `known`.
function check.name(where, value, known, default)
    if value == nil then value = default end
    local names = known[1] and known or nearest.keys(known)
    for _, name in ipairs(names) do
        if name == value then return value end
    end
    fail('%s: is %s%s, want one of %s', where, show(value),
        type(value) == 'string' and nearest.hint(value, names) or '', table.concat(names, ', '))
end

-- A seed: what a double holds exactly.
function check.seed(where, value, default) return check.integer(where, value, 0, 2 ^ 53, default) end

return check
