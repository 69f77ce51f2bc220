-- nn/init.lua - the layers, one file each. A layer is a description (layer.lua); what it computes is its forward over the
-- operators of tensor.lua.
local layer = require 'ppl.nn.layer'
local tensor = require 'ppl.tensor'

local nn = { layer = layer.new, is_layer = layer.is, concat = tensor.concat }

local FILES = {
    'linear', 'embedding', 'layernorm', 'rmsnorm', 'activation', 'dropout', 'attention', 'mlp', 'swiglu', 'residual',
    'block', 'sequential', 'gpt', 'llama', 'loss',
}
for _, file in ipairs(FILES) do
    for name, make in pairs(require('ppl.nn.' .. file)) do nn[name] = make end
end

return nn
