-- v-half.lua - V-Half: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362. Half of 1F1B's
-- activations: in a V, where one chunk's activations live long on a rank the other's live short.
--
-- The paper repeats a building block, the passes of one microbatch with fixed distances between the ranks, every 6 units, and
-- squeezes what comes out. Here the block's times are the priorities of a list scheduler with the block's memory.
local ppl = require 'ppl'

-- When the block has a pass, in units of F = I = W: a forward moves on a rank in 2 units on the way down the V and in 1 on
-- the way up, a backward likewise.
local function block(p, rank)
    local turn = p % 2 == 0 and 3 or 0 -- keeps passes of a rank from falling on one another
    return { F0 = 2 * rank, F1 = 3 * p - rank - 2, I1 = 3 * p + turn + 2 * rank - 1, I0 = 6 * p + turn - rank - 2 }
end

return ppl.schedule.greedy {
    name = 'v-half',
    paper = 'Qi et al. 2024, arXiv 2405.15362',
    doc = 'half of 1F1B\'s activations and at most half of its bubble with equal F, I and W, for twice the messages',
    chunks = 2,
    placement = 'v',
    priority = function(a)
        if a.kind == 'W' then return -math.huge end -- fills, or makes room
        return -(block(a.ranks, a.rank)[a.kind .. a.chunk] + 6 * a.microbatch)
    end,
    keep_room = true,
    memory = function(p, m) return 2 * math.min(m, math.floor((p + 2) / 2)) end,
    -- 1F1B's is (p - 1) 6 F with a rank of two such stages.
    bubble = function(p, m, c) -- held against simulations up to p = 16
        if p > 16 or m < 2 * p or c.f ~= c.i or c.i ~= c.w then return nil end
        return (p - 1) * 3 * c.f, 'at most'
    end,
}
