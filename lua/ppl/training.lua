-- training.lua - run:train(): all steps of a trainer in groups that need no barrier, with progress, metrics, evaluation and
-- checkpoints. Before: a script's trainer. After: summary.lua prints what it gives.
local capi = require 'ppl.capi'
local directory = require 'ppl.run_directory'
local fail = require 'ppl.fail'
local progress = require 'ppl.progress'

local training = {}

local GROUP_SECONDS = 0.5 -- a group of steps takes about so long, so that the line is alive
local GROUP_STEPS = 8     -- of a group with weights stash, where the end of a group changes which weights the next forwards read

-- Steps until the next multiple of `every` after `done`; `left` where there is none before the end.
local function until_next(done, every, left)
    if every == 0 then return left end
    return math.min(left, every - done % every)
end

-- A run's losses must not depend on how fast it was: with weights stash groups end where the count of steps says.
local function group_size(self, step_seconds)
    local left, description = self.steps - self:steps_done(), self.schedule.description
    local n = step_seconds and math.max(1, math.floor(GROUP_SECONDS / step_seconds)) or 1
    if description and description.weights == 'stash' then n = until_next(self:steps_done(), GROUP_STEPS, left) end
    n = math.min(n, self:group_limit(), left)
    n = math.min(n, until_next(self:steps_done(), self.eval_every, left))
    return math.min(n, until_next(self:steps_done(), self.save_every, left))
end

-- Hands over one group; gives whether a signal stopped it, and the seconds of a step. state.last is its last record; steps
-- that were done are recorded before what went wrong is raised.
local function run_group(self, state, n)
    local begin, before = capi.lib.clock(), self:steps_done()
    local done, stopped, words = self:try_advance(n)
    local seconds = capi.same_number('time of steps', (capi.lib.clock() - begin) / math.max(done, 1))
    state.peak_bytes = state.peak_bytes or self:total_memory()
    local now, eval_loss = self:steps_done(), nil
    local due = now == self.steps or (self.eval_every > 0 and now % self.eval_every == 0)
    if due and not stopped and not words and self.eval_data then
        eval_loss, stopped = self:try_evaluate(self.eval_steps)
        state.eval_loss = eval_loss
    end
    for step = before, now - 1 do
        local record = self:record(step)
        state.directory:add(record, state.peak_bytes, step == now - 1 and eval_loss or nil)
        state.first_loss = state.first_loss or record.loss
        state.last = record
    end
    state.directory:flush()
    if words then fail('%s', words) end
    return stopped, seconds
end

local function loop(self, state, line)
    local stopped, seconds
    while self:steps_done() < self.steps and not stopped do
        local evaluated = state.eval_loss
        stopped, seconds = run_group(self, state, group_size(self, seconds))
        if state.last then line:update(state.last) end
        if state.eval_loss ~= evaluated and self:steps_done() < self.steps then
            line:say(('%d/%d steps  held-out loss %.4f'):format(self:steps_done(), self.steps, state.eval_loss))
        end
        if not stopped and self.save_every > 0 and self:steps_done() % self.save_every == 0 and self:steps_done() < self.steps then
            state.directory:checkpoint(self)
        end
    end
    return stopped
end

-- What training gives, as far as it went. state: also first (the step it began with) and begin (its time).
local function result_of(self, state, interrupted)
    local seconds = capi.same_number('time of the training', capi.lib.clock() - state.begin)
    local done = self:steps_done()
    return { steps = done, interrupted = interrupted, directory = state.directory.path, first_loss = state.first_loss,
        loss = state.last and state.last.loss, eval_loss = state.eval_loss, seconds = seconds,
        tokens_per_s = done > state.first and state.last.tokens * (done - state.first) / seconds or nil }
end

-- What a run that was cut short leaves: all that its finished steps can give. A run that failed has no numbers to save.
local function leave(self, state)
    if not state.last then return state.directory:discard() end
    pcall(state.directory.checkpoint, state.directory, self)
    pcall(state.directory.finish, state.directory, self, result_of(self, state, true))
    state.directory:close()
end

-- Trains to the last step. Gives { steps, first_loss, loss, eval_loss, interrupted, directory, checkpoint, seconds, tokens_per_s }.
-- A trainer has one directory: training that goes on writes on in it.
function training.run(self)
    local command = require 'ppl.trainer'.command
    local begin, first = capi.lib.clock(), self:steps_done()
    if first >= self.steps then fail('train: all %d steps are done, want run:step(n), or a larger run.steps before', self.steps) end
    self:open() -- before there is a directory: what cannot start leaves nothing behind
    local state = { directory = directory.open(command.run, self), first = first, begin = begin }
    local line = progress.new { steps = self.steps, first = first, quiet = command.quiet }
    if not command.quiet then line:say(tostring(self)) end
    local ok, stopped = self:watched(function()
        return xpcall(function() return loop(self, state, line) end, fail.keep_stack)
    end)
    line:close()
    if state.last then self.directory = state.directory.path end
    if not ok then
        leave(self, state)
        error(stopped, 0)
    end
    local result = result_of(self, state, stopped or false)
    if self:steps_done() > first then
        result.checkpoint = state.directory:checkpoint(self)
        state.directory:finish(self, result)
    end
    state.directory:close()
    return result
end

return training
