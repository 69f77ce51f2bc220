-- rmsnorm.lua - x / sqrt(mean(x^2) + eps) * weight over the last dim.
local check = require 'ppl.check'
local layer = require 'ppl.nn.layer'

local keys = check.set('name', 'dim', 'eps', 'weight')

local function forward(self, x) return x:rmsnorm(self:param('weight', { self.dim }, { init = 'ones' }), self.eps) end

-- nn.rmsnorm { dim, eps = 1e-5 } or nn.rmsnorm(dim): x (..., dim) -> same. weight (dim).
local function rmsnorm(options)
    if type(options) == 'number' then options = { dim = options } end
    check.keys('nn.rmsnorm', options, keys)
    return layer.new {
        name = options.name or 'rmsnorm', weight = options.weight, forward = forward,
        dim = check.integer('nn.rmsnorm: dim', options.dim, 1),
        eps = check.number('nn.rmsnorm: eps', options.eps, 0, nil, 1e-5),
    }
end

return { rmsnorm = rmsnorm }
