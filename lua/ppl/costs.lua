-- costs.lua - what a stage's F, I and W take: for the simulator and the emulated device. From text (F=1,I=1,W=1), a table, a
-- run's costs.json or a run's measurements.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'

local costs = {}

-- One number for all stages or a list of one a stage, as a list.
local function per_stage(where, value, stages, default)
    if value == nil then value = default end
    if type(value) == 'table' and #value ~= stages then fail('%s: has %d costs, want %d, one a stage', where, #value, stages) end
    local list = {}
    for stage = 1, stages do
        list[stage] = check.number(('%s of stage %d'):format(where, stage - 1), type(value) == 'table' and value[stage] or value, 0)
    end
    return list
end

-- { f, i, w: number or list by stage; latency, update; barrier: updates wait for every rank's norm } with defaults 1, 1, 1,
-- 0, 0, false.
function costs.check(where, value, stages)
    check.keys(where, value, check.set('f', 'i', 'w', 'latency', 'update', 'barrier'))
    return {
        f = per_stage(where .. ': f', value.f, stages, 1), i = per_stage(where .. ': i', value.i, stages, 1),
        w = per_stage(where .. ': w', value.w, stages, 1),
        latency = check.number(where .. ': latency', value.latency, 0, nil, 0),
        update = check.number(where .. ': update', value.update, 0, nil, 0),
        barrier = check.boolean(where .. ': barrier', value.barrier, false),
    }
end

-- "1" as a number, "1:2:1:1" as a list of one a stage; nil where it is neither.
local function numbers(text)
    local list = {}
    for part in (text .. ':'):gmatch('([^:]*):') do
        local number = part:match('^%s*[%d.eE+-]+%s*$') and tonumber(part)
        if not number or number < 0 or number == math.huge then return nil end
        list[#list + 1] = number
    end
    return #list == 1 and list[1] or list
end

local function half(value)
    if type(value) == 'number' then return value / 2 end
    local list = {}
    for i, number in ipairs(value) do list[i] = number / 2 end
    return list
end

-- "F=1,I=1:2:1:1,W=1,latency=0.1,update=0" as a table for costs.check: one number for all stages or one a stage; B=2 stands
-- for I and W in equal parts. option: what errors call it. known: set of the names that it may hold. Raises wrong usage.
local function entries(option, text, known, want)
    local value = {}
    for entry in text:gmatch('[^,]+') do
        local name, rest = entry:match('^%s*(%a+)%s*=(.*)$')
        local number, key = rest and numbers(rest), name and name:lower()
        if not number then fail.usage('%s: %s is no cost, want %s', option, entry, want) end
        if not known[key] then fail.usage('%s: %s is unknown, want %s', option, name, want) end
        if type(number) == 'table' and (key == 'latency' or key == 'update') then
            fail.usage('%s: %s has a value a stage, want one number', option, name)
        end
        if key == 'b' then
            value.i, value.w = half(number), half(number)
        else
            value[key] = number
        end
    end
    return value
end

local COSTS = check.set('f', 'i', 'w', 'b', 'latency', 'update')

-- The table of such a text, for costs.check, which then knows the stages. usage: raises wrong usage.
function costs.read_text(text)
    return entries('--costs', text, COSTS, 'F=1,I=1,W=1[,B=2][,latency=0][,update=0], one value or one a stage as in F=1:2:1:1, ' ..
        'or a costs.json')
end

function costs.parse(text, stages) return costs.check('--costs', costs.read_text(text), stages) end

-- "latency=0.1" of --link: the latency.
function costs.link(text)
    local value = entries('--link', text, check.set('latency'), 'latency=0.1')
    return value.latency or fail.usage('--link: has no latency, want latency=0.1')
end

-- The table of a file that a run wrote (costs.json), for costs.check.
function costs.read_file(path)
    local root = require 'ppl.yaml'.open(path)
    local value = require 'ppl.yaml'.value(root)
    if type(value) ~= 'table' or type(value.stages) ~= 'table' then fail('%s: has no stages, want the costs.json of a run', path) end
    local result = { f = {}, i = {}, w = {}, latency = value.latency, update = value.update }
    for s, stage in ipairs(value.stages) do
        for _, key in ipairs { 'f', 'i', 'w' } do result[key][s] = stage[key] end
    end
    return result
end

function costs.read(path, stages) return costs.check(path, costs.read_file(path), stages) end

-- A ppl_costs, and what keeps its arrays alive.
function costs.to_engine(value)
    local raw = capi.new('ppl_costs')
    local keep = { capi.array('double', value.f), capi.array('double', value.i), capi.array('double', value.w) }
    raw.f, raw.i, raw.w, raw.latency, raw.update = keep[1], keep[2], keep[3], value.latency, value.update
    raw.barrier = value.barrier and 1 or 0
    return raw, keep
end

-- The mean over the stages: { f, i, w } of a stage, for formulas.
function costs.mean(value)
    local result = {}
    for _, key in ipairs { 'f', 'i', 'w' } do
        local sum = 0
        for _, cost in ipairs(value[key]) do sum = sum + cost end
        result[key] = sum / #value[key]
    end
    return result
end

-- The same costs with their mean for every stage.
function costs.equal(value)
    local mean, result = costs.mean(value), {}
    for key, cost in pairs(value) do result[key] = cost end
    for _, key in ipairs { 'f', 'i', 'w' } do
        result[key] = {}
        for stage = 1, #value[key] do result[key][stage] = mean[key] end
    end
    return result
end

return costs
