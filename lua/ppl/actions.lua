-- actions.lua - collecting what a schedule's rank function says: each s.F(mb), s.B(mb), ... in order, within bounds that end
-- a script that would not end by itself. Before: schedule.lua. After: ppl_schedule_add.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'

local lib = capi.lib
local actions = {}

-- What one rank's list may take: room for every mistake that a complete list of F, I and W can hold, and instructions for
-- a rank function that looks at all microbatches for each action.
local function action_limit(stages, microbatches) return 8 * stages * microbatches + 64 end
local function instruction_limit(stages, microbatches) return 2e7 + 20000 * stages * microbatches end

-- Calls f(...) within what `stages` stages' lists may take; goes_on: the words for a function that did not end.
function actions.bounded(goes_on, stages, microbatches, f, ...)
    lib.host_budget(instruction_limit(stages, microbatches))
    local ok, result = pcall(f, ...)
    lib.host_budget(0)
    if ok then return result end
    if tostring(result):find('all the instructions it may take', 1, true) then fail('%s', goes_on(tostring(result))) end
    return error(result, 0)
end

-- The s of a rank function, and the list that it fills with { kind, stage, microbatch, overlap }.
local function recorder(where, shape, rank, own)
    local list, pairs_made, m = {}, 0, shape.microbatches
    local limit = action_limit(#own, m)
    local s = { ranks = shape.ranks, rank = rank, stages = shape.stages, chunks = #own, microbatches = m, options = shape.options }
    local function add(kind, microbatch, chunk)
        chunk = chunk == nil and 0 or chunk
        local at = ('%s, rank %d, position %d: %s'):format(where, rank, #list, kind)
        check.integer(at .. ': the microbatch', microbatch)
        check.integer(at .. ': the chunk', chunk, 0, #own - 1)
        if microbatch < 0 or microbatch >= m then fail('%s of microbatch %d, want 0 to %d', at, microbatch, m - 1) end
        if #list >= limit then
            fail('%s, rank %d: has more than %d actions and goes on, want the actions of %d stage%s and %d microbatches: does it end?',
                where, rank, limit, #own, #own == 1 and '' or 's', m)
        end
        list[#list + 1] = { kind = kind, stage = own[chunk + 1], microbatch = microbatch, overlap = 0 }
        return #list
    end
    for _, kind in ipairs { 'F', 'B', 'I', 'W' } do
        s[kind] = function(microbatch, chunk) return add(kind, microbatch, chunk) end
    end
    -- s.overlap(s.F(5), s.B(1)): the two may run at once.
    function s.overlap(a, b)
        if b ~= #list or a ~= b - 1 then
            fail('%s, rank %d: overlap joins actions %s and %s, want the last two: s.overlap(s.F(5), s.B(1))', where, rank,
                tostring(a), tostring(b))
        end
        pairs_made = pairs_made + 1
        list[a].overlap, list[b].overlap = pairs_made, pairs_made
    end
    -- The stage of a chunk of this rank.
    function s.stage(chunk) return own[(chunk or 0) + 1] end
    return s, list
end

-- The actions of a rank that owns the stages `own`. shape: { ranks, stages, microbatches, options }.
function actions.of_rank(where, rank_function, shape, rank, own)
    local s, list = recorder(where, shape, rank, own)
    actions.bounded(function(words)
        return ('%s, rank %d: %s; want a rank function that ends (it gave %d actions)'):format(where, rank, words, #list)
    end, #own, shape.microbatches, rank_function, s)
    return list
end

return actions
