-- dropout.lua - zeroes elements at random while training.
local check = require 'ppl.check'
local layer = require 'ppl.nn.layer'

local function forward(self, x) return x:dropout(self.p) end

-- nn.dropout(p): each element is 0 with probability p, the others are scaled by 1 / (1 - p). The mask depends on the run's
-- seed, the node's name, the step and the sample alone.
local function dropout(p)
    return layer.new { name = 'dropout', weight = 0, forward = forward, p = check.number('nn.dropout: p', p, 0, 1) }
end

return { dropout = dropout }
