-- data.lua - where a trainer's samples come from. A source names its inputs (the first is what the model takes; "targets"
-- is what the loss reads) and owns the engine's side. After: ppl_data_* and trainer.lua.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local types = require 'ppl.types'

local lib = capi.lib
local data = {}

-- A source: { inputs = { { name, dtype, shape of one sample } }, handle, samples in an epoch or nil, ahead: steps that may
-- be fed at once or nil where nothing need be fed, feed(self, batch) }.
local Source = {}
Source.__index = Source

function data.is(value) return getmetatable(value) == Source end

local function source(fields) return setmetatable(fields, Source) end

function Source:get() return self.handle:get() end
function Source:close() self.handle:close() end
function Source:__tostring()
    local parts = {}
    for i, input in ipairs(self.inputs) do
        parts[i] = ('%s %s %s'):format(input.name, input.dtype, tostring(types.shape(input.shape)))
    end
    return ('%s: %s a sample, %s samples'):format(self.kind, table.concat(parts, ', '), self.samples or 'unknown number of')
end

-- The part held out for evaluation; nil where there is none.
function Source:held_out() return self.open_held_out and self.open_held_out() or nil end

-- ---- text

local text_keys = check.set('files', 'context', 'held_out', 'seed')

local function open_text(options, part)
    local out = capi.new('ppl_data *[1]')
    local files = capi.strings(options.files)
    lib.data_text(files, #options.files, options.context, options.held_out, part, options.seed, out)
    local handle = capi.handle('data', out[0], 'data_close')
    local shape = { options.context }
    return source {
        kind = 'text', handle = handle, samples = tonumber(lib.data_samples(handle:get())), bytes_as_text = true,
        inputs = { { name = 'tokens', dtype = 'i32', shape = shape }, { name = 'targets', dtype = 'i32', shape = shape } },
    }
end

-- ppl.data.text { files = { 'a.txt' }, context, held_out = 0.05, seed = 1 }: bytes of files as tokens. Tokens are 0 to 255; a
-- sample is a window of `context` tokens and the same moved by one as targets. held_out: the fraction at the end of each file
-- that is kept for evaluation.
function data.text(options)
    check.keys('ppl.data.text', options, text_keys)
    local files = check.table('ppl.data.text: files', options.files)
    if #files == 0 then fail('ppl.data.text: files is empty, want at least one path') end
    for i, file in ipairs(files) do check.text(('ppl.data.text: file %d'):format(i - 1), file) end
    local settings = {
        files = files, context = check.integer('ppl.data.text: context', options.context, 1),
        held_out = check.number('ppl.data.text: held_out', options.held_out, 0, 0.9, 0.05),
        seed = check.seed('ppl.data.text: seed', options.seed, 1),
    }
    local self = open_text(settings, 0)
    self.again = function() return open_text(settings, 0) end
    if settings.held_out > 0 then
        self.open_held_out = function() return open_text(settings, 1) end
    end
    return self
end

-- ---- queues that Lua fills

local AHEAD = 8 -- steps whose samples may wait in the engine

local function check_inputs(where, inputs)
    check.table(where .. ': inputs', inputs)
    local result = {}
    for i, input in ipairs(inputs) do
        local at = ('%s: input %d'):format(where, i - 1)
        check.keys(at, input, check.set('name', 'dtype', 'shape'))
        result[i] = {
            name = check.text(at .. ': name', input.name), shape = types.check_shape(at, input.shape or {}),
            dtype = check.name(at .. ': dtype', input.dtype, { 'f32', 'i32' }, 'f32'),
        }
    end
    if #result == 0 then fail('%s: has no inputs, want at least 1', where) end
    return result
end

local function open_queue(inputs)
    local names, sample_types = {}, capi.new('ppl_type[?]', #inputs)
    for i, input in ipairs(inputs) do
        names[i] = input.name
        sample_types[i - 1] = types.to_engine('input ' .. input.name, input.dtype, input.shape)
    end
    local out = capi.new('ppl_data *[1]')
    lib.data_queue(#inputs, capi.strings(names), sample_types, AHEAD, out)
    return capi.handle('data', out[0], 'data_close')
end

-- Writes nested lists of numbers into an array from `at` on; gives the position behind them. whole: they are i32. Second
-- result: the first number that cannot be one.
local function flatten(array, at, limit, value, whole)
    if type(value) == 'number' then
        if whole and (value % 1 ~= 0 or value < -2 ^ 31 or value >= 2 ^ 31) then return at, value end
        if at < limit then array[at] = value end
        return at + 1
    end
    if type(value) ~= 'table' then return limit + 1 end
    local bad
    for _, item in ipairs(value) do
        at, bad = flatten(array, at, limit, item, whole)
        if bad then return at, bad end
    end
    return at
end

-- Hands one step's samples (by input name, lists of samples) to the engine.
local function push(self, where, step)
    local count
    local arrays = { pointers = capi.new('const void *[?]', #self.inputs) } -- holds the arrays during the call
    for i, input in ipairs(self.inputs) do
        local samples = step[input.name]
        if type(samples) ~= 'table' then
            fail('%s: %s is %s, want a list of samples', where, input.name, check.show(samples))
        end
        count = count or #samples
        if #samples ~= count then fail('%s: %s has %d samples, want %d', where, input.name, #samples, count) end
        local each = types.elements(input.shape)
        local array = capi.new(input.dtype == 'i32' and 'int32_t[?]' or 'float[?]', math.max(1, count * each))
        for s, sample in ipairs(samples) do
            local behind, bad = flatten(array, (s - 1) * each, s * each, sample, input.dtype == 'i32')
            if bad then
                fail('%s: sample %d of %s, number %d: is %s, want a whole number that 32 bits hold', where, s - 1, input.name,
                    behind - (s - 1) * each, tostring(bad))
            end
            if behind ~= s * each then
                fail('%s: sample %d of %s: want %d numbers as of shape %s', where, s - 1, input.name, each,
                    tostring(types.shape(input.shape)))
            end
        end
        arrays[i], arrays.pointers[i - 1] = array, array
    end
    lib.data_push(self:get(), count, arrays.pointers)
end

-- Feeds one step of `batch` samples; a source whose iterator has ended tells the engine so.
local function feed(self, batch)
    if self.ended then return end
    local step = self.recent[self.fed] or self.next_step(self.fed, batch)
    if step == nil then
        self.ended = true
        lib.data_end(self:get())
        return
    end
    push(self, ('%s, step %d'):format(self.kind, self.fed), check.table(self.kind .. ': a step', step))
    self.recent[self.fed], self.recent[self.fed - AHEAD] = step, nil
    self.fed = self.fed + 1
end

-- Goes back to a step: what was fed from there on is fed again, the same samples. The engine's queue has been emptied.
function Source:rewind(step)
    if not self.feed then return end
    self.fed, self.ended = step, false
end

-- Goes to a step of another course of the training: what was fed is forgotten.
function Source:move(step)
    if not self.feed then return end
    self.fed, self.recent = step, {}
end

-- ppl.data.iterator { inputs = { { name, dtype = 'f32', shape = {} } }, next = function (step, batch) }: samples that a
-- function makes. next gives a table with a list of samples for each input, or nil at the end. Called between steps, up to 8 steps ahead.
function data.iterator(options)
    check.keys('ppl.data.iterator', options, check.set('inputs', 'next'))
    local inputs = check_inputs('ppl.data.iterator', options.inputs)
    if type(options.next) ~= 'function' then
        fail('ppl.data.iterator: next is %s, want a function (step, batch)', check.show(options.next))
    end
    return source { kind = 'iterator', inputs = inputs, handle = open_queue(inputs), next_step = options.next, fed = 0, recent = {},
        feed = feed, ahead = AHEAD }
end

-- A fixed order of n samples for an epoch: a shuffle by (seed, epoch), the same on every machine.
local function order(n, seed, epoch)
    local list = {}
    for i = 1, n do list[i] = i end
    local state = (seed * 7919 + epoch * 104729 + 1) % 2147483647
    for i = n, 2, -1 do
        state = state * 16807 % 2147483647 -- Park and Miller's minimal generator
        local j = state % i + 1
        list[i], list[j] = list[j], list[i]
    end
    return list
end

-- ppl.data.table { inputs = { { name, dtype, shape } }, samples = { x = { ... }, targets = { ... } }, shuffle = true,
-- seed = 1 }: lists of samples in memory, gone through again and again.
function data.table(options)
    check.keys('ppl.data.table', options, check.set('inputs', 'samples', 'shuffle', 'seed'))
    local inputs = check_inputs('ppl.data.table', options.inputs)
    check.table('ppl.data.table: samples', options.samples)
    local first = options.samples[inputs[1].name]
    local n = type(first) == 'table' and #first or 0
    if n == 0 then fail('ppl.data.table: %s has no samples, want at least 1', inputs[1].name) end
    for _, input in ipairs(inputs) do
        local list = options.samples[input.name]
        if type(list) ~= 'table' or #list ~= n then
            fail('ppl.data.table: %s has %s samples, want %d', input.name, type(list) == 'table' and #list or 'no', n)
        end
    end
    local shuffle = check.boolean('ppl.data.table: shuffle', options.shuffle, true)
    local seed = check.seed('ppl.data.table: seed', options.seed, 1) % 2 ^ 31
    local epoch, places
    local function next_step(step, batch)
        local result = {}
        for _, input in ipairs(inputs) do result[input.name] = {} end
        for i = 0, batch - 1 do
            local at = step * batch + i
            if math.floor(at / n) ~= epoch then
                epoch = math.floor(at / n)
                places = shuffle and order(n, seed, epoch) or nil
            end
            local place = places and places[at % n + 1] or at % n + 1
            for _, input in ipairs(inputs) do result[input.name][i + 1] = options.samples[input.name][place] end
        end
        return result
    end
    return source { kind = 'table', inputs = inputs, handle = open_queue(inputs), next_step = next_step, fed = 0, recent = {}, feed = feed,
        ahead = AHEAD, samples = n }
end

return data
