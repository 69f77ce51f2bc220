-- linear.lua - y = x w^T + b, with an activation if wanted.
local check = require 'ppl.check'
local layer = require 'ppl.nn.layer'
local tensor = require 'ppl.tensor'

local keys = check.set('name', 'inputs', 'outputs', 'bias', 'act', 'std', 'tie', 'weight')

local function forward(self, x)
    local shape, options = { self.outputs, self.inputs }, { std = self.std }
    local w = self.tie and self:tied(self.tie, shape, options) or self:param('weight', shape, options)
    local b = self.bias and self:param('bias', { self.outputs }, { init = 'zeros' }) or nil
    return x:linear(w, b, self.act)
end

-- nn.linear { inputs, outputs, bias = true, act = 'none', std = 0.02, tie }, or nn.linear(inputs, outputs).
-- x (..., inputs) -> (..., outputs). weight (outputs, inputs), bias (outputs). tie: the name of a parameter to use as the
-- weight, as in 'embed.token.weight'; it begins as it does where it was first used.
local function linear(options, outputs)
    if type(options) == 'number' then options = { inputs = options, outputs = outputs } end
    check.keys('nn.linear', options, keys)
    return layer.new {
        name = options.name or 'linear', weight = options.weight, forward = forward,
        inputs = check.integer('nn.linear: inputs', options.inputs, 1),
        outputs = check.integer('nn.linear: outputs', options.outputs, 1),
        bias = check.boolean('nn.linear: bias', options.bias, true),
        act = check.name('nn.linear: act', options.act, tensor.acts, 'none'),
        std = check.number('nn.linear: std', options.std, 0, nil, 0.02),
        tie = options.tie,
    }
end

return { linear = linear }
