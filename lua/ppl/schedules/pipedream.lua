-- pipedream.lua - PipeDream: Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training", SOSP 2019.
-- 1F1B's order with an update after every backward. A backward uses the weights that its forward used, of which rank r keeps
-- p - r versions.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'pipedream',
    paper = 'Narayanan et al. 2019, SOSP',
    doc = 'asynchronous 1F1B: an update after every microbatch, with the weights of each microbatch\'s forward kept for its backward',
    weights = 'stash',
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
