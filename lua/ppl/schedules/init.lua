-- schedules/init.lua - the built-in schedules by name, and finding a schedule by what a script says: a description, a
-- built-in's name, or the path of a .lua or .csv file; with options behind a colon, or as a table.
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'
local schedule = require 'ppl.schedule'
local count = require 'ppl.count'

local schedules = {}

-- name -> file of this folder
local BUILT_IN = {
    naive = 'naive', gpipe = 'gpipe', afab = 'gpipe', ['1f1b'] = '1f1b', ['eager-1f1b'] = 'eager-1f1b',
    interleaved = 'interleaved', ['looped-bfs'] = 'looped-bfs', ['zb-h1'] = 'zb-h1', ['zb-h2'] = 'zb-h2', ['zb-v'] = 'zb-v',
    ['v-half'] = 'v-half', ['v-min'] = 'v-min', ['dualpipe-v'] = 'dualpipe-v', hanayo = 'hanayo', pipedream = 'pipedream',
    ['pipedream-2bw'] = 'pipedream-2bw',
}

function schedules.names() return nearest.keys(BUILT_IN) end

-- The description that a Lua file returns.
local function from_file(path)
    local chunk, words = loadfile(path)
    if not chunk then
        local file = io.open(path, 'rb')
        if file then file:close() end
        fail('%s', file and words or ('schedule %s: no such file, want one that can be read'):format(path))
    end
    local ok, description = fail.try(chunk)
    if not ok then error(description, 0) end
    if not schedule.is(description) then
        fail('schedule %s: the file returns %s, want ppl.schedule { ... }', path, check.show(description))
    end
    return description
end
schedules.from_file = from_file

-- 'interleaved:chunks=3' -> 'interleaved', { chunks = 3 }; a text without options as it is, nil.
function schedules.parse(text)
    local name, rest = text:match('^(.-):%s*([%w_-]+%s*=.*)$')
    if not name then
        local front, behind = text:match('^(.-):(.*)$')
        if front and (BUILT_IN[front] or front:match('%.lua$') or front:match('%.csv$')) then
            fail('schedule %s: %s is no option, want name=number', front, check.show(behind))
        end
        return text, nil
    end
    local values = {}
    for entry in (rest .. ','):gmatch('(.-),') do
        local key, value = entry:match('^%s*([%w_-]+)%s*=%s*(%-?%d+)%s*$')
        if not key then fail('schedule %s: %s is no option, want name=number', name, check.show(entry)) end
        if values[key] then fail('schedule %s: option %s stands twice', name, key) end
        values[key] = tonumber(value)
    end
    return name, values
end

-- A name, or the path of a Lua file.
local function named(name)
    if BUILT_IN[name] then return require('ppl.schedules.' .. BUILT_IN[name]) end
    if name:match('%.lua$') then return from_file(name) end
    return fail('schedule %s: is unknown%s, want one of %s, or the path of a .lua or .csv file', name,
        nearest.hint(name, schedules.names()), table.concat(schedules.names(), ', '))
end

-- what: a description, name or path, the latter two with options ('hanayo:waves=2', { name = 'hanayo', waves = 2 }). Gives a
-- description, or nil and the path of a CSV file.
function schedules.find(what)
    if schedule.is(what) then return what end
    local name, values = what, nil
    if type(what) == 'string' then
        name, values = schedules.parse(what)
    elseif type(what) == 'table' and type(what.name) == 'string' then
        name, values = what.name, {}
        for key, value in pairs(what) do
            if key ~= 'name' then values[key] = value end
        end
    else
        fail('schedule: is %s, want a name, a path, { name = ... } or ppl.schedule { ... }', check.show(what))
    end
    if name:match('%.csv$') then
        if values and next(values) then fail('schedule %s: option %s: a CSV file takes none', name, next(values)) end
        return nil, name
    end
    local description = named(name)
    return values and schedule.configure(description, values) or description
end

-- Which weights a schedule goes by: 'sync', 'stash' or '2bw'.
function schedules.weights(what)
    local description = schedules.find(what)
    return description and description.weights or 'sync'
end

-- The checked schedule for so many stages (ranks = stages / chunks) and microbatches. options: stages, ranks (optional:
-- must fit), microbatches.
function schedules.compile(what, options)
    local description, path = schedules.find(what)
    if path then
        local read = schedule.read(path)
        for _, field in ipairs { 'stages', 'ranks', 'microbatches' } do
            if options[field] and options[field] ~= read[field] then
                fail('schedule %s: is for %d %s, want %d', path, read[field], field, options[field])
            end
        end
        return read
    end
    local chunks = description.chunks
    local stages = options.stages or (options.ranks or 1) * chunks
    local where = 'schedule ' .. description:label()
    if stages % chunks ~= 0 then fail('%s: %d stages, want a multiple of its %d chunks', where, stages, chunks) end
    local ranks = stages / chunks
    if options.ranks and options.ranks ~= ranks then
        fail('%s: %d stages on %d ranks, want %d ranks (%s each)', where, stages, options.ranks, ranks,
            count(chunks, 'chunk'))
    end
    return schedule.compile(description, { ranks = ranks, microbatches = options.microbatches })
end

return schedules
