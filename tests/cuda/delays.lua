-- delays.lua - every schedule of the library over both links on the emulated device, with kernels that do next to nothing, in
-- many orders: a seed decides in which order streams and blocks go on, how long tasks and values wait, how many ranks and
-- microbatches there are. Nothing hangs, and whatever the seed and the link the bits are the same: with synchronous
-- schedules those of one stage. Edges have as few buffers as the order needs. Run by delays.sh; 5 seeds a schedule and link,
-- or with PPL_TEST_FULL=1 100.
package.path = 'tests/lua/?.lua;' .. package.path
local ffi = require 'ffi'
local ppl = require 'ppl'
local schedules = require 'ppl.schedules'
local T = require 'support'
local nn = ppl.nn

ffi.cdef [[
void emu_set_devices(int count);
void emu_set_seed(uint64_t seed);
const char *emu_report(void);
]]

local SEEDS = os.getenv 'PPL_TEST_FULL' == '1' and 100 or 5
local LAYERS, DIM, STEPS = 12, 4, 2

local function model()
    local items = {}
    for i = 1, LAYERS do
        items[i] = nn.layer {
            name = 'l' .. i,
            forward = function(self, x) return x * self:param('w', { DIM }, { std = 0.5 }) end,
        }
    end
    return nn.sequential(items)
end

local function source()
    local state = 11
    return ppl.data.iterator {
        inputs = { { name = 'x', shape = { DIM } }, { name = 'targets', shape = { DIM } } },
        next = function(_, batch)
            local x = {}
            for b = 1, batch do
                x[b] = {}
                for i = 1, DIM do
                    state = state * 16807 % 2147483647
                    x[b][i] = state % 1000 / 500 - 1
                end
            end
            return { x = x, targets = x }
        end,
    }
end

-- Losses and weights as text, every bit of them.
local function bits(what, stages, microbatches, faults)
    local run = ppl.trainer {
        model = model(), loss = nn.mse(), data = source(), batch = microbatches, dtype = 'f32', steps = STEPS, seed = 7,
        device = 'cuda', pipeline = { stages = stages, microbatches = microbatches, schedule = what, threads = 1 },
        optimizer = ppl.sgd { lr = 0.1, momentum = 0.9 }, faults = faults, stall_seconds = 60, trace_steps = 1,
    }
    local ok, words = pcall(run.step, run, STEPS)
    local parts = {}
    for step = 0, ok and STEPS - 1 or -1 do parts[#parts + 1] = ('%a'):format(run:record(step).loss) end
    for _, info in ipairs(ok and run:parameter_list() or {}) do
        for _, x in ipairs(run:tensor(info.name):numbers()) do parts[#parts + 1] = ('%a'):format(x) end
    end
    run:close()
    if not ok then error(words, 0) end
    return table.concat(parts, ' ')
end

-- All of the library but second names.
local function all()
    local list, seen = {}, {}
    for _, name in ipairs(schedules.names()) do
        local description = schedules.find(name)
        if not seen[description] then list[#list + 1] = name end
        seen[description] = true
    end
    return list
end

local known = {}
local function baseline(what, stages, microbatches)
    local sync = schedules.find(what).weights == 'sync'
    local key = sync and microbatches or ('%s %d %d'):format(what, stages, microbatches)
    if not known[key] then
        ffi.C.emu_set_devices(1)
        known[key] = bits(sync and 'naive' or what, sync and 1 or stages, microbatches)
    end
    return known[key]
end

local function check(what, gpus, seed)
    local chunks = schedules.find(what).chunks
    local ranks, microbatches = 2 + seed % 3, 4 * (1 + seed % 2)
    if chunks > 1 then ranks = 2 + seed % 2 end
    local want = baseline(what, ranks * chunks, microbatches)
    ffi.C.emu_set_devices(gpus == 1 and 1 or ranks)
    ffi.C.emu_set_seed(seed)
    local is = bits(what, ranks * chunks, microbatches, { delay_seed = seed, delay = 2e-5, unbuffered = seed % 2 == 1 })
    ffi.C.emu_set_seed(0)
    if is ~= want then error(('%s, %d ranks, seed %d: other bits'):format(what, ranks, seed), 0) end
    local said = ffi.string(ffi.C.emu_report())
    if said ~= '' then error(said, 0) end
end

for _, what in ipairs(all()) do
    for _, link in ipairs { 'one GPU', 'NCCL' } do
        T.case(('cuda: %s over %s, %d seeds'):format(what, link, SEEDS), function()
            for seed = 1, SEEDS do check(what, link == 'NCCL' and 2 or 1, seed) end
        end)
    end
end
print(('%d passed, %d failed, %d skipped'):format(T.passed, T.failed, T.skipped))
return T.failed > 0 and 1 or 0
