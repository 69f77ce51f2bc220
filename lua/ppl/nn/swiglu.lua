-- swiglu.lua - down(silu(gate(x)) * up(x)), the feed-forward of Llama (Shazeer 2020, "GLU Variants Improve Transformer").
local check = require 'ppl.check'
local layer = require 'ppl.nn.layer'
local linear = require 'ppl.nn.linear'.linear

local keys = check.set('name', 'dim', 'hidden', 'bias', 'std', 'out_std', 'dropout')

local function forward(self, x) return self.down(self.gate(x) * self.up(x)):dropout(self.dropout) end

-- nn.swiglu { dim, hidden, bias = false, dropout = 0, std = 0.02, out_std = std }: x (..., dim) -> same.
local function swiglu(options)
    check.keys('nn.swiglu', options, keys)
    local dim = check.integer('nn.swiglu: dim', options.dim, 1)
    local hidden = check.integer('nn.swiglu: hidden', options.hidden, 1, nil, 4 * dim)
    local bias = check.boolean('nn.swiglu: bias', options.bias, false)
    return layer.new {
        name = options.name or 'mlp', forward = forward,
        dropout = check.number('nn.swiglu: dropout', options.dropout, 0, 1, 0),
        gate = linear { inputs = dim, outputs = hidden, bias = bias, act = 'silu', std = options.std },
        up = linear { inputs = dim, outputs = hidden, bias = bias, std = options.std },
        down = linear { inputs = hidden, outputs = dim, bias = bias, std = options.out_std or options.std },
    }
end

return { swiglu = swiglu }
