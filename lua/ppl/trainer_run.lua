-- trainer_run.lua - a trainer's methods that drive the engine's run: steps, evaluation, schedules, weights, checkpoints.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local costs_of = require 'ppl.costs'
local eager = require 'ppl.eager'
local fail = require 'ppl.fail'
local optim = require 'ppl.optim'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'
local tensor = require 'ppl.tensor'
local types = require 'ppl.types'

local lib, try = capi.lib, capi.try
local methods = {}

local KEEP_STEPS = 256 -- step records that the engine keeps; a group of steps is smaller

-- { raw = the engine's options; the other fields keep what it borrows alive }
local function run_options(self)
    local p, faults = self.pipeline, self.faults
    local options = { raw = capi.new('ppl_run_options'), device = self.device,
        first_layer = capi.array('int32_t', self.first_layer) }
    local raw = options.raw
    raw.device, raw.first_layer = options.device, options.first_layer
    raw.stages, raw.samples, raw.threads = p.stages, self.batch, p.threads
    raw.seed, raw.delay_seed, raw.delay = self.seed, faults.delay_seed or 0, faults.delay or 0
    raw.copy_links, raw.least_buffers = faults.copies and 1 or 0, faults.unbuffered and 1 or 0
    raw.stall_seconds, raw.trace_steps, raw.keep_steps = self.stall_seconds, self.trace_steps, KEEP_STEPS
    optim.fill(raw.optimizer, self.optimizer, self.steps, self.clip)
    raw.fail_task = faults.fail and faults.fail.task or -1
    raw.stall_task = faults.stall and faults.stall.task or -1
    raw.fail_rank = (faults.fail or faults.stall or {}).rank or -1
    if self.device == 'emulated' then
        options.costs, options.arrays = costs_of.to_engine(costs_of.check('trainer: costs', self.emulated_costs or {}, p.stages))
        raw.costs = options.costs
    end
    return options
end

-- Opens the engine's run at first need: cuts, lays out memory, starts the ranks.
function methods:open()
    if self.closed then fail('trainer %s: is closed, want an open one', self.name) end
    if self.run then return self.run:get() end
    local options, out = run_options(self), capi.new('ppl_run *[1]')
    self.runtime = self.runtime_bytes()
    local ok, words, status =
        try.run_open(options.raw, self.trace:graph():get(), self.schedule:get(), self.data:get(), out)
    if not ok then
        if status == 'schedule' or status == 'plan' then schedule.refuse(self.schedule, words) end
        fail('%s', words)
    end
    self.run = capi.handle('trainer ' .. self.name, out[0], 'run_close',
        { self.trace:graph(), self.schedule.handle, self.data.handle })
    return out[0]
end

function methods:steps_done()
    if self.closed then return self.done_when_closed end
    return self.run and tonumber(lib.run_step(self.run:get())) or 0
end

-- Calls f while signals stop the run after its current step instead of raising errors. Calls may nest.
function methods:watched(f)
    local outer = self.is_watched
    self.is_watched = true
    if not outer then lib.host_watch(self:open()) end
    local a, b, c = f()
    self.is_watched = outer
    if not outer then lib.host_watch(nil) end
    return a, b, c
end

-- A step's record as the prompt shows it.
local Record = {}
function Record.__tostring(r)
    return ('step %d: loss %.4f, lr %.2e, gradient norm %.4g, %.1f ms'):format(r.step, r.loss, r.lr, r.grad_norm, r.step_ms)
end

-- How many steps may be handed over at once.
function methods:group_limit() return math.min(KEEP_STEPS, self.data.ahead or KEEP_STEPS) end

-- Hands the ranks n steps (within the group limit) and waits. Gives how many were done, whether a signal stopped them, and
-- the words of what went wrong: then fewer were done, and what they left is as good as before.
function methods:try_advance(n)
    local run = self:open()
    local done = capi.new('int64_t[1]')
    if self.data.feed then
        while self.data.fed < self:steps_done() + n and not self.data.ended do self.data:feed(self.batch) end
    end
    local ok, words, status = self:watched(function() return try.run_steps(run, n, done) end)
    local failed = not ok and status ~= 'stopped'
    local stopped = capi.interrupted() or not ok and not failed
    return tonumber(done[0]), stopped, failed and words or nil
end

-- The same; what goes wrong is raised.
function methods:advance(n)
    local done, stopped, words = self:try_advance(n)
    if words then fail('%s', words) end
    return done, stopped
end

-- The record of a step as a Lua table with the names of metrics.jsonl.
function methods:record(step)
    local raw = capi.new('ppl_step_record')
    lib.run_record(self:open(), step, raw)
    local seconds = raw['end'] - raw.begin
    return {
        step = tonumber(raw.step), loss = raw.loss, lr = raw.lr, grad_norm = raw.grad_norm, step_ms = seconds * 1e3,
        tokens_per_s = seconds > 0 and tonumber(raw.tokens) / seconds or 0, bubble = raw.bubble_ratio,
        link_bytes = tonumber(raw.link_bytes), clipped = raw.clipped ~= 0, peak_live = raw.peak_live, begin = raw.begin,
        finish = raw['end'], tokens = tonumber(raw.tokens),
    }
end

-- run:step(n): n more steps (1), chained without a barrier. Gives the last step's record.
function methods:step(n)
    local left = check.integer('step', n, 1, nil, 1)
    while left > 0 do
        local done, stopped = self:advance(math.min(left, self:group_limit()))
        left = left - done
        if stopped then fail('step: interrupted, %d steps are done', self:steps_done()) end
    end
    return setmetatable(self:record(self:steps_done() - 1), Record)
end

-- The mean loss over so many batches of the held-out data, and whether a signal stopped it.
function methods:try_evaluate(steps)
    if not self.eval_data then return nil end
    if self.eval_data.samples then steps = math.min(steps, math.ceil(self.eval_data.samples / self.batch)) end
    if self.eval_data.feed then
        steps = math.min(steps, self.eval_data.ahead)
        for _ = 1, steps do self.eval_data:feed(self.batch) end
    end
    local loss = capi.new('double[1]')
    local ok, words, status = self:watched(function() return try.run_evaluate(self:open(), self.eval_data:get(), steps, loss) end)
    if not ok and status ~= 'stopped' then fail('%s', words) end
    local stopped = capi.interrupted() or not ok
    return ok and loss[0] or nil, stopped
end

-- run:evaluate(steps): mean loss over so many batches of the held-out data (or all it has; of a queue 8 at most), dropout
-- off; nil where there is no such data.
function methods:evaluate(steps)
    local loss, stopped = self:try_evaluate(check.integer('evaluate: steps', steps, 1, nil, self.eval_steps))
    if stopped then fail('evaluate: interrupted') end
    return loss
end

-- run:use_schedule(s): another schedule on the same stages, between steps. s: a name with options or without, a path, a
-- table { name = 'interleaved', chunks = 2 } or ppl.schedule. Weights, optimizer state and the place in the data stay as they
-- are, bit for bit; timings begin anew.
function methods:use_schedule(what)
    local new = schedules.compile(what, { stages = self.pipeline.stages, microbatches = self.pipeline.microbatches })
    if self.run then
        local ok, words = try.run_use_schedule(self:open(), new:get())
        if not ok then schedule.refuse(new, words) end
        self.run:borrow(new.handle)
    end
    self.schedule, self.since = new, self:steps_done()
    return self
end

-- Runs f with another compiled schedule on a copy of weights and optimizer state, then puts everything back as it was: the
-- numbers, the place in the data, the timings. Gives what f gives.
function methods:trial(new, f)
    local before = { schedule = self.schedule, since = self.since }
    local ok, words = try.run_trial_begin(self:open(), new:get())
    if not ok then schedule.refuse(new, words) end
    self.data:rewind(self:steps_done())
    self.schedule, self.since = new, self:steps_done()
    local done, result = xpcall(f, fail.keep_stack)
    self.schedule, self.since = before.schedule, before.since
    lib.run_trial_end(self:open())
    self.data:rewind(self:steps_done())
    if not done then error(result, 0) end
    return result
end

-- run:save(path, weights_only): a safetensors file of the weights, and unless weights_only of the optimizer and the step.
function methods:save(path, weights_only)
    lib.run_save(self:open(), check.text('save: path', path), weights_only and 0 or 1)
    return path
end

-- run:load(path): weights, and where the file has them optimizer and step.
function methods:load(path)
    lib.run_load(self:open(), check.text('load: path', path))
    self.data:move(self:steps_done()) -- the source goes on with that step
    self.since = self:steps_done()
    return self
end

-- { name, dtype, shape, first_stage, last_stage, frozen } of all parameters, by index from 0 in .index.
function methods:parameter_list()
    local run, list, raw = self:open(), {}, capi.new('ppl_param_info')
    for i = 0, lib.run_parameters(run) - 1 do
        lib.run_parameter(run, i, raw)
        local dtype, shape = types.from_engine(raw.type)
        list[i + 1] = { index = i, name = capi.string(raw.name), dtype = dtype, shape = shape, numbers = types.elements(shape),
            first_stage = raw.first_stage, last_stage = raw.last_stage, frozen = raw.frozen ~= 0 }
    end
    return list
end

local parts = { weight = 'PPL_PART_WEIGHT', gradient = 'PPL_PART_GRADIENT', moment1 = 'PPL_PART_MOMENT1',
    moment2 = 'PPL_PART_MOMENT2' }

local function find_parameter(self, where, name)
    check.text(where .. ': name', name)
    local list, names = self:parameter_list(), {}
    for i, info in ipairs(list) do
        if info.name == name then return info end
        names[i] = info.name
    end
    return fail('%s: no parameter is called %s%s', where, check.show(name), require 'ppl.nearest'.hint(tostring(name), names))
end

-- Where the run's tensors compute when they are taken out of it.
function methods:eager_device() return self.device == 'reference' and 'reference' or 'cpu' end

-- run:tensor(name, part): a parameter as an eager f32 tensor, between steps. part: 'weight', 'gradient', 'moment1', 'moment2'.
function methods:tensor(name, part)
    local info = find_parameter(self, 'tensor', name)
    local host = capi.new('double[?]', info.numbers)
    lib.run_read(self:open(), info.index, capi.const[parts[check.name('tensor: part', part, parts, 'weight')]], host)
    return eager.of_doubles(host, info.shape, { device = self:eager_device() })
end

-- run:assign(name, tensor, part): overwrites a parameter with an eager tensor's numbers, between steps.
function methods:assign(name, t, part)
    local info = find_parameter(self, 'assign', name)
    if not tensor.is(t) then fail('assign: got %s, want a tensor of shape %s', check.show(t), tostring(info.shape)) end
    if t.shape ~= info.shape then fail('assign: %s has shape %s, want %s', name, tostring(t.shape), tostring(info.shape)) end
    lib.run_write(self:open(), info.index, capi.const[parts[check.name('assign: part', part, parts, 'weight')]],
        capi.array('double', t:numbers()))
    return self
end

-- run:close(): stops the ranks and frees everything; safe twice.
function methods:close()
    if self.closed then return end
    self.done_when_closed = self:steps_done()
    self.closed = true
    if self.is_watched then lib.host_watch(nil) end
    if self.run then self.run:close() end
    self.schedule:close()
    self.trace:graph():close()
end

return methods
