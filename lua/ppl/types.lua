-- types.lua - dtypes and shapes between Lua and the engine: names to numbers, lists to structs, and how they print.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'

local types = {}

local names = { 'f32', 'bf16', 'f64', 'i32' }
local numbers = {}
for _, name in ipairs(names) do numbers[name] = 'PPL_' .. name:upper() end

-- The engine's number of a dtype name.
function types.dtype(where, name)
    check.name(where .. ': dtype', name, names)
    return capi.const[numbers[name]]
end

function types.dtype_name(number)
    for name, constant in pairs(numbers) do
        if capi.const[constant] == number then return name end
    end
    return '?'
end

local Shape = {}
Shape.__index = Shape
function Shape.__tostring(shape) return '(' .. table.concat(shape, ', ') .. ')' end
function Shape.__eq(a, b)
    if #a ~= #b then return false end
    for i = 1, #a do
        if a[i] ~= b[i] then return false end
    end
    return true
end

-- A list of dims that prints as "(2, 3)". Lua's list counts from 1: shape[1] is dim 0.
function types.shape(list)
    local shape = {}
    for i, n in ipairs(list) do shape[i] = tonumber(n) end
    return setmetatable(shape, Shape)
end

function types.check_shape(where, list)
    check.table(where .. ': shape', list)
    if #list > capi.const.PPL_MAX_DIMS then
        fail('%s: has %d dims, want %d at most', where, #list, capi.const.PPL_MAX_DIMS)
    end
    for i, n in ipairs(list) do check.integer(('%s: dim %d'):format(where, i - 1), n, 1) end
    return types.shape(list)
end

function types.elements(shape)
    local n = 1
    for _, dim in ipairs(shape) do n = n * dim end
    return n
end

-- A ppl_type of a dtype name and a list of dims.
function types.to_engine(where, dtype, shape)
    if #shape > capi.const.PPL_MAX_DIMS then fail('%s: has %d dims, want %d at most', where, #shape, capi.const.PPL_MAX_DIMS) end
    local t = capi.new('ppl_type')
    t.dtype, t.ndim = types.dtype(where, dtype), #shape
    for i = 0, capi.const.PPL_MAX_DIMS - 1 do t.dim[i] = shape[i + 1] or 1 end
    return t
end

-- dtype name and shape of a ppl_type.
function types.from_engine(t)
    local shape = {}
    for i = 0, t.ndim - 1 do shape[i + 1] = tonumber(t.dim[i]) end
    return types.dtype_name(t.dtype), types.shape(shape)
end

-- Initial values of a parameter as a ppl_param_spec. options: init ('normal', 'zeros', 'ones', 'uniform'), std or bound,
-- decay, frozen.
local inits = { zeros = 'PPL_INIT_ZEROS', ones = 'PPL_INIT_ONES', normal = 'PPL_INIT_NORMAL', uniform = 'PPL_INIT_UNIFORM' }
local spec_keys = check.set('init', 'std', 'bound', 'decay', 'frozen')

function types.param_spec(where, shape, options)
    options = options or {}
    check.keys(where, options, spec_keys)
    local init = check.name(where .. ': init', options.init, inits, 'normal')
    local spec = capi.new('ppl_param_spec')
    spec.init = capi.const[inits[init]]
    spec.decay = check.boolean(where .. ': decay', options.decay, #shape > 1) and 1 or 0
    spec.frozen = check.boolean(where .. ': frozen', options.frozen, false) and 1 or 0
    spec.a = init == 'uniform' and check.number(where .. ': bound', options.bound, 0, nil, 0.02)
        or check.number(where .. ': std', options.std, 0, nil, 0.02)
    return spec
end

return types
