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

-- The layer index that an entry of a cut names: an index or a layer's name.
local function layer_index(entry, names)
    if type(entry) == 'string' and not tonumber(entry) then
        for i, name in ipairs(names) do
            if name == entry then return i - 1 end
        end
        fail('pipeline.cut: no layer is called %s%s, want one of %s', entry, nearest.hint(entry, names), table.concat(names, ', '))
    end
    local index = tonumber(entry)
    if not index or index % 1 ~= 0 or index < 1 or index >= #names then
        fail('pipeline.cut: layer %s is out of range, want 1 to %d (the model has %d layers; stage 0 begins at layer 0)',
            tostring(entry), #names - 1, #names)
    end
    return index
end

-- The first layer of each stage: cut is 'even', a list of where stages 1, 2, ... begin (layer indexes or names), or the same
-- as a text with commas.
function model.cut(context, cut, stages)
    local names = context.layer_names
    if #names < stages then
        fail('pipeline.stages: %d stages for %d layers (%s), want at most a stage a layer', stages, #names, table.concat(names, ', '))
    end
    if cut == 'even' then return cut_even(context:graph():get(), stages) end
    if type(cut) == 'string' then
        local list = {}
        for entry in cut:gmatch('[^,%s]+') do list[#list + 1] = entry end
        cut = list
    end
    if type(cut) ~= 'table' then fail('pipeline.cut: is %s, want \'even\' or a list of layers', check.show(cut)) end
    if #cut ~= stages - 1 then
        fail('pipeline.cut: names %d places, want %d for %d stages (where stages 1 and on begin)', #cut, stages - 1, stages)
    end
    local first = { 0 }
    for i, entry in ipairs(cut) do
        first[i + 1] = layer_index(entry, names)
        if first[i + 1] <= first[i] then
            fail('pipeline.cut: stage %d begins at layer %d, stage %d at layer %d, want ascending layers', i - 1, first[i], i,
                first[i + 1])
        end
    end
    return first
end

return model
