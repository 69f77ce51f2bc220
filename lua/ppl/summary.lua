-- summary.lua - what the command line prints when a trainer has trained: losses, the table of stages, the timeline of the
-- last step and a sample; or all of it as one JSON object.
local capi = require 'ppl.capi'
local json = require 'ppl.json'
local tables = require 'ppl.table'

local summary = {}

-- The sample that the script asked for; each: gets every new byte.
local function sample_of(trainer, each)
    local s = trainer.sample_options
    return trainer:sample(s.prompt or '\n', s.tokens or 200,
        { temperature = s.temperature, top_k = s.top_k, seed = s.seed, each = each })
end

local function print_sample(trainer)
    local function write(text)
        io.stdout:write(text)
        io.stdout:flush()
    end
    write('\nsample:\n' .. (trainer.sample_options.prompt or '\n'))
    sample_of(trainer, write)
    print()
end

local ORDER = { 'name', 'steps', 'interrupted', 'first_loss', 'loss', 'eval_loss', 'tokens_per_s', 'seconds', 'iteration_ms',
    'bubble_ratio', 'bubble_overhead', 'schedule', 'directory', 'checkpoint', 'stages', 'ranks', 'theory', 'simulated', 'sample',
    'stage', 'rank' }

local function print_json(trainer, result, timings, sample)
    local object = {}
    for key, value in pairs(result) do object[key] = value end
    object.name, object.schedule, object.sample = trainer.name, trainer.schedule.name, sample
    if timings then
        local measured = timings.bubble.measured
        object.bubble_ratio, object.bubble_overhead, object.iteration_ms = measured.ratio, measured.overhead, measured.iteration_ms
        object.stages, object.ranks = timings.rows, timings.ranks
        for _, kind in ipairs { 'theory', 'simulated' } do
            local b = timings.bubble[kind]
            object[kind] = b and { bubble_ratio = b.ratio, bubble_overhead = b.overhead, iteration_ms = b.iteration_ms }
        end
    end
    print(json.text(object, ORDER))
end

local function print_text(trainer, result, timings, with_sample)
    local loss = result.loss and ('loss %.4f -> %.4f'):format(result.first_loss, result.loss) or 'no step was done'
    if result.eval_loss then loss = loss .. (', held out %.4f'):format(result.eval_loss) end
    print(('%s: %d steps in %s, %s%s'):format(trainer.name, result.steps, tables.clock(result.seconds), loss,
        result.tokens_per_s and (', %s tokens/s'):format(tables.thousands(math.floor(result.tokens_per_s))) or ''))
    if timings then
        print('\n' .. tostring(timings))
        print(('\nstep %d, schedule %s:'):format(trainer:steps_done() - 1, trainer.schedule.name))
        print(tostring(trainer:timeline()))
    end
    if with_sample then print_sample(trainer) end
    print(('\nwritten to %s/'):format(result.directory))
end

-- Trains and prints; gives the exit status.
function summary.train(trainer, options)
    local result = trainer:train()
    local timings = result.steps > 0 and trainer:timings() or nil
    local with_sample = trainer.sample_options ~= nil and not result.interrupted and result.steps > 0
    if options.json then
        print_json(trainer, result, timings, with_sample and sample_of(trainer) or nil)
    elseif not options.quiet then
        print_text(trainer, result, timings, with_sample)
    end
    if not result.interrupted then return 0 end
    capi.lib.host_interrupted()
    io.stdout:flush()
    if not capi.leads() then return 1 end
    io.stderr:write(('ppl: interrupted after %d of %d steps\n'):format(result.steps, trainer.steps))
    return 1
end

return summary
