-- ppl's side of the throughput comparison: the GPT of torch_gpt.py. Reads step counts from standard input, one a line, and
-- answers each with the seconds those steps took, so that the caller can alternate between the two programs.
local ppl = require 'ppl'

local cfg = ppl.config {
    pipeline = { stages = 1, microbatches = 1, schedule = '1f1b' },
    train = { dtype = 'f32', batch = 8 },
}
local context = 256

-- Bytes without order: the arithmetic does not depend on what they say.
local state = 1
local function window()
    local list = {}
    for i = 1, context do
        state = (state * 1103515245 + 12345) % 2147483648
        list[i] = math.floor(state / 65536) % 256
    end
    return list
end

local function batch_of(_, batch)
    local samples = {}
    for i = 1, batch do samples[i] = window() end
    return { tokens = samples, targets = samples }
end

local run = ppl.trainer {
    model = ppl.nn.gpt { layers = 6, dim = 384, heads = 6, context = context, vocabulary = 256 },
    loss = ppl.nn.cross_entropy(),
    data = ppl.data.iterator {
        inputs = { { name = 'tokens', dtype = 'i32', shape = { context } }, { name = 'targets', dtype = 'i32', shape = { context } } },
        next = batch_of,
    },
    pipeline = { stages = cfg.pipeline.stages, microbatches = cfg.pipeline.microbatches, schedule = cfg.pipeline.schedule, threads = 1 },
    optimizer = ppl.adamw { lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = { mode = 'before', norm = 1.0 } },
    batch = cfg.train.batch, dtype = cfg.train.dtype, steps = 1000000,
}

run:step(2)
io.write('ready\n')
io.flush()
for line in io.lines() do
    local begin = ppl.clock()
    run:step(tonumber(line))
    io.write(string.format('%.6f\n', ppl.clock() - begin))
    io.flush()
end
run:close()
