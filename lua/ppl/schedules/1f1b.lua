-- 1f1b.lua - one forward, one backward: Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training" (PipeDream-
-- Flush), arXiv 2006.09503. GPipe's idle time with min(m, p - r) live activations.
local ppl = require 'ppl'

return ppl.schedule {
    name = '1f1b',
    paper = 'Narayanan et al. 2021, arXiv 2006.09503',
    doc = 'one forward, one backward in turn after a warm-up: GPipe\'s bubble with at most p activations',
    rank = function(s)
        local warmup = math.min(s.ranks - s.rank - 1, s.microbatches)
        for mb = 0, warmup - 1 do s.F(mb) end
        for mb = warmup, s.microbatches - 1 do
            s.F(mb)
            s.B(mb - warmup)
        end
        for mb = s.microbatches - warmup, s.microbatches - 1 do s.B(mb) end
    end,
    bubble = function(p, _, c) return (p - 1) * (c.f + c.i + c.w) end,
    memory = function(p, m, rank) return math.min(m, p - rank) end,
    max_live = function(p, m) return math.min(m, p) end,
}
