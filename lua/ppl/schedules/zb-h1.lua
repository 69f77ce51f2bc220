-- zb-h1.lua - ZB-H1: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241. 1F1B whose weight gradients wait
-- until a rank would idle: rank r's W is r microbatches behind its I, so that every rank holds at most p activations.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'zb-h1',
    paper = 'Qi et al. 2024, arXiv 2401.10241',
    doc = '1F1B with weight gradients moved into the bubble: a third of its idle time at its memory, with equal F, I and W',
    rank = function(s)
        local m, warmup = s.microbatches, math.min(s.ranks - s.rank - 1, s.microbatches)
        local w = 0
        for mb = 0, warmup - 1 do s.F(mb) end
        for mb = 0, m - 1 do -- I of mb: beside a forward while there are any
            if mb + warmup < m then s.F(mb + warmup) end
            s.I(mb)
            -- In the cool-down a W fills each wait for the next I.
            if mb - w >= s.rank or mb + warmup >= m then
                s.W(w)
                w = w + 1
            end
        end
        for mb = w, m - 1 do s.W(mb) end
    end,
    -- Holds for w <= i and m >= p.
    bubble = function(p, m, c)
        if m < p or c.w > c.i then return nil end
        return (p - 1) * (c.f + c.i - c.w)
    end,
    memory = function(p, m) return math.min(p, m) end,
    max_live = function(p, m) return math.min(p, m) end,
}
