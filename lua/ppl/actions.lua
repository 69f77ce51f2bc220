-- actions.lua - collecting what a schedule's rank function says: each s.F(mb), s.B(mb), ... in order, within bounds that end
-- a script that would not end by itself. Before: schedule.lua. After: ppl_schedule_add.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'
local count = require 'ppl.count'

local lib = capi.lib
local actions = {}

-- What one rank's list may take: room for every mistake that a complete list of F, I and W can hold, and instructions for
-- a rank function that looks at all microbatches for each action.
local function action_limit(stages, microbatches) return 8 * stages * microbatches + 64 end
local function instruction_limit(stages, microbatches) return 2e7 + 20000 * stages * microbatches end

-- Calls f(...) within what `stages` stages' lists may take. want: what one that goes on should be. place (): what stands in
-- front of the words of an error that f itself raised, behind its line.
function actions.bounded(want, place, stages, microbatches, f, ...)
    lib.host_budget(instruction_limit(stages, microbatches))
    local ok, result = fail.try(f, ...)
    lib.host_budget(0)
    if ok then return result end
    local words = tostring(result)
    if words:find('all the instructions it may take', 1, true) then words = words .. ', want ' .. want end
    if type(result) ~= 'string' or words:find('stack traceback:', 1, true) then error(result, 0) end
    local where = place()
    if words:find(where, 1, true) then error(words, 0) end
    local line, rest = words:match('^(.-:%d+: )(.*)$')
    return error(('%s%s: %s'):format(line or '', where, rest or words), 0)
end

-- ---- the s of a rank function

local KINDS = { 'F', 'B', 'I', 'W' }
local WORDS = { 'F', 'B', 'I', 'W', 'overlap' }
local FIELDS = { 'ranks', 'rank', 'stages', 'chunks', 'microbatches', 'options', 'stage' }

-- A name that s lacks: of an action, unless it is close to a field's.
local function refuse_name(at, name)
    name = tostring(name)
    local all = {}
    for _, list in ipairs { WORDS, FIELDS } do
        for _, known in ipairs(list) do all[#all + 1] = known end
    end
    local found = nearest.find(name, all)
    for _, field in ipairs(FIELDS) do
        if found == field then
            fail("%s: s has no '%s' (nearest: %s), want one of %s", at, name, found, table.concat(FIELDS, ', '))
        end
    end
    local hint = #name > 1 and nearest.hint(name, WORDS) or ''
    if name:upper():match('^[FBIW]$') then hint = (' (nearest: %s)'):format(name:upper()) end
    if name == 'U' then hint = " (updates are the engine's)" end
    fail("%s: there is no action '%s'%s, want F, B, I, W or overlap", at, name, hint)
end

-- The s of a rank function, and the list that it fills with { kind, stage, microbatch, overlap }. watch (position): called
-- before an action is added.
local function recorder(where, shape, rank, own, watch)
    local list, pairs_made, m = {}, 0, shape.microbatches
    local limit = action_limit(#own, m)
    local s = { ranks = shape.ranks, rank = rank, stages = shape.stages, chunks = #own, microbatches = m, options = shape.options }
    local function place() return ('%s, rank %d, position %d'):format(where, rank, #list) end
    -- Fails where an action is none; called only then, since a list may have a million of them.
    local function refuse(kind, microbatch, chunk)
        local at = ('%s: %s'):format(place(), kind)
        if microbatch == s then fail('%s: is called with a colon, want a dot: s.%s(5)', at, kind) end
        check.integer(at .. ': the microbatch', microbatch, 0, m - 1)
        check.integer(at .. ': the chunk', chunk, 0, #own - 1)
        fail('%s: has more than %d actions and goes on, want the actions of %s and %s: does it end?',
            place(), limit, count(#own, 'stage'), count(m, 'microbatch'))
    end
    local function add(kind, microbatch, chunk)
        if watch then watch(#list) end
        chunk = chunk == nil and 0 or chunk
        if type(microbatch) ~= 'number' or microbatch % 1 ~= 0 or microbatch < 0 or microbatch >= m or type(chunk) ~= 'number'
            or not own[chunk + 1] or #list >= limit then
            refuse(kind, microbatch, chunk)
        end
        list[#list + 1] = { kind = kind, stage = own[chunk + 1], microbatch = microbatch, overlap = 0 }
        return #list
    end
    for _, kind in ipairs(KINDS) do
        s[kind] = function(microbatch, chunk) return add(kind, microbatch, chunk) end
    end
    -- s.overlap(s.F(5), s.B(1)): the two may run at once.
    function s.overlap(a, b)
        if b ~= #list or a ~= b - 1 then
            fail('%s: overlap joins actions %s and %s, want the last two: s.overlap(s.F(5), s.B(1))', place(), tostring(a), tostring(b))
        end
        pairs_made = pairs_made + 1
        list[a].overlap, list[b].overlap = pairs_made, pairs_made
    end
    -- The stage of a chunk of this rank.
    function s.stage(chunk) return own[check.integer(place() .. ': s.stage: the chunk', chunk, 0, #own - 1, 0) + 1] end
    setmetatable(s, { __index = function(_, name) return refuse_name(place(), name) end })
    return s, list, place
end

-- The actions of a rank that owns the stages `own`. shape: { ranks, stages, microbatches, options }.
function actions.of_rank(where, rank_function, shape, rank, own)
    local s, list, place = recorder(where, shape, rank, own)
    actions.bounded('a rank function that ends', place, #own, shape.microbatches, rank_function, s)
    return list
end

-- "mine.lua:12", the line from which the action at a position comes: the rank function is run once more up to there. nil
-- where it is not reached again, or the line is the library's own. shape, own: as for of_rank.
function actions.line(rank_function, shape, rank, own, at)
    local found
    local s = recorder('', shape, rank, own, function(position)
        if position == at then found = fail.line() end
    end)
    lib.host_budget(instruction_limit(#own, shape.microbatches))
    pcall(rank_function, s)
    lib.host_budget(0)
    return found
end

return actions
