-- trainer.lua - model + cuts + schedule + data + optimizer: what a script returns and the prompt holds as `run`. Making one
-- checks everything and traces the model; the ranks start with the first step. After: trainer_run.lua (the engine's run),
-- trainer_tables.lua, trainer_memory.lua, trainer_analysis.lua and trainer_compare.lua (what it says of itself), training.lua
-- (all steps, the run directory), sample.lua.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local config = require 'ppl.config'
local data = require 'ppl.data'
local fail = require 'ppl.fail'
local model = require 'ppl.model'
local optim = require 'ppl.optim'
local schedules = require 'ppl.schedules'
local count = require 'ppl.count'

local lib = capi.lib
local trainer = {}
local Trainer = {}
Trainer.__index = Trainer

-- What the command line wants of the trainer that a script makes: run (directory), name, json, quiet.
trainer.command = {}

function trainer.is(value) return getmetatable(value) == Trainer end

local keys = check.set('model', 'loss', 'data', 'eval_data', 'pipeline', 'optimizer', 'steps', 'batch', 'dtype', 'seed',
    'clip', 'device', 'name', 'eval_every', 'eval_steps', 'save_every', 'sample', 'trace_steps', 'stall_seconds', 'costs',
    'faults')
local pipeline_keys = check.set('stages', 'ranks', 'microbatches', 'schedule', 'cut', 'threads', 'recompute')
local sample_keys = check.set('prompt', 'tokens', 'temperature', 'top_k', 'seed')

local function divisors(n)
    local list = {}
    for d = 1, n do
        if n % d == 0 then list[#list + 1] = d end
    end
    return table.concat(list, ', ')
end

local function check_pipeline(options, batch)
    local p = options.pipeline or {}
    check.keys('pipeline', p, pipeline_keys)
    local m = check.integer('pipeline.microbatches', p.microbatches, 1, nil, math.min(batch, 4))
    if batch % m ~= 0 then
        fail('pipeline.microbatches: %d microbatches do not divide a batch of %d, want one of %s', m, batch, divisors(batch))
    end
    return {
        stages = check.integer('pipeline.stages', p.stages, 1, 1024, 1), microbatches = m, cut = p.cut or 'even',
        ranks = p.ranks ~= nil and check.integer('pipeline.ranks', p.ranks, 1) or nil,
        schedule = p.schedule or '1f1b', recompute = p.recompute or 'none',
        threads = p.threads ~= nil and check.integer('pipeline.threads', p.threads, 0, 1024) or 0,
    }
end

-- 'auto' is bf16 where the device multiplies it natively, as every GPU that is supported does, else f32.
local function check_dtype(dtype, device)
    check.name('trainer: dtype', dtype, { 'auto', 'f32', 'bf16', 'f64' }, 'auto')
    if dtype == nil or dtype == 'auto' then return (device == 'cuda' or lib.cpu_bf16() ~= 0) and 'bf16' or 'f32' end
    return dtype
end

local function check_faults(faults, device)
    check.keys('trainer: faults', faults, check.set('fail', 'stall', 'delay', 'delay_seed', 'copies', 'unbuffered'))
    check.number('trainer: faults.delay', faults.delay, 0, nil, 0)
    check.seed('trainer: faults.delay_seed', faults.delay_seed, 0)
    for _, kind in ipairs { 'fail', 'stall' } do
        local where, fault = 'trainer: faults.' .. kind, faults[kind]
        if fault then
            check.keys(where, fault, check.set('rank', 'task'))
            check.integer(where .. ': rank', fault.rank, 0)
            check.integer(where .. ': task', fault.task, 0)
            if device ~= 'emulated' then fail('%s: the device is %s, want emulated', where, device) end
        end
    end
    if faults.fail and faults.stall and faults.fail.rank ~= faults.stall.rank then
        fail('trainer: faults: rank %d fails and rank %d stalls, want one rank', faults.fail.rank, faults.stall.rank)
    end
    for _, name in ipairs { 'copies', 'unbuffered' } do check.boolean('trainer: faults.' .. name, faults[name], false) end
    return faults
end

-- What the emulated device goes by; other devices take what time they take.
local function check_costs(value, device)
    if value == nil then return nil end
    if device ~= 'emulated' then fail('trainer: costs: the device is %s, want emulated', device) end
    check.table('trainer: costs', value)
    if value.bytes ~= nil then fail('trainer: costs: bytes stands there, want none: the model says how large its messages are') end
    return value
end

local function check_options(options)
    check.keys('trainer', options, keys)
    if not data.is(options.data) then fail('trainer: data is %s, want a source (ppl.data.text, ...)', check.show(options.data)) end
    if options.eval_data ~= nil and not data.is(options.eval_data) then
        fail('trainer: eval_data is %s, want a source', check.show(options.eval_data))
    end
    if options.optimizer ~= nil and not optim.is(options.optimizer) then
        fail('trainer: optimizer is %s, want ppl.adamw { ... } or ppl.sgd { ... }', check.show(options.optimizer))
    end
    local device = check.name('trainer: device', options.device, { 'cpu', 'cuda', 'reference', 'emulated' }, 'cpu')
    local batch = check.integer('trainer: batch', options.batch, 1, nil, 8)
    check.keys('trainer: sample', options.sample or {}, sample_keys)
    return {
        batch = batch, pipeline = check_pipeline(options, batch), dtype = check_dtype(options.dtype, options.device),
        steps = check.integer('trainer: steps', options.steps, 1, nil, 100),
        seed = check.seed('trainer: seed', options.seed, 1),
        clip = options.clip ~= nil and optim.check_clip('trainer: clip', options.clip) or nil,
        device = device,
        name = check.text('trainer: name', options.name, trainer.command.name or 'run'),
        eval_every = check.integer('trainer: eval_every', options.eval_every, 0, nil, 0),
        eval_steps = check.integer('trainer: eval_steps', options.eval_steps, 1, nil, 4),
        save_every = check.integer('trainer: save_every', options.save_every, 0, nil, 0),
        trace_steps = check.integer('trainer: trace_steps', options.trace_steps, 1, nil, 8),
        stall_seconds = check.number('trainer: stall_seconds', options.stall_seconds, 0, nil, 0),
        faults = check_faults(options.faults or {}, device), emulated_costs = check_costs(options.costs, device),
        sample_options = options.sample,
        optimizer = options.optimizer or optim.adamw { lr = 1e-3 },
    }
end

-- Cores by ranks. Of several processes on one machine each may use all cores (mpirun --bind-to none) or a share of its own.
local function default_threads(ranks)
    local own = math.ceil(ranks / lib.host_processes())
    return capi.same_number('threads of a rank', math.max(1, math.floor(lib.host_cores() / own)))
end

-- A run that was only made shorter on the command line warms up for as long as it has steps. Both asked for, they must fit.
local function fit_warmup(optimizer, steps)
    if config.is_overridden('steps', steps) and not config.is_overridden('warmup') then return optim.clamped(optimizer, steps) end
    return optimizer
end

-- ppl.trainer { ... }: model, loss, data, pipeline and optimizer made one, which trains.
-- model, loss: layers. data: a source; eval_data: one to evaluate on (default: what data held out).
-- pipeline: stages (1), ranks (stages / chunks), microbatches (4), schedule ('1f1b': a name or path, with options as in
-- 'interleaved:chunks=3' or { name = 'interleaved', chunks = 3 }, or ppl.schedule), cut ('even', or a list of the layers, by
-- index or name, where stages 1 and on begin), threads (of a rank; 0: cores / ranks), recompute ('none', 'full', 'every 2'
-- or layers: their backward computes the forward again instead of keeping its values).
-- optimizer (adamw, lr 1e-3), steps (100), batch: samples of a step (8), dtype ('auto'), seed (1), clip: norm or { mode,
-- norm }. device: 'cpu', 'cuda', 'reference', 'emulated' (then costs, of costs.lua: { f, i, w, update, latency, bandwidth, jitter, seed,
-- ... }, seconds, and faults: fail or stall = { rank, task }: that rank's program at this position).
-- eval_every, save_every: steps between (0: at the end alone); eval_steps: batches of an evaluation. sample: { prompt,
-- tokens, temperature, top_k }: text to print at the end. trace_steps: newest steps whose tasks are kept. faults, for tests:
-- also delay (seconds at most), delay_seed: random delays before sends and tasks; copies: links copy; unbuffered: edges have
-- as few buffers as the order needs.
function trainer.new(options)
    local self = setmetatable(check_options(options), Trainer)
    self.model, self.data, self.eval_data, self.options = options.model, options.data, options.eval_data, options
    self.optimizer = fit_warmup(self.optimizer, self.steps)
    local p = self.pipeline
    self.trace = model.trace { model = options.model, loss = options.loss, inputs = self.data.inputs, dtype = self.dtype,
        samples = self.batch / p.microbatches }
    model.recompute(self.trace, p.recompute)
    self.first_layer = model.cut(self.trace, p.cut, p.stages)
    self.schedule = schedules.compile(p.schedule, { stages = p.stages, ranks = p.ranks, microbatches = p.microbatches })
    for kind, fault in pairs { fail = self.faults.fail, stall = self.faults.stall } do
        check.integer(('trainer: faults.%s: rank'):format(kind), fault.rank, 0, self.schedule.ranks - 1)
    end
    if p.threads == 0 then p.threads = default_threads(self.schedule.ranks) end
    if not self.eval_data and self.data.open_held_out then self.eval_data = self.data:held_out() end
    return self
end

-- Methods live in files by what they are about.
local function include(file)
    for name, method in pairs(require(file)) do
        if type(method) == 'function' then Trainer[name] = method end
    end
end
include 'ppl.trainer_run'
include 'ppl.trainer_tables'
include 'ppl.trainer_memory'
include 'ppl.trainer_analysis'
include 'ppl.trainer_compare'
include 'ppl.sample'
trainer.methods = Trainer

-- run:train(): all steps to the last, with progress, metrics, evaluation, checkpoints and the run directory. Ctrl-C stops it
-- after the current step. Gives { steps, first_loss, loss, eval_loss, interrupted, directory, checkpoint, seconds, tokens_per_s }.
function Trainer:train() return (require 'ppl.training'.run(self)) end -- no tail call: fail.lua looks for this frame

-- run:graph(): the engine's listing of the traced graph, a text.
function Trainer:graph() return self.trace:listing() end

function Trainer:__tostring()
    local s = self.schedule
    return ('trainer %s: %s on %s, %s, schedule %s, %s of %s, %s, step %d of %d%s'):format(
        self.name, count(#self.trace.layer_names, 'layer'), count(s.stages, 'stage'), count(s.ranks, 'rank'), s.name,
        count(s.microbatches, 'microbatch'), count(self.batch / s.microbatches, 'sample'), self.dtype,
        self:steps_done(), self.steps, self.closed and ', closed' or '')
end

return trainer
