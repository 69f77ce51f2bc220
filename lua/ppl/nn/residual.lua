-- residual.lua - x + f(x).
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local layer = require 'ppl.nn.layer'

local function forward(self, x, ctx) return x + ctx:run(nil, self.inner, x) end

-- nn.residual(inner): inner is a layer whose result has x's shape. The scope is inner's own name.
local function residual(inner)
    if not layer.is(inner) then fail('nn.residual: inner is %s, want a layer', check.show(inner)) end
    return layer.new { name = inner.name, weight = inner.weight, forward = forward, inner = inner }
end

return { residual = residual }
