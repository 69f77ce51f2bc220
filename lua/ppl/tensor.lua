-- tensor.lua - the operators as methods, over symbolic tensors (trace.lua: a value of a graph) and eager ones (eager.lua:
-- numbers, computed at once) alike. Before: layers and scripts. After: the backend of the tensor at hand.
--
-- Dims count from 0, and from the end when negative. x.shape is a list (x.shape[1] is dim 0), x.dtype a name.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local types = require 'ppl.types'

local tensor = {}
local Tensor = {}
Tensor.__index = Tensor
tensor.class = Tensor

-- backend: { kind, apply(backend, op, inputs, attrs) -> list of outputs, ... }; rest: the backend's own fields.
function tensor.new(backend, dtype, shape, rest)
    rest.backend, rest.dtype, rest.shape = backend, dtype, shape
    return setmetatable(rest, Tensor)
end

function tensor.is(value) return getmetatable(value) == Tensor end

local function want_tensor(op, what, value)
    if not tensor.is(value) then fail('%s: %s is %s, want a tensor', op, what, check.show(value)) end
    return value
end

-- Applies an operator of ppl.h: inputs is a list of tensors, integers and numbers fill attrs.i and attrs.f from 0.
local function apply(op, inputs, integers, numbers)
    local attrs = capi.new('ppl_attrs')
    for i, value in ipairs(integers or {}) do attrs.i[i - 1] = value end
    for i, value in ipairs(numbers or {}) do attrs.f[i - 1] = value end
    local backend, list = inputs[1].backend, {}
    for i, input in ipairs(inputs) do
        list[i] = input
        want_tensor(op, ('input %d'):format(i - 1), input)
        if input.backend ~= backend then
            fail('%s: input %d is %s, want %s as input 0 is', op, i - 1, input.backend.kind, backend.kind)
        end
    end
    return backend:apply(op, list, attrs)[1]
end

local function dim_index(op, x, dim)
    local n = #x.shape
    check.integer(op .. ': dim', dim, -n, n - 1)
    return dim < 0 and dim + n or dim
end

local function is_suffix(small, large)
    local shift = #large.shape - #small.shape
    if shift < 0 then return false end
    for i, n in ipairs(small.shape) do
        if large.shape[shift + i] ~= n then return false end
    end
    return true
end

-- x op y where one has the other's shape or a suffix of it; the larger comes first.
local function elementwise(op, x, y)
    if not is_suffix(y, x) and is_suffix(x, y) then x, y = y, x end
    return apply(op, { x, y })
end

-- ---- arithmetic

function Tensor.__add(x, y)
    if not (tensor.is(x) and tensor.is(y)) then
        fail('add: one side is %s, want tensors (a constant is a parameter, or a scale)',
            check.show(tensor.is(x) and y or x))
    end
    return elementwise('add', x, y)
end

function Tensor.__mul(x, y)
    if type(x) == 'number' then return y:scale(x) end
    if type(y) == 'number' then return x:scale(y) end
    want_tensor('mul', 'one side', x)
    return elementwise('mul', x, want_tensor('mul', 'one side', y))
end

function Tensor.__unm(x) return x:scale(-1) end

function Tensor.__sub(x, y)
    want_tensor('sub', 'the left side', x)
    return x + want_tensor('sub', 'the right side', y):scale(-1)
end

function Tensor.__div(x, y)
    return want_tensor('div', 'the left side', x):scale(1 / check.number('div: the right side', y))
end

-- factor * x.
function Tensor:scale(factor) return apply('scale', { self }, nil, { check.number('scale', factor) }) end

