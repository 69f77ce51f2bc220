-- units.lua - numbers with units in text: times (5us), rates (300GB/s, 100Gbit/s) and sizes (4MB). Decimal prefixes, and
-- binary ones with an i (4MiB). Before: what the command line says. After: costs.lua.
local units = {}

local TIMES = { s = 1, ms = 1e-3, us = 1e-6, ns = 1e-9 }
local PREFIXES = { [''] = 1, k = 1e3, M = 1e6, G = 1e9, T = 1e12, Ki = 2 ^ 10, Mi = 2 ^ 20, Gi = 2 ^ 30, Ti = 2 ^ 40 }
local BASES = { B = 1, bit = 1 / 8 }

-- The number that a text begins with (finite, from 0) and the rest; nil where it begins with none.
local function split(text)
    local mantissa, exponent, unit = text:match('^%s*(%d*%.?%d*)([eE][+-]?%d+)%s*(%a*/?%a*)%s*$')
    if not mantissa then
        mantissa, unit = text:match('^%s*(%d*%.?%d*)%s*(%a*/?%a*)%s*$')
    end
    local number = mantissa and tonumber(mantissa .. (exponent or ''))
    if not number or number == math.huge then return nil end
    return number, unit
end

local function size_of(unit)
    for base, bytes in pairs(BASES) do
        local factor = unit:sub(-#base) == base and PREFIXES[unit:sub(1, -#base - 1)]
        if factor then return factor * bytes end
    end
end

-- All three give the number in seconds, bytes a second or bytes, and whether the text has a unit; nil where it is none.
function units.time(text)
    local number, unit = split(text)
    if not number or unit == '' then return number, false end
    if TIMES[unit] then return number * TIMES[unit], true end
end

function units.rate(text)
    local number, unit = split(text)
    if not number or unit == '' then return number, false end
    local size = unit:sub(-2) == '/s' and size_of(unit:sub(1, -3))
    if size then return number * size, true end
end

function units.size(text)
    local number, unit = split(text)
    if not number or unit == '' then return number, false end
    local size = size_of(unit)
    if size then return number * size, true end
end

function units.number(text)
    local number, unit = split(text)
    if unit == '' then return number, false end
end

return units
