-- tensor_test.lua - eager tensors: making, reading, operators and what they refuse, on the reference device, the CPU, and a GPU
-- where there is one.
local ppl = require 'ppl'
local eager = require 'ppl.eager'

local DEVICES = { 'reference', 'cpu' }
if pcall(ppl.tensor, { 1 }, { device = 'cuda' }) then table.insert(DEVICES, 'cuda') end

return function(T)
    T.case('tensor: printed numbers never touch', function()
        local words = tostring(ppl.tensor({ { 0.015643, -4.2788e-05, -1.2346e-05 } }, {}))
        T.truthy(words:find('0.015643%s+%-4.2788e%-05%s+%-1.2346e%-05'), words)
    end)
    for _, device in ipairs(DEVICES) do
        local function tensor(data, options)
            local all = { device = device }
            for key, value in pairs(options or {}) do all[key] = value end
            return ppl.tensor(data, all)
        end
        local function case(name, body) T.case(('tensor (%s): %s'):format(device, name), body) end

        case('arithmetic and broadcasting over leading dims', function()
            local x, y = tensor { { 1, 2 }, { 3, 4 } }, tensor { 10, 20 }
            T.near((x + y):numbers(), { 11, 22, 13, 24 })
            T.near((y + x):numbers(), { 11, 22, 13, 24 })
            T.near((x * y):numbers(), { 10, 40, 30, 80 })
            T.near((x - y):numbers(), { -9, -18, -7, -16 })
            T.near((2 * x / 4 - x):numbers(), { -0.5, -1, -1.5, -2 })
            T.near((-x):numbers(), { -1, -2, -3, -4 })
        end)
        case('products', function()
            local x, w = tensor { { 1, 2, 3 }, { 4, 5, 6 } }, tensor { { 1, 0, 2 }, { 0, 1, 1 } }
            T.near(x:linear(w):numbers(), { 7, 5, 16, 11 })
            T.near(x:linear(w, tensor { 1, -100 }, 'relu'):numbers(), { 8, 0, 17, 0 })
            T.near(x:matmul(w, { transpose_b = true }):numbers(), { 7, 5, 16, 11 })
            T.near(x:matmul(w:transpose()):numbers(), { 7, 5, 16, 11 })
            local y = x:reshape(2, 1, 3):matmul(w:transpose())
            T.equal(tostring(y.shape), '(2, 1, 2)')
            T.near(y:numbers(), { 7, 5, 16, 11 })
        end)
        case('shapes', function()
            local x = tensor { { 1, 2, 3 }, { 4, 5, 6 } }
            T.near(x:transpose():numbers(), { 1, 4, 2, 5, 3, 6 })
            T.near(x:slice(-1, 1, 2):numbers(), { 2, 3, 5, 6 })
            T.near(ppl.concat({ x, x:slice(0, 0, 1) }, 0):numbers(), { 1, 2, 3, 4, 5, 6, 1, 2, 3 })
            T.equal(tostring(x:reshape(3, -1).shape), '(3, 2)')
            T.equal(x.dtype, 'f32')
            T.truthy(x.shape == x:reshape(2, 3).shape, 'equal shapes')
        end)
        case('activations and softmax', function()
            local x = tensor { -1, 0, 2 }
            T.near(x:relu():numbers(), { 0, 0, 2 })
            T.near(x:gelu():numbers(), { -0.158808, 0, 1.954598 }, 1e-5)
            T.near(x:gelu_exact():numbers(), { -0.158655, 0, 1.954500 }, 1e-5)
            T.near(x:silu():numbers(), { -0.268941, 0, 1.761594 }, 1e-5)
            T.near(x:softmax():numbers(), { 0.0420101, 0.1141952, 0.8437947 }, 1e-6)
        end)
        case('norms', function()
            local x, one, zero = tensor { { 1, 2, 3, 6 } }, tensor { 1, 1, 1, 1 }, tensor { 0, 0, 0, 0 }
            T.near(x:layernorm(one, zero, 0):numbers(), { -1.069045, -0.5345225, 0, 1.603567 }, 1e-5)
            T.near(x:rmsnorm(one, 0):numbers(), { 0.2828427, 0.5656854, 0.8485281, 1.6970563 }, 1e-5)
        end)
        case('embedding, losses and attention', function()
            local w, ids = tensor { { 1, 2 }, { 3, 4 }, { 5, 6 } }, tensor({ 2, 0 }, { dtype = 'i32' })
            T.near(ids:embedding(w):numbers(), { 5, 6, 1, 2 })
            local logits = tensor { { 0, 0 }, { 0, 0 }, { 1, 0 } }
            T.near(logits:cross_entropy(tensor({ 0, -1, 1 }, { dtype = 'i32' })):item(), 0.6931472 + 1.3132617, 1e-5)
            T.near(tensor { 1, 2, 3 }:mse(tensor { 0, 0 / 0, 5 }):item(), 5)
            local q = tensor { { { 1, 0 }, { 0, 1 } } }
            local o = q:attention { heads = 1, k = q, v = q, scale = 1 }
            T.near(o:numbers(), { 1, 0, 0.2689414, 0.7310586 }, 1e-5)
            T.equal(tostring(tensor { { { 1, 2, 3, 4, 5, 6 } } }:attention { heads = 1 }), tostring(tensor { { { 5, 6 } } }))
        end)
        case('rope turns positions and leaves the first', function()
            local x = tensor { { { 1, 0 }, { 1, 0 } } }
            T.near(x:rope { head_dim = 2 }:numbers(), { 1, 0, math.cos(1), math.sin(1) }, 1e-6)
        end)
        case('dropout is the identity unless training', function()
            local x = ppl.randn({ 4, 8 }, { device = device, seed = 3 })
            T.equal(x:dropout(0.5):numbers(), x:numbers())
            local dropped, zeros = eager.training(x, true):dropout(0.5):numbers(), 0
            for _, value in ipairs(dropped) do zeros = zeros + (value == 0 and 1 or 0) end
            T.truthy(zeros > 4 and zeros < 28, zeros .. ' zeros of 32')
        end)
        case('random numbers depend on seed and name alone', function()
            local a = ppl.randn({ 64 }, { device = device, seed = 3 }):numbers()
            T.equal(ppl.randn({ 64 }, { device = device, seed = 3 }):numbers(), a)
            T.truthy(ppl.randn({ 64 }, { device = device, seed = 4 }):numbers()[1] ~= a[1], 'another seed')
            T.truthy(ppl.randn({ 64 }, { device = device, seed = 3, name = 'b' }):numbers()[1] ~= a[1], 'another name')
        end)
        case('wrong shapes name the operator and what is wanted', function()
            local x = tensor { { 1, 2 }, { 3, 4 } }
            T.fails(function() local y = x:linear(tensor { { 1, 2, 3 } }) return y end, 'tensor_test.lua', 'linear', 'want')
            T.fails(function() return x + tensor { 1, 2, 3 } end, 'add')
            T.fails(function() return x:reshape(3, 3) end, 'reshape')
            T.fails(function() return x:slice(0, 1, 2) end, 'slice')
            T.fails(function() return x:slice(2, 0, 1) end, 'slice: dim')
            T.fails(function() return tensor({ 9 }, { dtype = 'i32' }):embedding(x) end, 'embedding')
        end)
    end

    T.case('tensor: what is no tensor is refused', function()
        local x = ppl.tensor({ 1, 2 }, { device = 'reference' })
        T.fails(function() return x + 1 end, 'add', 'is 1')
        T.fails(function() return x:linear('w') end, 'the weight is "w"')
        T.fails(function() return x:linear(x, nil, 'gelo') end, 'nearest: gelu')
        T.fails(function() return x:attention { heds = 1 } end, 'nearest: heads')
        T.fails(function() return ppl.tensor { { 1, 2 }, { 3 } } end, 'dim 1 has 2 and 1')
        T.fails(function() return ppl.tensor { { 1 }, 2 } end, 'beside lists')
        T.fails(function() return ppl.tensor { 1, { 2 } } end, 'beside numbers')
        T.fails(function() return ppl.tensor({ 1 }, { device = 'gpu' }) end, 'cpu, cuda, reference')
        T.fails(function() return ppl.tensor({ 1 }, { dtype = 'f16' }) end, 'f32, bf16')
        T.fails(function() return x + ppl.tensor({ 1, 2 }, { device = 'cpu' }) end, 'input 1')
        x:close()
        x:close()
        T.fails(function() return x:numbers() end, 'is closed')
    end)
    if #DEVICES == 2 then
        T.case('tensor: a GPU that is not there says why', function()
            T.fails(function() return ppl.tensor({ 1 }, { device = 'cuda' }) end, 'device cuda: ')
        end)
    end
    T.case('tensor: a scope frees what was made inside', function()
        local inner
        local n = eager.scope(function()
            inner = ppl.tensor({ 1, 2 }, { device = 'reference' })
            return (inner + inner):numbers()[2]
        end)
        T.equal(n, 4)
        T.truthy(inner.handle:closed(), 'closed')
    end)
    T.case('tensor: printing', function()
        T.golden('tensor', tostring(ppl.tensor({ { 1, 2.5 }, { -3, 1e-7 } }, { device = 'reference' })) .. '\n'
            .. tostring(ppl.zeros({ 10, 12 }, { device = 'reference', dtype = 'f64' })))
    end)
end
