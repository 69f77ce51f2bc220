-- zb-h2.lua - ZB-H2: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241. ZB-H1 with the warm-up of a rank
-- doubled: forwards fill the wait for the first backward, weight gradients the wait for the last ones.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'zb-h2',
    paper = 'Qi et al. 2024, arXiv 2401.10241',
    doc = 'no idle time between a rank\'s first and last action with equal F, I and W, for up to 2p - 1 activations',
    rank = function(s)
        local m, warmup = s.microbatches, math.min(2 * (s.ranks - s.rank - 1), s.microbatches)
        local w = 0
        for mb = 0, warmup - 1 do s.F(mb) end
        for mb = 0, m - 1 do -- I of mb: beside a forward while there are any
            if mb + warmup < m then s.F(mb + warmup) end
            s.I(mb)
            -- In the cool-down a W fills each wait for the next I.
            if mb - w >= 2 * s.rank or mb + warmup >= m then
                s.W(w)
                w = w + 1
            end
        end
        for mb = w, m - 1 do s.W(mb) end
    end,
    bubble = function(p, m, c)
        if m < 2 * p - 1 or c.f ~= c.i or c.i ~= c.w then return nil end
        return (p - 1) * c.f
    end,
    span = function(p, m, c)
        if m < 2 * p - 1 then return nil end
        return math.max(0, (p - 1) * (c.f + c.i - 2 * c.w))
    end,
    memory = function(p, m) return math.min(m, 2 * p - 1) end,
    max_live = function(p, m) return math.min(m, 2 * p - 1) end,
}
