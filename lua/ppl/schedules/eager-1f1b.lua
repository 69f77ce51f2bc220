-- eager-1f1b.lua - 1F1B with twice the warm-up: Zhuang et al. 2022, "On Optimizing the Communication of Model Parallelism",
-- arXiv 2211.05322. A rank has its next input before it needs it, so that sending activations costs no time.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'eager-1f1b',
    paper = 'Zhuang et al. 2022, arXiv 2211.05322',
    doc = '1F1B that runs forwards early: slow links hide behind computing, for up to 2p - 1 activations',
    rank = function(s)
        local warmup = math.min(2 * (s.ranks - s.rank - 1), s.microbatches)
        for mb = 0, warmup - 1 do s.F(mb) end
        for mb = warmup, s.microbatches - 1 do
            s.F(mb)
            s.B(mb - warmup)
        end
        for mb = s.microbatches - warmup, s.microbatches - 1 do s.B(mb) end
    end,
    bubble = function(p, _, c) return (p - 1) * (c.f + c.i + c.w) end,
    memory = function(p, m, rank) return math.min(m, 2 * (p - rank) - 1) end,
    max_live = function(p, m) return math.min(m, 2 * p - 1) end,
}
