-- pipedream-2bw.lua - PipeDream-2BW: Narayanan et al. 2021, "Memory-Efficient Pipeline-Parallel DNN Training", arXiv
-- 2006.09503. 1F1B's order with an update after every m microbatches and two versions of the weights: what is in flight
-- finishes with the old one, W(t+1) = W(t) - lr g(W(t-1)).
local ppl = require 'ppl'

return ppl.schedule {
    name = 'pipedream-2bw',
    paper = 'Narayanan et al. 2021, arXiv 2006.09503',
    doc = 'asynchronous 1F1B: an update after every m microbatches, with two versions of the weights',
    weights = '2bw',
    least_microbatches = function(p) return p end,
    rank = function(s)
        local warmup = s.ranks - s.rank - 1
        for mb = 0, warmup - 1 do s.F(mb) end
        for mb = warmup, s.microbatches - 1 do
            s.F(mb)
            s.B(mb - warmup)
        end
        for mb = s.microbatches - warmup, s.microbatches - 1 do s.B(mb) end
    end,
    bubble = function(p, _, c) return (p - 1) * (c.f + c.i + c.w) end,
    memory = function(p, _, rank) return p - rank end,
    max_live = function(p) return p end,
}
