-- mlp.lua - two linear layers with an activation between them.
local check = require 'ppl.check'
local layer = require 'ppl.nn.layer'
local linear = require 'ppl.nn.linear'.linear

local keys = check.set('name', 'dim', 'hidden', 'act', 'bias', 'std', 'out_std', 'dropout')

local function forward(self, x) return self.down(self.up(x)):dropout(self.dropout) end

-- nn.mlp { dim, hidden = 4 dim, act = 'gelu', bias = true, dropout = 0, std = 0.02, out_std = std }: x (..., dim) -> same.
local function mlp(options)
    check.keys('nn.mlp', options, keys)
    local dim = check.integer('nn.mlp: dim', options.dim, 1)
    local hidden = check.integer('nn.mlp: hidden', options.hidden, 1, nil, 4 * dim)
    local bias = check.boolean('nn.mlp: bias', options.bias, true)
    return layer.new {
        name = options.name or 'mlp', forward = forward,
        dropout = check.number('nn.mlp: dropout', options.dropout, 0, 1, 0),
        up = linear { inputs = dim, outputs = hidden, bias = bias, act = options.act or 'gelu', std = options.std },
        down = linear { inputs = hidden, outputs = dim, bias = bias, std = options.out_std or options.std },
    }
end

return { mlp = mlp }
