-- block.lua - a transformer block with the norms first: x + attn(norm1(x)), then x + mlp(norm2(x)).
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local layer = require 'ppl.nn.layer'

local function forward(self, x)
    x = x + self.attn(self.norm1(x))
    return x + self.mlp(self.norm2(x))
end

-- nn.block { name, norm1, attn, norm2, mlp }: four layers over (B, T, dim). Its share in even cuts is 1.
local function block(options)
    check.keys('nn.block', options, check.set('name', 'norm1', 'attn', 'norm2', 'mlp', 'weight'))
    for _, part in ipairs { 'norm1', 'attn', 'norm2', 'mlp' } do
        if not layer.is(options[part]) then fail('nn.block: %s is %s, want a layer', part, check.show(options[part])) end
    end
    return layer.new {
        name = options.name or 'block', weight = options.weight, forward = forward,
        norm1 = options.norm1, attn = options.attn, norm2 = options.norm2, mlp = options.mlp,
    }
end

return { block = block }
