-- placement.lua - which rank owns which stage.
local check = require 'ppl.check'
local fail = require 'ppl.fail'

local placement = {}

local named = {
    -- Stage s on rank s % ranks: chunk after chunk in the same direction.
    loop = function(stage, ranks) return stage % ranks end,
    -- Chunks alternate in direction: the rank of the last stage of a chunk has the first of the next.
    v = function(stage, ranks)
        local chunk, at = math.floor(stage / ranks), stage % ranks
        return chunk % 2 == 0 and at or ranks - 1 - at
    end,
}

-- A name or a function (stage, ranks, stages) -> rank, as a function; nil is 'loop'.
function placement.check(where, value)
    if type(value) == 'function' then return value end
    return named[check.name(where .. ': placement', value, named, 'loop')]
end

-- The rank of each stage (list from stage 0); every rank owns one at least.
function placement.ranks(where, place, ranks, stages)
    local list, owns = {}, {}
    for stage = 0, stages - 1 do
        local rank = check.integer(('%s: placement of stage %d'):format(where, stage), place(stage, ranks, stages), 0, ranks - 1)
        list[stage + 1] = rank
        owns[rank] = true
    end
    for rank = 0, ranks - 1 do
        if not owns[rank] then fail('%s: placement gives rank %d no stage, want one at least', where, rank) end
    end
    return list
end

-- The stages of a rank, ascending: chunk k is the k-th.
function placement.own(stage_rank, rank)
    local own = {}
    for i, r in ipairs(stage_rank) do
        if r == rank then own[#own + 1] = i - 1 end
    end
    return own
end

return placement
