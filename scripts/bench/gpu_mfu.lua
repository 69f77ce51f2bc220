-- gpu_mfu.lua - model FLOP utilisation of a GPT on one GPU: the largest of a list of sizes that the free memory has room for, by
-- one stage or by several that share the GPU; and the memory it takes beside what is planned. Prints rows for
-- scripts/gpu_check. PPL_GPU_PEAK_BF16 (TFLOP/s) says what the card could do.
local ppl = require 'ppl'
local capi = require 'ppl.capi'
local lib = capi.lib

local cfg = ppl.config {
    device = 'cuda', stages = 1, schedule = '1f1b', microbatches = 8, steps = 5, tiny = 0, dtype = 'bf16', vocabulary = 50304,
}

-- Layers, width, heads, context: about 1.3, 0.8, 0.35 and 0.12 billion parameters.
local SIZES = { { 24, 2048, 16, 2048 }, { 24, 1536, 12, 2048 }, { 24, 1024, 8, 2048 }, { 12, 768, 6, 1024 } }
if cfg.tiny == 1 then SIZES = { { 4, 64, 1, 32 } } end
local vocabulary = cfg.tiny == 1 and 256 or cfg.vocabulary

local function free_memory()
    if cfg.device ~= 'cuda' then return nil end
    local gpu = capi.new 'ppl_gpu'
    lib.gpu_get(0, gpu)
    return tonumber(gpu.free)
end

-- Tokens without order: the arithmetic does not depend on what they say.
local state = 1
local function window(context)
    local list = {}
    for i = 1, context do
        state = (state * 1103515245 + 12345) % 2147483648
        list[i] = math.floor(state / 65536) % vocabulary
    end
    return list
end

local function trainer(size)
    local context = size[4]
    local function batch_of(_, batch)
        local samples = {}
        for i = 1, batch do samples[i] = window(context) end
        return { tokens = samples, targets = samples }
    end
    return ppl.trainer {
        model = ppl.nn.gpt { layers = size[1], dim = size[2], heads = size[3], context = context, vocabulary = vocabulary },
        loss = ppl.nn.cross_entropy(),
        data = ppl.data.iterator {
            inputs = { { name = 'tokens', dtype = 'i32', shape = { context } }, { name = 'targets', dtype = 'i32', shape = { context } } },
            next = batch_of,
        },
        pipeline = { stages = cfg.stages, microbatches = cfg.microbatches, schedule = cfg.schedule, threads = 1 },
        optimizer = ppl.adamw { lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = { mode = 'before', norm = 1.0 } },
        device = cfg.device, dtype = cfg.dtype, batch = cfg.microbatches, steps = 1000000,
    }
end

-- The first size that the memory has room for, opened; else the words of the last.
local function opened()
    local words
    for _, size in ipairs(SIZES) do
        local run = trainer(size)
        local ok, why = pcall(run.open, run)
        if ok then return run, size end
        words = tostring(why)
        run:close()
        if not words:find('MiB', 1, true) then error(words, 0) end -- not for want of memory
    end
    error(words, 0)
end

local function row(what, figure, wrong)
    print(('#row\ttraining\t%s\t%s\t%s'):format(what, figure, wrong and 'WRONG: ' .. wrong or 'ok'))
end

local before = free_memory()
local run, size = opened()
local losses = { run:step(1).loss, run:step(1).loss } -- warms up
local after = free_memory()
local begin = ppl.clock()
losses[#losses + 1] = run:step(cfg.steps).loss
local seconds = (ppl.clock() - begin) / cfg.steps

local parameters, planned = 0, 0
for _, stage in ipairs(run:stage_stats()) do parameters = parameters + stage.parameters end
for _, rank in ipairs(run:rank_stats()) do planned = planned + rank.total end
-- What the model needs, not what the kernels do: 6 a parameter and token, and causal attention's two products each way.
local flops = cfg.microbatches * size[4] * (6 * parameters + 6 * size[1] * size[2] * size[4])
local tokens, peak = cfg.microbatches * size[4], tonumber(os.getenv 'PPL_GPU_PEAK_BF16' or '')
local what = ('GPT of %.2fB, %s, %d stage%s'):format(parameters / 1e9, cfg.dtype, cfg.stages, cfg.stages == 1 and '' or 's on one GPU')
local finite = losses[#losses] == losses[#losses] and math.abs(losses[#losses]) < math.huge
row(what, ('%.1f TFLOP/s%s, %.0f tokens/s, %.0f ms a step'):format(flops / seconds / 1e12,
    peak and (', %.1f %% of peak (MFU)'):format(100 * flops / seconds / 1e12 / peak) or '', tokens / seconds, seconds * 1e3),
    not finite and ('the loss is %g'):format(losses[#losses]) or nil)
if before and after then
    local GIB, held = 2 ^ 30, before - after
    -- Beside the plan: the context, the kernels' code, and a workspace and queues a rank.
    local beyond = held - planned
    row(what .. ': memory', ('%.2f GiB held, %.2f planned'):format(held / GIB, planned / GIB),
        beyond > 1.5 * GIB + 0.1 * planned and ('%.2f GiB more than planned'):format(beyond / GIB) or nil)
end
run:close()
return finite and 0 or 1
