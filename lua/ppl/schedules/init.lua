-- schedules/init.lua - the built-in schedules by name, and finding a schedule by what a script says: a description, a
-- built-in's name, or the path of a .lua or .csv file.
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'
local schedule = require 'ppl.schedule'

local schedules = {}

-- name -> file of this folder
local BUILT_IN = {
    naive = 'naive', gpipe = 'gpipe', afab = 'gpipe', ['1f1b'] = '1f1b', ['zb-h1'] = 'zb-h1',
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
    local description = chunk()
    if not schedule.is(description) then
        fail('schedule %s: the file returns %s, want ppl.schedule { ... }', path, check.show(description))
    end
    return description
end
schedules.from_file = from_file

-- what: a description, name or path. Gives a description, or nil and the path of a CSV file.
function schedules.find(what)
    if schedule.is(what) then return what end
    if type(what) ~= 'string' then fail('schedule: is %s, want a name, a path or ppl.schedule { ... }', check.show(what)) end
    if BUILT_IN[what] then return require('ppl.schedules.' .. BUILT_IN[what]) end
    if what:match('%.csv$') then return nil, what end
    if what:match('%.lua$') then return from_file(what) end
    return fail('schedule %s: is unknown%s, want one of %s, or the path of a .lua or .csv file', what,
        nearest.hint(what, schedules.names()), table.concat(schedules.names(), ', '))
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
    local where = 'schedule ' .. description.name
    if stages % chunks ~= 0 then fail('%s: %d stages, want a multiple of its %d chunks', where, stages, chunks) end
    local ranks = stages / chunks
    if options.ranks and options.ranks ~= ranks then
        fail('%s: %d stages on %d ranks, want %d ranks (%d chunk%s each)', where, stages, options.ranks, ranks, chunks,
            chunks == 1 and '' or 's')
    end
    return schedule.compile(description, { ranks = ranks, microbatches = options.microbatches })
end

return schedules
