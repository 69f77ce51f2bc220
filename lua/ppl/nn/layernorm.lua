-- layernorm.lua - (x - mean) / sqrt(variance + eps) * weight + bias over the last dim.
local check = require 'ppl.check'
local layer = require 'ppl.nn.layer'

local keys = check.set('name', 'dim', 'eps', 'weight')

local function forward(self, x)
    local w = self:param('weight', { self.dim }, { init = 'ones' })
    return x:layernorm(w, self:param('bias', { self.dim }, { init = 'zeros' }), self.eps)
end

-- nn.layernorm { dim, eps = 1e-5 } or nn.layernorm(dim): x (..., dim) -> same. weight, bias (dim).
local function layernorm(options)
    if type(options) == 'number' then options = { dim = options } end
    check.keys('nn.layernorm', options, keys)
    return layer.new {
        name = options.name or 'layernorm', weight = options.weight, forward = forward,
        dim = check.integer('nn.layernorm: dim', options.dim, 1),
        eps = check.number('nn.layernorm: eps', options.eps, 0, nil, 1e-5),
    }
end

return { layernorm = layernorm }
