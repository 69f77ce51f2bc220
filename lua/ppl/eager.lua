-- eager.lua - tensors that hold numbers and compute at once, on a device: for the prompt, for data, for tests and for
-- sampling from a trained model. Their operators are tensor.lua's. After: ppl_tensor_* of the engine.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local tensor = require 'ppl.tensor'
local types = require 'ppl.types'

local lib = capi.lib
local eager = {}
local Backend = { kind = 'an eager tensor' }
Backend.__index = Backend

local backends = {}

-- One backend for each (device, training or not): tensors of one may meet.
local function backend(device, training)
    local key = device .. (training and '+' or '')
    backends[key] = backends[key] or setmetatable({ device = device, training = training and 1 or 0 }, Backend)
    return backends[key]
end

local scope -- the list of tensors made since eager.scope began; nil outside of one

local function wrap(owner, pointer)
    local handle = capi.handle('tensor', pointer, 'tensor_close')
    if scope then scope[#scope + 1] = handle end
    local t = capi.new('ppl_type')
    lib.tensor_type(pointer, t)
    local dtype, shape = types.from_engine(t)
    return tensor.new(owner, dtype, shape, { handle = handle })
end

function Backend:apply(op, inputs, attrs)
    local list, out = {}, capi.new('ppl_tensor *[?]', capi.const.PPL_MAX_OUTPUTS)
    for i, input in ipairs(inputs) do list[i] = input.handle:get() end
    lib.tensor_apply(lib.op_find(op), capi.array('ppl_tensor *', list), #list, attrs, self.training, out)
    local results = {}
    for i = 0, capi.const.PPL_MAX_OUTPUTS - 1 do
        if not capi.is_null(out[i]) then results[#results + 1] = wrap(self, out[i]) end
    end
    return results
end

function Backend.numbers(_, t)
    local n = types.elements(t.shape)
    local integers = t.dtype == 'i32'
    local host = capi.new(integers and 'int32_t[?]' or 'double[?]', math.max(n, 1))
    lib.tensor_read(t.handle:get(), host, types.dtype('numbers', integers and 'i32' or 'f64'))
    local list = {}
    for i = 0, n - 1 do list[i + 1] = host[i] end
    return list
end

function Backend.close(_, t) t.handle:close() end

-- ---- printing

local PRINT_ROWS, PRINT_COLUMNS = 8, 8

local function number(x) return x % 1 == 0 and math.abs(x) < 1e6 and ('%d'):format(x) or ('%.5g'):format(x) end

local function row(list, first, count)
    local words = {}
    for i = 1, math.min(count, PRINT_COLUMNS) do words[i] = (' %11s'):format(number(list[first + i])) end
    if count > PRINT_COLUMNS then words[#words + 1] = ' ...' end
    return table.concat(words)
end

-- "f32 (2, 3) cpu" and the first rows of numbers.
function Backend:print(t)
    local head = ('%s %s on %s'):format(t.dtype, tostring(t.shape), self.device)
    if t.handle:closed() then return head .. ', closed' end
    local list = self:numbers(t)
    local width = #t.shape > 0 and t.shape[#t.shape] or 1
    local lines = { head }
    for r = 0, math.min(#list / width, PRINT_ROWS) - 1 do lines[#lines + 1] = row(list, r * width, width) end
    if #list / width > PRINT_ROWS then lines[#lines + 1] = ('      ... %d rows in all'):format(#list / width) end
    return table.concat(lines, '\n')
end

-- ---- making them

-- The dims of nested lists; flattens them into `flat`.
local function flatten(where, value, flat, depth, dims)
    if type(value) == 'number' then
        if dims[depth] then fail('%s: a number stands beside lists, want lists of equal depth', where) end
        dims.deepest = dims.deepest or depth
        if dims.deepest ~= depth then fail('%s: lists of depth %d and %d, want one depth', where, dims.deepest - 1, depth - 1) end
        flat[#flat + 1] = value
        return
    end
    check.table(where .. ': data', value)
    if dims.deepest and dims.deepest <= depth then fail('%s: a list stands beside numbers, want lists of equal depth', where) end
    if dims[depth] and dims[depth] ~= #value then
        fail('%s: dim %d has %d and %d elements, want equal numbers', where, depth - 1, dims[depth], #value)
    end
    dims[depth] = #value
    for _, item in ipairs(value) do flatten(where, item, flat, depth + 1, dims) end
end

local keys = check.set('dtype', 'device', 'training', 'shape')

local function open(where, options, shape, host, host_dtype)
    check.keys(where, options, keys)
    local dtype = options.dtype or 'f32'
    local device = check.name(where .. ': device', options.device, { 'cpu', 'cuda', 'reference' }, 'cpu')
    local training = check.boolean(where .. ': training', options.training, false)
    shape = types.check_shape(where, shape)
    local out = capi.new('ppl_tensor *[1]')
    lib.tensor_open(device, types.to_engine(where, dtype, shape), host, types.dtype(where, host_dtype), out)
    return wrap(backend(device, training), out[0])
end

-- ppl.tensor(data, options): nested lists, or a flat list with options.shape. options: dtype ('f32', 'bf16', 'f64',
-- 'i32'), device ('cpu', 'cuda', 'reference'), training (dropout drops), shape.
function eager.tensor(data, options)
    options = options or {}
    local flat, dims = {}, {}
    flatten('tensor', data, flat, 1, dims)
    local shape = options.shape or types.shape(dims)
    if types.elements(shape) ~= #flat then
        fail('tensor: %d elements, want the %d of shape %s', #flat, types.elements(shape), tostring(types.shape(shape)))
    end
    local integers = options.dtype == 'i32'
    for i, value in ipairs(integers and flat or {}) do check.integer(('tensor: element %d'):format(i - 1), value, -2 ^ 31) end
    return open('tensor', options, shape, capi.array(integers and 'int32_t' or 'double', flat), integers and 'i32' or 'f64')
end

-- A tensor of a C array of doubles: what ppl_run_read fills.
function eager.of_doubles(host, shape, options) return open('tensor', options or {}, shape, host, 'f64') end

function eager.zeros(shape, options) return open('zeros', options or {}, shape, nil, 'f32') end

-- Numbers from the engine's generator, those that a parameter of this name would get. options also: seed, name, std.
function eager.randn(shape, options)
    local rest = {}
    for key, value in pairs(options or {}) do rest[key] = value end
    local seed, name, std = check.seed('randn: seed', rest.seed, 0), rest.name or 'randn', rest.std or 1
    rest.seed, rest.name, rest.std = nil, nil, nil
    local t = open('randn', rest, shape, nil, 'f32')
    lib.tensor_fill(t.handle:get(), types.param_spec('randn', t.shape, { init = 'normal', std = std }), seed, name)
    return t
end

-- Calls f and frees every tensor made inside; f gives numbers, no tensors. The collector does not know how large tensors
-- are, so loops that make many should run in a scope.
function eager.scope(f)
    local outer = scope
    scope = {}
    local mine = scope
    local ok, result = xpcall(f, fail.keep_stack)
    scope = outer
    for _, handle in ipairs(mine) do handle:close() end
    if not ok then error(result, 0) end
    return result
end

-- The same tensor seen as training or not: dropout drops or not.
function eager.training(t, yes)
    return tensor.new(backend(t.backend.device, yes), t.dtype, t.shape, { handle = t.handle })
end

return eager
