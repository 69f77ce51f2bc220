-- run_directory.lua - what a run leaves behind: config.yaml, metrics.jsonl, plan.csv, costs.json, summary.json,
-- trace.json and checkpoints/. Whole files appear under their names only when complete; metrics grow by whole lines. Of
-- several processes the first one writes.
local capi = require 'ppl.capi'
local config = require 'ppl.config'
local fail = require 'ppl.fail'
local json = require 'ppl.json'
local run_summary = require 'ppl.run_summary'
local yaml = require 'ppl.yaml'

local lib = capi.lib
local directory = {}
local Directory = {}
Directory.__index = Directory

local METRICS = { 'step', 'loss', 'lr', 'grad_norm', 'tokens_per_s', 'step_ms', 'bubble', 'peak_bytes', 'eval_loss' }

local function exists(path)
    local file = io.open(path, 'rb')
    if file then file:close() end
    return file ~= nil
end

-- runs/NAME, or runs/NAME-2, ... where that holds a run already.
local function free_path(name)
    local path, n = 'runs/' .. name, 1
    while exists(path .. '/metrics.jsonl') do
        n = n + 1
        path = ('runs/%s-%d'):format(name, n)
    end
    return path
end

local function write(path, text)
    if capi.leads() then lib.write_file(path, text, #text) end
end

-- The values in force: the script's settings, so that --config takes the file again, and what the trainer made of them.
local function values_of(trainer)
    local p, o, clip = trainer.pipeline, trainer.optimizer, trainer.clip or trainer.optimizer.clip
    local values = {}
    for key, value in pairs(config.current or {}) do values[key] = value end
    values[config.IN_FORCE] = {
        pipeline = { stages = p.stages, ranks = trainer.schedule.ranks, microbatches = p.microbatches,
            schedule = trainer.schedule.name, threads = p.threads, recompute = p.recompute, first_layer = trainer.first_layer },
        steps = trainer.steps, batch = trainer.batch, dtype = trainer.dtype, seed = trainer.seed, device = trainer.device,
        optimizer = { kind = o.kind == 'PPL_ADAMW' and 'adamw' or 'sgd', lr = o.lr, min_lr = o.min_lr, warmup = o.warmup,
            decay = o.decay, weight_decay = o.weight_decay, clip_mode = clip.mode, clip_norm = clip.norm },
        layers = trainer.trace.layer_names,
    }
    return values
end

-- A trainer's directory from its earlier training, to be written on in.
local function reopen(trainer)
    local file, words = io.open(trainer.directory .. '/metrics.jsonl', 'ab')
    if not file then fail('metrics: %s, want a file that can be written', words) end
    return setmetatable({ path = trainer.directory, kept = true, metrics = file }, Directory)
end

-- Makes the directory of a trainer's run and writes what is known at its start. path: nil for runs/NAME.
function directory.open(path, trainer)
    if trainer.directory and capi.leads() then return reopen(trainer) end
    if trainer.directory then return setmetatable({ path = trainer.directory }, Directory) end
    local self = setmetatable({ path = path or capi.same_text('the run directory', free_path(trainer.name)),
        made_runs = not path and not exists('runs') }, Directory)
    if not capi.leads() then return self end
    if path and exists(path .. '/metrics.jsonl') then fail('--run %s: holds a run already, want a new directory', path) end
    lib.make_directory(self.path .. '/checkpoints')
    write(self.path .. '/config.yaml', yaml.text(values_of(trainer)))
    if trainer.schedule:has_csv() then trainer.schedule:write(self.path .. '/plan.csv') end
    local words
    self.metrics, words = io.open(self.path .. '/metrics.jsonl', 'wb')
    if not self.metrics then fail('metrics: %s, want a file that can be written', words) end
    return self
end

-- One line of metrics.jsonl.
function Directory:add(record, peak_bytes, eval_loss)
    self.kept = true
    if not self.metrics then return end
    local line = { peak_bytes = peak_bytes, eval_loss = eval_loss }
    for _, key in ipairs { 'step', 'loss', 'lr', 'grad_norm', 'tokens_per_s', 'step_ms', 'bubble' } do line[key] = record[key] end
    local ok, words = self.metrics:write(json.text(line, METRICS), '\n')
    if not ok then fail('metrics: %s, want a file that can be written', words) end
end

function Directory:flush()
    if self.metrics then self.metrics:flush() end
end

-- A checkpoint after so many steps; gives its path.
function Directory:checkpoint(trainer)
    local path = ('%s/checkpoints/step-%d.safetensors'):format(self.path, trainer:steps_done())
    trainer:save(path)
    return path
end

-- What is known at the end: measured costs, what `ppl report` shows, and the trace of the newest steps. result: of
-- training.run.
function Directory:finish(trainer, result)
    local costs, stages, links = trainer:costs()
    write(self.path .. '/costs.json', json.text({ schedule = trainer.schedule.name, stages = stages, latency = costs.latency,
        update = costs.update, links = json.list(links) }, { 'schedule', 'latency', 'update', 'links', 'from', 'to', 'bytes', 'seconds',
        'stages', 'stage', 'rank' }) .. '\n')
    write(self.path .. '/summary.json', run_summary.text(run_summary.of(trainer, result)))
    lib.run_write_trace(trainer:open(), self.path .. '/trace.json')
end

-- Takes back a directory in which no step was recorded, so that a run that failed at once leaves nothing.
function Directory:discard()
    self:close()
    if self.kept or not capi.leads() then return end
    for _, name in ipairs { 'config.yaml', 'plan.csv', 'metrics.jsonl', 'checkpoints' } do os.remove(self.path .. '/' .. name) end
    os.remove(self.path) -- refuses a folder in which something else lies
    if self.made_runs then os.remove('runs') end
end

function Directory:close()
    if self.metrics then self.metrics:close() end
    self.metrics = nil
end

return directory
