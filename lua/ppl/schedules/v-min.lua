-- v-min.lua - V-Min: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362. As v-half.lua, with a
-- block that is as short as it can be: a third of 1F1B's activations.
local ppl = require 'ppl'

-- When the block has a pass, in units of F = I = W: each pass moves on a rank in 1 unit.
local function block(p, rank)
    local turn = p % 3 == 0 and 2 or 0 -- keeps passes of a rank from falling on one another
    return { F0 = rank, F1 = 2 * p - rank - 1, I1 = 2 * p + turn + rank, I0 = 4 * p + turn - rank - 1 }
end

return ppl.schedule.greedy {
    name = 'v-min',
    paper = 'Qi et al. 2024, arXiv 2405.15362',
    doc = 'a third of 1F1B\'s activations and at most two thirds of its bubble with equal F, I and W, for twice the messages',
    chunks = 2,
    placement = 'v',
    priority = function(a)
        if a.kind == 'W' then return -math.huge end -- fills, or makes room
        return -(block(a.ranks, a.rank)[a.kind .. a.chunk] + 6 * a.microbatch)
    end,
    keep_room = true,
    memory = function(p, m) return 2 * math.min(m, math.floor((p + 4) / 3)) end,
    -- 1F1B's is (p - 1) 6 F with a rank of two such stages.
    bubble = function(p, m, c) -- held against simulations up to p = 16
        if p > 16 or m < 2 * p or c.f ~= c.i or c.i ~= c.w then return nil end
        return (p - 1) * 4 * c.f, 'at most'
    end,
}
