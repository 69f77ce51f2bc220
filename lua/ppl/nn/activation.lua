-- activation.lua - elementwise activations and softmax as layers, for nn.sequential.
local layer = require 'ppl.nn.layer'

local activation = {}

for _, name in ipairs { 'gelu', 'gelu_exact', 'relu', 'silu', 'softmax' } do
    local function forward(_, x) return x[name](x) end
    -- nn.gelu(): x -> gelu(x), by tanh as GPT-2 does; gelu_exact by erf.
    activation[name] = function() return layer.new { name = name, weight = 0, forward = forward } end
end

return activation
