-- naive.lua - one microbatch at a time through all stages and back: what there is before pipelining.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'naive',
    doc = 'each microbatch goes forward and back before the next one starts',
    rank = function(s)
        for mb = 0, s.microbatches - 1 do
            s.F(mb)
            s.B(mb)
        end
    end,
    -- All other ranks' turns with every microbatch.
    bubble = function(p, m, c) return (p - 1) * m * (c.f + c.i + c.w) end,
    memory = function() return 1 end,
    max_live = 1,
}
