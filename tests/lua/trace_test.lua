-- trace_test.lua - layers as graphs: names of parameters and nodes, where cuts may lie, custom layers, tuples, ties, and the
-- same layers played back with eager tensors.
local ppl = require 'ppl'
local model = require 'ppl.model'
local trace = require 'ppl.trace'
local nn = ppl.nn

local TOKENS = { { name = 'tokens', dtype = 'i32', shape = { 8 } }, { name = 'targets', dtype = 'i32', shape = { 8 } } }
local NUMBERS = { { name = 'x', dtype = 'f32', shape = { 4 } }, { name = 'targets', dtype = 'f32', shape = { 2 } } }

local function traced(layer, loss, inputs)
    return model.trace { model = layer, loss = loss or nn.mse(), inputs = inputs or NUMBERS, dtype = 'f32', samples = 2 }
end

-- The names of a listing's parameters, in order.
local function parameters(context)
    local names = {}
    for name in context:listing():gmatch('param %%%d+ %S+ %([%d, ]*%)%s+(%S+)') do names[#names + 1] = name end
    return names
end

return function(T)
    T.case('trace: GPT has GPT-2\'s shape and names', function()
        local context = traced(nn.gpt { layers = 2, dim = 16, heads = 2, context = 8 }, nn.cross_entropy(), TOKENS)
        T.golden('gpt_graph', context:listing())
        T.equal(context.layer_names, { 'embed', 'blocks.0', 'blocks.1', 'head' })
        local names = parameters(context)
        T.equal(#names, 2 + 2 * 12 + 2)
        T.equal({ names[1], names[2], names[5], names[#names] },
            { 'embed.token.weight', 'embed.position.weight', 'blocks.0.attn.qkv.weight', 'norm.bias' })
    end)
    T.case('trace: Llama has its own', function()
        local context = traced(nn.llama { layers = 1, dim = 16, heads = 4, kv_heads = 2, context = 8, dropout = 0.1 },
            nn.cross_entropy(), TOKENS)
        T.golden('llama_graph', context:listing())
        T.equal(parameters(context)[#parameters(context)], 'head.weight')
    end)
    T.case('trace: a sequential names its layers and is where cuts lie', function()
        local context = traced(nn.sequential {
            nn.linear(4, 8), nn.relu(), nn.linear(8, 8), nn.sequential { nn.relu(), nn.residual(nn.mlp { dim = 8, act = 'relu' }) },
            nn.linear(8, 2),
        })
        T.equal(context.layer_names,
            { 'linear.0', 'relu', 'linear.1', 'sequential.relu', 'sequential.mlp', 'linear.2' })
        T.equal(parameters(context), {
            'linear.0.weight', 'linear.0.bias', 'linear.1.weight', 'linear.1.bias', 'sequential.mlp.up.weight',
            'sequential.mlp.up.bias', 'sequential.mlp.down.weight', 'sequential.mlp.down.bias', 'linear.2.weight', 'linear.2.bias',
        })
    end)
    T.case('trace: a custom layer composes operators and names by its fields', function()
        local function gated(name)
            return nn.layer {
                name = name, up = nn.linear(4, 6), gates = { nn.linear(4, 6), nn.linear(4, 6) },
                forward = function(self, x)
                    local y = self.up(x) * self.gates[1](x):silu() + self.gates[2](x)
                    return y:matmul(self:param('down', { 6, 4 }, { std = 0.1 })) + self:param('shift', { 4 }, { init = 'zeros' })
                end,
            }
        end
        local context = traced(nn.sequential { gated 'a', gated 'b', gated 'b', nn.linear(4, 2) })
        T.equal(context.layer_names, { 'a', 'b.0', 'b.1', 'linear' })
        local names = parameters(context)
        T.equal({ names[1], names[3], names[5], names[7], names[8], names[9] }, { 'a.up.weight', 'a.gates.0.weight',
            'a.gates.1.weight', 'a.down', 'a.shift', 'b.0.up.weight' })
    end)
    T.case('trace: the same sublayer called twice is tied, a layer used twice in a sequential is not', function()
        local shared = nn.layer {
            name = 'twice', inner = nn.linear(4, 4),
            forward = function(self, x) return self.inner(self.inner(x)) end,
        }
        T.equal(parameters(traced(nn.sequential { shared, shared, nn.linear(4, 2) })), { 'twice.0.inner.weight',
            'twice.0.inner.bias', 'twice.1.inner.weight', 'twice.1.inner.bias', 'linear.weight', 'linear.bias' })
    end)
    T.case('trace: tuples pass between layers', function()
        local split = nn.layer { name = 'split', forward = function(_, x) return { x:slice(1, 0, 2), x:slice(1, 2, 2) } end }
        local join = nn.layer { name = 'join', forward = function(_, pair) return pair[1] * pair[2] end }
        traced(nn.sequential { split, join })
    end)
    T.case('trace: weights of the even cut', function()
        local context = traced(nn.gpt { layers = 6, dim = 8, heads = 1, context = 8 }, nn.cross_entropy(), TOKENS)
        T.equal(model.cut(context, 'even', 1), { 0 })
        T.equal(model.cut(context, 'even', 2), { 0, 4 })
        T.equal(model.cut(context, 'even', 3), { 0, 3, 5 })
    end)
    T.case('trace: cuts by index and name, and what is refused', function()
        local context = traced(nn.gpt { layers = 3, dim = 8, heads = 1, context = 8 }, nn.cross_entropy(), TOKENS)
        T.equal(model.cut(context, { 1, 'blocks.2' }, 3), { 0, 1, 3 })
        T.equal(model.cut(context, '2,head', 3), { 0, 2, 4 })
        T.fails(function() model.cut(context, { 9 }, 2) end, 'layer 9 is out of range', '1 to 4')
        T.fails(function() model.cut(context, { 0 }, 2) end, 'layer 0 is out of range')
        T.fails(function() model.cut(context, { 2, 2 }, 3) end, 'ascending')
        T.fails(function() model.cut(context, { 'block.1' }, 2) end, 'block.1', 'nearest: blocks.1')
        T.fails(function() model.cut(context, { 1 }, 3) end, 'names 1 places, want 2')
        T.fails(function() model.cut(context, 'even', 6) end, '6 stages for 5 layers')
    end)
    T.case('trace: a wrong shape names the layer\'s operator and the script\'s line', function()
        local line = debug.getinfo(1, 'l').currentline + 2
        local bad = nn.layer { name = 'bad', forward = function(self, x)
            local y = x:matmul(self:param('w', { 5, 4 }))
            return y
        end }
        local words = T.fails(function() traced(nn.sequential { bad }) end, 'bad.matmul', 'want')
        T.truthy(words:find('trace_test.lua:' .. line .. ':', 1, true), words)
    end)
    T.case('trace: mistakes of layers are refused', function()
        T.fails(function() traced(nn.sequential { nn.layer { forward = function() end } }) end, 'returns nothing')
        T.fails(function() nn.layer { name = 'x' } end, 'forward is nil')
        T.fails(function() nn.sequential {} end, 'no layers')
        T.fails(function() nn.sequential { 3 } end, 'item 0 is 3')
        T.fails(function() nn.gpt { layers = 1, dim = 8, head = 2, context = 4 } end, 'nn.gpt', 'nearest: heads')
        T.fails(function() nn.gpt { layers = 1, dim = 8, heads = 3, context = 4 } end, '3 heads do not divide')
        T.fails(function() traced(nn.linear(4, 2), nn.layer { forward = function(_, _, ctx) return ctx:input 'target' end }) end,
            'input "target"', 'nearest: targets')
        T.fails(function() nn.linear(4, 2)(1) end, 'want the call inside')
        T.fails(function() traced(nn.sequential { nn.layer { forward = function(self, x)
            return x:matmul(self:param('w', { 4, 2 })) + self:param('w', { 2 })
        end } }) end, 'w')
        T.fails(function() traced(nn.linear(4, 2), nn.layer { forward = function(_, x) return x end }) end, 'loss')
    end)
    T.case('trace: a symbolic tensor has no numbers and does not meet an eager one', function()
        local seen
        traced(nn.sequential { nn.layer { forward = function(_, x)
            seen = tostring(x)
            T.fails(function() return x:numbers() end, 'symbolic')
            T.fails(function() return x + ppl.tensor({ 1, 2, 3, 4 }, { device = 'reference' }) end, 'input 1', 'symbolic')
            return x:slice(1, 0, 2)
        end } })
        T.equal(seen, 'f32 (2, 4) symbolic')
    end)
    T.case('trace: a playback computes the same layers with eager tensors', function()
        local layer = nn.sequential { nn.linear(4, 2), nn.relu() }
        local given = { ['linear.weight'] = ppl.tensor({ { 1, 0, 0, 0 }, { 0, -1, 0, 0 } }, { device = 'reference' }),
            ['linear.bias'] = ppl.tensor({ 0.5, 0 }, { device = 'reference' }) }
        local play = trace.playback(function(path) return given[path] end)
        local x = ppl.tensor({ { 1, 2, 3, 4 } }, { device = 'reference' })
        local y = play:with(function() return play:run(nil, layer, x) end)
        T.near(y:numbers(), { 1.5, 0 })
    end)
end
