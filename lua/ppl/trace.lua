-- trace.lua - what happens while a model's layers run: names of parameters and nodes, where layers begin, and which
-- values come from the data. Two kinds of it: a trace writes a graph of the engine, a playback computes with eager
-- tensors (sampling, tests). Before: nn/*. After: ppl_graph_* for a trace.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local tensor = require 'ppl.tensor'
local types = require 'ppl.types'

local lib = capi.lib
local trace = {}
local current

-- The trace or playback that runs now; an error outside of one.
function trace.current(where)
    if not current then fail('%s: no model is being traced, want the call inside a layer\'s forward', where) end
    return current
end

-- ---- names, for both kinds

local Context = {}
Context.__index = Context

local function new_context(fields)
    fields.scopes, fields.counts, fields.layers, fields.specs = {}, {}, {}, {}
    return setmetatable(fields, Context)
end

-- "blocks.3.attn.qkv" of the scopes entered so far and a last name; a name that begins with '/' stands for itself.
function Context:path(name)
    if name:sub(1, 1) == '/' then return name:sub(2) end
    if #self.scopes == 0 then return name end
    return table.concat(self.scopes, '.') .. '.' .. name
end

-- The same made unique: the second "blocks.3.mlp.act" is "blocks.3.mlp.act.2".
function Context:unique(name)
    local path = self:path(name)
    self.counts[path] = (self.counts[path] or 0) + 1
    return self.counts[path] == 1 and path or path .. '.' .. self.counts[path]
end

-- Runs a layer's forward inside a scope (nil: none of its own). Layers are called through this alone.
function Context:run(name, layer, x)
    local scopes, layers = self.scopes, self.layers
    if name then scopes[#scopes + 1] = name end
    layers[#layers + 1] = layer
    local y = layer.forward(layer, x, self)
    layers[#layers] = nil
    if name then scopes[#scopes] = nil end
    if type(y) ~= 'table' or y.forward or next(y) == nil then
        fail('layer %s: forward returns %s, want a tensor or a table of tensors', self:path(name or layer.name),
            y == nil and 'nothing' or y == layer and 'the layer' or check.show(y))
    end
    return y
end

-- The layer whose forward runs now, nil at the top.
function Context:layer() return self.layers[#self.layers] end

-- Calls f with this context as the current one, also when f fails.
function Context:with(f)
    local before = current
    current = self
    local ok, result = xpcall(f, fail.keep_stack)
    current = before
    if not ok then error(result, 0) end
    return result
end

-- ---- a trace

local Graph = { kind = 'a symbolic tensor' }
Graph.__index = Graph

local function wrap(backend, value)
    local t = capi.new('ppl_type')
    lib.graph_type(backend.handle:get(), value, t)
    local dtype, shape = types.from_engine(t)
    return tensor.new(backend, dtype, shape, { value = value })
end

function Graph:apply(op, inputs, attrs)
    local list, out = {}, capi.new('ppl_value[?]', capi.const.PPL_MAX_OUTPUTS, -1)
    for i, input in ipairs(inputs) do list[i] = input.value end
    lib.graph_apply(self.handle:get(), lib.op_find(op), self.context:unique(op), capi.array('ppl_value', list), #list, attrs, out)
    local results = {}
    for i = 0, capi.const.PPL_MAX_OUTPUTS - 1 do
        if out[i] >= 0 then results[#results + 1] = wrap(self, out[i]) end
    end
    return results
end

function Graph.numbers()
    return fail('numbers: the tensor is symbolic, want an eager one: a model has no numbers while it is traced')
end
Graph.close = Graph.numbers
function Graph.print(_, x) return ('%s %s symbolic'):format(x.dtype, tostring(x.shape)) end

-- Opens a trace. options: dtype; samples: of one microbatch; inputs: list of { name, dtype, shape } of one sample.
function trace.open(options)
    local out = capi.new('ppl_graph *[1]')
    lib.graph_open(types.dtype('trace', options.dtype), out)
    local backend = setmetatable({ handle = capi.handle('graph', out[0], 'graph_close') }, Graph)
    local context = new_context { backend = backend, training = true, dtype = options.dtype, samples = options.samples,
        inputs = options.inputs, spine = true, layer_names = {} }
    backend.context = context
    return context
end

-- Begins a layer of the graph, before which a cut may lie.
function Context:begin_layer(name, weight)
    if not self.layer_names then return end
    self.layer_names[#self.layer_names + 1] = name
    lib.graph_layer(self.backend.handle:get(), name, weight)
end

local function names_of(inputs)
    local names = {}
    for i, input in ipairs(inputs) do names[i] = input.name end
    return names
end

-- The data's input of that name: a symbolic tensor (samples, ...), or what the playback was given.
function Context:input(name)
    if self.given then
        return self.given[name] or fail('input %s: was not given', check.show(name))
    end
    for _, input in ipairs(self.inputs) do
        if input.name == name then
            local dtype = input.dtype == 'i32' and 'i32' or self.dtype
            local out = capi.new('ppl_value[1]')
            local t = types.to_engine('input ' .. name, dtype, { self.samples, unpack(input.shape) })
            lib.graph_input(self.backend.handle:get(), name, t, out)
            return wrap(self.backend, out[0])
        end
    end
    local names = names_of(self.inputs)
    return fail('input %s: the data has none of that name%s, want one of %s', check.show(name),
        require 'ppl.nearest'.hint(tostring(name), names), table.concat(names, ', '))
end

-- A parameter of the current scope (or, with a leading '/', of the whole model): the same name is the same parameter.
function Context:param(name, shape, options)
    local path = self:path(check.text('param: name', name))
    local where = 'parameter ' .. path
    shape = types.check_shape(where, shape)
    if self.given then return self.parameter(path, shape) end
    local spec = types.param_spec(where, shape, options)
    local out = capi.new('ppl_value[1]')
    lib.graph_param(self.backend.handle:get(), path, #shape, capi.array('int64_t', shape), spec, out)
    self.specs[path] = self.specs[path] or spec
    return wrap(self.backend, out[0])
end

-- A parameter of another layer, by its whole name: how it begins is said where it was first used, or else by options.
function Context:tied(path, shape, options)
    local first = not self.given and self.specs[path]
    if not first then return self:param('/' .. path, shape, options) end
    local out = capi.new('ppl_value[1]')
    shape = types.check_shape('parameter ' .. path, shape)
    lib.graph_param(self.backend.handle:get(), path, #shape, capi.array('int64_t', shape), first, out)
    return wrap(self.backend, out[0])
end

-- Names the scalar that is the loss; ends tracing.
function Context:finish(loss)
    if not tensor.is(loss) or loss.backend ~= self.backend then
        fail('loss: is %s, want a symbolic tensor', check.show(loss))
    end
    lib.graph_loss(self.backend.handle:get(), loss.value)
end

-- The engine's listing of the graph.
function Context:listing()
    local needed = capi.new('size_t[1]')
    lib.graph_print(self.backend.handle:get(), capi.new('char[1]'), 1, needed)
    local bytes = tonumber(needed[0]) + 1
    local text = capi.new('char[?]', bytes)
    lib.graph_print(self.backend.handle:get(), text, bytes, needed)
    return capi.string(text)
end

function Context:graph() return self.backend.handle end

-- ---- a playback

-- parameter(path, shape) gives an eager tensor; given: eager tensors by input name.
function trace.playback(parameter, given)
    return new_context { parameter = parameter, given = given or {}, training = false, spine = false }
end

return trace
