-- training.lua - a tiny model of 48 layers, trained under any schedule: the losses and weights, bit by bit, and the activations
-- that each rank held. Before: support.lua. After: grid_test.lua and mutate_test.lua.
local ppl = require 'ppl'
local capi = require 'ppl.capi'
local nn = ppl.nn

local training = {}

local LAYERS, DIM, CLASSES, STEPS = 48, 4, 5, 2

-- Layers that differ in what they keep for their backward.
local function model()
    local items = {}
    for i = 0, LAYERS - 2 do
        items[i + 1] = nn.layer {
            name = 'l' .. i, up = nn.linear(DIM, DIM), norm = i % 3 == 0 and nn.layernorm(DIM) or nil,
            forward = function(self, x)
                local h = self.up(self.norm and self.norm(x) or x):gelu()
                return x + (i % 8 == 0 and h:dropout(0.1) or h)
            end,
        }
    end
    items[LAYERS] = nn.linear(DIM, CLASSES)
    return nn.sequential(items)
end

local function draw(state) return state * 16807 % 2147483647 end

local function source()
    local state = 11
    return ppl.data.iterator {
        inputs = { { name = 'x', shape = { DIM } }, { name = 'targets', dtype = 'i32', shape = {} } },
        next = function(_, batch)
            local x, targets = {}, {}
            for b = 1, batch do
                x[b] = {}
                for i = 1, DIM do
                    state = draw(state)
                    x[b][i] = state % 1000 / 500 - 1
                end
                targets[b] = state % CLASSES
            end
            return { x = x, targets = targets }
        end,
    }
end

-- All weights of a run, as the bytes of their doubles.
local function weights_of(run)
    local parts = {}
    for i, info in ipairs(run:parameter_list()) do
        local host = capi.new('double[?]', info.numbers)
        capi.lib.run_read(run:open(), info.index, capi.const.PPL_PART_WEIGHT, host)
        parts[i] = capi.string(host, 8 * info.numbers)
    end
    return table.concat(parts)
end

-- Trains two steps, a sample a microbatch, in one call. options: stages, microbatches, recompute, faults, stall_seconds. Gives
-- the losses and weights as one text of bytes, and the trainer, which is closed: its stats of ranks are in .peaks, a list of {
-- measured, planned }.
function training.bits(what, options)
    local run = ppl.trainer {
        model = model(), loss = nn.cross_entropy(), data = source(), batch = options.microbatches, dtype = 'f32', steps = STEPS, seed = 7,
        pipeline = { stages = options.stages, microbatches = options.microbatches, schedule = what, threads = 1,
            recompute = options.recompute },
        optimizer = ppl.sgd { lr = 0.1, momentum = 0.9 }, faults = options.faults, stall_seconds = options.stall_seconds, trace_steps = 1,
    }
    local ok, words = pcall(run.step, run, STEPS)
    if not ok then
        run:close()
        error(words, 0)
    end
    local parts, peaks, stats = {}, {}, capi.new('ppl_rank_stats')
    for step = 0, STEPS - 1 do parts[#parts + 1] = ('%a'):format(run:record(step).loss) end
    for rank = 0, run.schedule.ranks - 1 do
        capi.lib.run_rank_stats(run:open(), rank, stats)
        peaks[rank + 1] = { stats.peak_live, stats.planned_live }
    end
    parts[#parts + 1] = weights_of(run)
    run:close()
    return table.concat(parts, ' '), peaks
end

return training
