-- hanayo.lua - Hanayo: Liu et al. 2023, "Hanayo: Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model Training
-- Efficiency", SC23, arXiv 2308.15762. The stages go down the ranks and up again, wave after wave, so that the turn from one
-- rank to itself costs no message.
--
-- The paper draws the waves of p microbatches. Here they are the priorities of a list scheduler with room for p microbatches,
-- for any number of them: a microbatch comes every 3 units of a rank's stages, its forward moves on a stage in 1 unit, its
-- backward, which comes when the forward could have been 3 times as long, in 3.
local ppl = require 'ppl'

return ppl.schedule.greedy {
    name = 'hanayo',
    paper = 'Liu et al. 2023, arXiv 2308.15762',
    doc = 'waves of stages over the ranks: at most 1F1B\'s bubble with equal F, I and W, at its memory',
    options = { waves = 1 },
    chunks = function(o) return 2 * o.waves end,
    placement = 'v',
    backward = 'whole',
    priority = function(a)
        local start, n = 3 * a.options.chunks * a.microbatch, a.stages
        return -(start + (a.kind == 'F' and a.stage or 3 * n + 3 * (n - a.stage)))
    end,
    keep_room = true,
    memory = function(p, m, _, o) return o.chunks * math.min(p, m) end,
    bubble = function(p, m, c, o) -- held against simulations up to p = 16
        if p > 16 or m < p or c.f ~= c.i or c.i ~= c.w then return nil end
        return (p - 1) * o.chunks * 3 * c.f, 'at most'
    end,
}
