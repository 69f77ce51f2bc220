-- loss.lua - losses: layers over the model's result that read the data's "targets" and give a sum over what counts. The
-- engine divides by the step's weight, so that the loss is a mean whatever the number of microbatches.
local layer = require 'ppl.nn.layer'

local function entropy(_, logits, ctx) return logits:cross_entropy(ctx:input('targets')) end
local function square(_, x, ctx) return x:mse(ctx:input('targets')) end

-- nn.cross_entropy(): logits (..., V) against targets i32 (...); negative targets are ignored.
local function cross_entropy() return layer.new { name = 'cross_entropy', weight = 0, forward = entropy } end

-- nn.mse(): x against targets of the same shape; NaN targets are ignored.
local function mse() return layer.new { name = 'mse', weight = 0, forward = square } end

return { cross_entropy = cross_entropy, mse = mse }
