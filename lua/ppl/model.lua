-- model.lua - a trainer's model as a graph with a cut: traces the layers over the data's inputs, then finds where each
-- stage begins. Before: nn/* and trainer.lua. After: ppl_run_open.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local layer = require 'ppl.nn.layer'
local nearest = require 'ppl.nearest'
local trace = require 'ppl.trace'

local lib = capi.lib
local model = {}

-- Traces model and loss. options: model, loss (layers), inputs (of the data), samples (of a microbatch), dtype. Gives the
-- trace, its graph's loss named.
function model.trace(options)
    for _, what in ipairs { 'model', 'loss' } do
        if not layer.is(options[what]) then fail('trainer: %s is %s, want a layer', what, check.show(options[what])) end
    end
    local context = trace.open { dtype = options.dtype, samples = options.samples, inputs = options.inputs }
    context:with(function()
        local top = options.model
        if not top.items then context:begin_layer(top.name, top.weight) end -- no sequential: one layer, uncut
        local result = context:run(nil, top, context:input(options.inputs[1].name))
        context:finish(context:run(options.loss.name, options.loss, result))
    end)
    return context
end

local function cut_even(graph, stages)
    local first = capi.new('int32_t[?]', stages)
    lib.graph_cut_even(graph, stages, first)
    local list = {}
    for stage = 0, stages - 1 do list[stage + 1] = first[stage] end
    return list
end

-- The index of `low` or more that an entry of a list names: an index or a layer's name.
local function layer_index(where, entry, names, low)
    if type(entry) == 'string' and not tonumber(entry) then
        for i, name in ipairs(names) do
            if name == entry then return i - 1 end
        end
        fail('%s: no layer is called %s%s, want one of %s', where, entry, nearest.hint(entry, names), table.concat(names, ', '))
    end
    local index = tonumber(entry)
    if not index or index % 1 ~= 0 or index < low or index >= #names then
        fail('%s: layer %s is out of range, want %d to %d of the %d layers', where, tostring(entry), low, #names - 1, #names)
    end
    return index
end

-- A text with commas as a list.
local function split(text)
    local list = {}
    for entry in text:gmatch('[^,%s]+') do list[#list + 1] = entry end
    return list
end

-- Marks the layers whose backward computes their forward again instead of keeping its values: 'none', 'full' (all but the
-- last: its backward comes at once), 'every 2' (every second one of those), or a list of layers by index or name.
function model.recompute(context, what)
    local names, graph = context.layer_names, context:graph():get()
    if what == 'none' then return end
    local list = what
    local every = what == 'full' and 1 or type(what) == 'string' and tonumber(what:match('^every (%d+)$'))
    if every == 0 then fail('pipeline.recompute: is every 0, want every 1 or more') end
    if every then
        list = {}
        for i = 0, #names - 2, every do list[#list + 1] = i end
    elseif type(what) == 'string' then
        list = split(what)
    end
    if type(list) ~= 'table' then
        fail('pipeline.recompute: is %s, want \'none\', \'full\', \'every 2\' or a list of layers', check.show(what))
    end
    for _, entry in ipairs(list) do
        lib.graph_recompute(graph, layer_index('pipeline.recompute', entry, names, 0), 1)
    end
end

-- The first layer of each stage: cut is 'even', a list of where stages 1, 2, ... begin (layer indexes or names), or the same
-- as a text with commas.
function model.cut(context, cut, stages)
    local names = context.layer_names
    if #names < stages then
        fail('pipeline.stages: %d stages for %d layers (%s), want at most a stage a layer', stages, #names, table.concat(names, ', '))
    end
    if cut == 'even' then return cut_even(context:graph():get(), stages) end
    if type(cut) == 'string' then cut = split(cut) end
    if type(cut) ~= 'table' then fail('pipeline.cut: is %s, want \'even\' or a list of layers', check.show(cut)) end
    if #cut ~= stages - 1 then
        fail('pipeline.cut: names %d places, want %d for %d stages (where stages 1 and on begin)', #cut, stages - 1, stages)
    end
    local first = { 0 }
    for i, entry in ipairs(cut) do
        first[i + 1] = layer_index('pipeline.cut', entry, names, 1) -- stage 0 begins at layer 0
        if first[i + 1] <= first[i] then
            fail('pipeline.cut: stage %d begins at layer %d, stage %d at layer %d, want ascending layers', i - 1, first[i], i,
                first[i + 1])
        end
    end
    return first
end

return model
