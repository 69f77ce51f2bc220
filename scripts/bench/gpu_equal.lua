-- gpu_equal.lua - trains a small GPT on a device by one stage and by several with different schedules: losses and weights must be
-- the same to the last bit, and near the CPU's. Prints rows for scripts/gpu_check.
local ppl = require 'ppl'

local cfg = ppl.config {
    device = 'cuda', part = 'training', steps = 4, cpu = 1, stages = 4, dtype = 'bf16',
    schedules = { '1f1b', 'gpipe', 'zb-h1' },
    model = { layers = 8, dim = 256, heads = 4, context = 128 },
    batch = 8, microbatches = 4,
}

local function trainer(device, stages, schedule)
    return ppl.trainer {
        model = ppl.nn.gpt(cfg.model), loss = ppl.nn.cross_entropy(),
        data = ppl.data.text { files = { 'README.md' }, context = cfg.model.context },
        pipeline = { stages = stages, microbatches = cfg.microbatches, schedule = schedule, threads = 1 },
        optimizer = ppl.adamw { lr = 1e-3, clip = { mode = 'before', norm = 1.0 } },
        device = device, dtype = cfg.dtype, batch = cfg.batch, steps = cfg.steps,
    }
end

-- What a run came to, as exact texts: its losses, and the norm of every parameter.
local function outcome(device, stages, schedule)
    local run, losses, exact = trainer(device, stages, schedule), {}, {}
    for step = 1, cfg.steps do
        losses[step] = run:step(1).loss
        exact[step] = ('%.17g'):format(losses[step])
    end
    for _, row in ipairs(run:parameters().rows) do exact[#exact + 1] = ('%s %.17g'):format(row.name, row.norm) end
    run:close()
    return losses, exact
end

local function row(what, figure, wrong)
    print(('#row\t%s\t%s\t%s\t%s'):format(cfg.part, what, figure, wrong and 'WRONG: ' .. wrong or 'ok'))
end

local function first_difference(a, b)
    for i = 1, math.max(#a, #b) do
        if a[i] ~= b[i] then return ('%s, want %s'):format(tostring(b[i]), tostring(a[i])) end
    end
end

local losses, exact = outcome(cfg.device, 1, '1f1b')
local shown = ('loss %.4f, %d parameters'):format(losses[#losses], #exact - cfg.steps)
local failed = false
if cfg.cpu == 1 then
    local want = outcome('cpu', 1, '1f1b')
    local allowed, apart, near = cfg.dtype == 'bf16' and 2e-2 or 1e-3, 0, true
    for i, loss in ipairs(losses) do
        local by = math.abs(loss - want[i]) / want[i]
        near, apart = near and by < allowed, math.max(apart, by) -- a NaN is not near
    end
    local wrong = not near and ('losses are off by more than %.2g of the CPU\'s'):format(allowed)
    row('1 stage beside the CPU', ('losses differ by %.1g of theirs'):format(apart), wrong or nil)
    failed = failed or wrong
end
for _, schedule in ipairs(cfg.schedules) do
    local _, is = outcome(cfg.device, cfg.stages, schedule)
    local wrong = first_difference(exact, is)
    row(('%d stages, %s, beside 1: the same bits'):format(cfg.stages, schedule), shown, wrong)
    failed = failed or wrong
end
return failed and 1 or 0