-- (..., M, K) by (..., K, N) -> (..., M, N). A matrix on the right serves all leading dims of the left.
-- options: transpose_a, transpose_b: they are stored transposed.
local matmul_keys = check.set('transpose_a', 'transpose_b')
function Tensor:matmul(other, options)
    options = options or {}
    check.keys('matmul', options, matmul_keys)
    want_tensor('matmul', 'the right side', other)
    local integers = { options.transpose_a and 1 or 0, options.transpose_b and 1 or 0 }
    if #self.shape <= 2 or #other.shape ~= 2 or options.transpose_a then
        return apply('matmul', { self, other }, integers)
    end
    local rows, dims = 1, {}
    for i = 1, #self.shape - 1 do
        rows = rows * self.shape[i]
        dims[i] = self.shape[i]
    end
    local y = apply('matmul', { self:reshape { rows, self.shape[#self.shape] }, other }, integers)
    dims[#dims + 1] = y.shape[2]
    return y:reshape(dims)
end

-- act(x w^T + b): x (rows, IC), w (OC, IC), b (OC) or nil -> (rows, OC). act: 'none', 'relu', 'gelu', 'gelu_exact', 'silu'.
local acts = {
    none = 'PPL_ACT_NONE', relu = 'PPL_ACT_RELU', gelu = 'PPL_ACT_GELU_TANH', gelu_exact = 'PPL_ACT_GELU_ERF',
    silu = 'PPL_ACT_SILU',
}
tensor.acts = acts
function Tensor:linear(w, b, act)
    local number = capi.const[acts[check.name('linear: act', act, acts, 'none')]]
    return apply('linear', { self, want_tensor('linear', 'the weight', w), b }, { number })
end

-- ---- layers' operators

-- Rows of w (V, C) chosen by ids i32 (...) -> (..., C).
function Tensor:embedding(w) return apply('embedding', { self, w }) end

-- Over the last dim, then * w + b. eps is added to the variance.
function Tensor:layernorm(w, b, eps)
    return apply('layernorm', { self, w, b }, nil, { check.number('layernorm: eps', eps, 0, nil, 1e-5) })
end

function Tensor:rmsnorm(w, eps)
    return apply('rmsnorm', { self, w }, nil, { check.number('rmsnorm: eps', eps, 0, nil, 1e-5) })
end

-- Rotary positions of x (B, T, H * D). options: head_dim = D, heads: leading heads that are rotated (default all), theta.
local rope_keys = check.set('head_dim', 'heads', 'theta')
function Tensor:rope(options)
    check.keys('rope', options, rope_keys)
    local d = check.integer('rope: head_dim', options.head_dim, 2)
    local heads = check.integer('rope: heads', options.heads, 1, nil, math.floor(self.shape[#self.shape] / d))
    return apply('rope', { self }, { d, heads, 0 }, { check.number('rope: theta', options.theta, 0, nil, 10000) })
end

local function act(name)
    return function(self) return apply('act', { self }, { capi.const[acts[name]] }) end
end
Tensor.gelu, Tensor.gelu_exact, Tensor.relu, Tensor.silu = act 'gelu', act 'gelu_exact', act 'relu', act 'silu'

-- Over the last dim.
function Tensor:softmax() return apply('softmax', { self }) end

-- x is q, k, v side by side (B, T, (H + 2 K) D) -> (B, T, H D), or q alone with options k and v (B, T, K D).
-- options: heads = H, kv_heads = K (default H), causal (default true), scale (default 1 / sqrt(D)), k, v.
local attention_keys = check.set('heads', 'kv_heads', 'causal', 'scale', 'k', 'v')
function Tensor:attention(options)
    check.keys('attention', options, attention_keys)
    local heads = check.integer('attention: heads', options.heads, 1)
    local kv = check.integer('attention: kv_heads', options.kv_heads, 1, heads, heads)
    local causal = check.boolean('attention: causal', options.causal, true)
    local inputs = { self, options.k, options.v }
    if (options.k == nil) ~= (options.v == nil) then fail('attention: has one of k and v, want both or none') end
    return apply('attention', inputs, { heads, kv, causal and 1 or 0 },
        { check.number('attention: scale', options.scale, 0, nil, 0) })
end

-- Zeroes elements with probability p while training and scales the others; the identity otherwise.
function Tensor:dropout(p)
    check.number('dropout: p', p, 0, 1)
    if p == 0 then return self end
    return apply('dropout', { self }, nil, { p })
end

-- ---- shapes

-- reshape { 2, 3 } or reshape(2, 3); one dim may be -1: what is left.
function Tensor:reshape(dims, ...)
    if type(dims) ~= 'table' then dims = { dims, ... } end
    if #dims > capi.const.PPL_MAX_DIMS then fail('reshape: has %d dims, want %d at most', #dims, capi.const.PPL_MAX_DIMS) end
    local list, known, open = {}, 1, nil
    for i, n in ipairs(dims) do
        list[i] = check.integer(('reshape: dim %d'):format(i - 1), n, -1)
        if n == -1 then
            if open then fail('reshape: dims %d and %d are -1, want one at most', open - 1, i - 1) end
            open = i
        else
            known = known * n
        end
    end
    if open then list[open] = math.floor(types.elements(self.shape) / math.max(known, 1)) end
    return apply('reshape', { self }, { #list, unpack(list) })
end

-- Dims a and b exchanged (default: the last two).
function Tensor:transpose(a, b)
    return apply('transpose', { self }, { dim_index('transpose', self, a or -2), dim_index('transpose', self, b or -1) })
end

-- Indexes first .. first + count - 1 of a dim.
function Tensor:slice(dim, first, count)
    local d = dim_index('slice', self, dim)
    return apply('slice', { self }, { d, check.integer('slice: first', first, 0), check.integer('slice: count', count, 1) })
end

-- concat({ a, b, ... }, dim): 1 to 8 tensors joined along a dim (default: the last).
function tensor.concat(list, dim)
    check.table('concat: inputs', list)
    want_tensor('concat', 'input 0', list[1])
    return apply('concat', list, { dim_index('concat', list[1], dim or -1) })
end

-- ---- losses: the sum over rows that count, a scalar

-- self: logits (rows, V); targets i32 (rows), negative ones are ignored.
function Tensor:cross_entropy(targets) return apply('cross_entropy', { self, targets }) end

-- Sum of (x - target)^2; NaN targets are ignored.
function Tensor:mse(target) return apply('mse', { self, target }) end

-- ---- numbers of eager tensors

-- A flat list of all elements, in order.
function Tensor:numbers() return self.backend:numbers(self) end

-- The only element of a tensor of one.
function Tensor:item()
    local list = self:numbers()
    if #list ~= 1 then fail('item: the tensor has %d elements, want 1', #list) end
    return list[1]
end

-- Frees an eager tensor at once; the collector would do it later.
function Tensor:close() self.backend:close(self) end

function Tensor.__tostring(x) return x.backend:print(x) end

return tensor
