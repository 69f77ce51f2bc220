-- gpipe.lua - all forwards, then all backwards (AFAB): Huang et al. 2019, "GPipe", arXiv 1811.06965.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'gpipe',
    paper = 'Huang et al. 2019, arXiv 1811.06965',
    doc = 'all forwards, then all backwards; keeps every microbatch\'s activations',
    rank = function(s)
        for mb = 0, s.microbatches - 1 do s.F(mb) end
        for mb = 0, s.microbatches - 1 do s.B(mb) end
    end,
    bubble = function(p, _, c) return (p - 1) * (c.f + c.i + c.w) end,
    memory = function(_, m) return m end,
}
