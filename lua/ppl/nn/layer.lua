-- layer.lua - what a layer is: a description, a table with forward(self, x, ctx) and no state of any call. Sublayers are
-- its fields; calling one inside forward, self.up(x), runs it in the scope of its field's name. After: trace.lua.
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local trace = require 'ppl.trace'

local layer = {}
local Layer = {}
Layer.__index = Layer

function layer.is(value) return getmetatable(value) == Layer end

-- Field names of sublayers: { [sublayer] = 'attn' }; of a list field blocks: 'blocks.0', 'blocks.1', ...
local function name_children(self)
    local names = {}
    for key, value in pairs(self) do
        if layer.is(value) then
            names[value] = tostring(key)
        elseif type(value) == 'table' and type(key) == 'string' then
            for i, item in ipairs(value) do
                if layer.is(item) then names[item] = ('%s.%d'):format(key, i - 1) end
            end
        end
    end
    return names
end

-- nn.layer { name, forward, ... }: a custom layer. name: its scope where no field names it. weight: its share when cuts
-- are even (default 1). All other fields are the layer's own, sublayers among them. forward(self, x, ctx) gives a tensor,
-- or a table of tensors (a tuple) for a layer that takes one.
function layer.new(description)
    check.table('nn.layer', description)
    if type(description.forward) ~= 'function' then
        fail('nn.layer: forward is %s, want a function (self, x, ctx)', check.show(description.forward))
    end
    check.text('nn.layer: name', description.name, 'layer')
    check.number('nn.layer: weight', description.weight, 0, nil, 1)
    local self = {}
    for key, value in pairs(description) do self[key] = value end
    self.name, self.weight = description.name or 'layer', description.weight or 1
    self.child_names = name_children(self)
    return setmetatable(self, Layer)
end

-- A parameter of this layer, in the scope in which its forward runs: self:param('weight', { 4, 8 }, { init = 'normal',
-- std = 0.02 }). options: init ('normal', 'zeros', 'ones', 'uniform'), std or bound, decay (default: true for matrices),
-- frozen. A name that begins with '/' is absolute: a parameter shared with another layer.
function Layer.param(_, name, shape, options)
    return trace.current('param'):param(name, shape, options)
end

-- A parameter of another layer, by its whole name: self:tied('embed.token.weight', { 256, 64 }).
function Layer.tied(_, name, shape, options)
    return trace.current('tied'):tied(name, shape, options)
end

-- layer(x) inside a forward. A sublayer runs in the scope of the field that holds it.
function Layer:__call(x)
    local ctx = trace.current('layer ' .. self.name)
    local parent = ctx:layer()
    local name = parent and parent.child_names[self] or self.name
    local spine = ctx.spine
    ctx.spine = false -- cuts lie between the layers of a sequential, not inside of one
    local y = ctx:run(not self.flat and name or nil, self, x)
    ctx.spine = spine
    return y
end

function Layer:__tostring() return 'layer ' .. self.name end

return layer
