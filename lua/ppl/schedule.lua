-- schedule.lua - the schedule language: a description whose rank function says each rank's actions, in order. Compiling it
-- for so many ranks and microbatches gives the engine's schedule, checked. Before: schedules/*.lua and scripts. After:
-- ppl_schedule_* and, for the proof, ppl_plan_abstract. schedules/README.md teaches the language.
local actions = require 'ppl.actions'
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'
local placement = require 'ppl.placement'
local timeline = require 'ppl.timeline'

local lib = capi.lib
local MOST_FORWARDS = 2 ^ 19 -- of a step: more are a slip of the hand, and would take minutes and gigabytes
local schedule = {}
local Schedule = {}
Schedule.__index = Schedule

local keys = check.set('name', 'rank', 'chunks', 'options', 'placement', 'weights', 'max_live', 'least_microbatches', 'doc',
    'paper', 'bubble', 'span', 'memory')
local weights = { sync = 'PPL_WEIGHTS_SYNC', stash = 'PPL_WEIGHTS_STASH', ['2bw'] = 'PPL_WEIGHTS_2BW' }

-- A number, or a function of (ranks, microbatches, options) that gives one.
local function check_count(where, value)
    if type(value) ~= 'function' then check.integer(where, value, 1) end
end

-- A function, or nil.
local function check_formula(where, value, arguments)
    if value ~= nil and type(value) ~= 'function' then
        fail('%s: is %s, want a function (%s)', where, check.show(value), arguments)
    end
end

-- Calls f, which runs what a script gave as the field `field`, within the instructions of so many stages and microbatches: its
-- first two results. about: the schedule.
local function within(about, field, stages, microbatches, f, ...)
    local first, second
    actions.bounded(('a %s that is found faster'):format(field), function() return ('%s: %s'):format(about, field) end, stages,
        microbatches, function(...) first, second = f(...) end, ...)
    return first, second
end

-- The same of the field's own function; the library's end, and may call a script's within bounds of their own.
local function ask(about, field, stages, microbatches, f, ...)
    if not fail.begin_of(f) then return f(...) end
    return within(about, field, stages, microbatches, f, ...)
end

-- Defaults of options: whole numbers, each from 1 (from its default where that is less).
local function check_defaults(where, defaults)
    for name, value in pairs(check.table(where, defaults, {})) do
        check.text(where .. ': a name', name)
        check.integer(('%s: %s'):format(where, name), value)
    end
    return defaults or {}
end

-- The options in force, chunks among them.
local function options_of(where, self, values)
    for key in pairs(values) do
        local known = nearest.keys(self.defaults)
        if self.defaults[key] == nil then
            fail('%s: unknown option %s%s, want %s', where, check.show(key), nearest.hint(tostring(key), known),
                known[1] and 'one of ' .. table.concat(known, ', ') or 'none')
        end
    end
    local options = {}
    for name, default in pairs(self.defaults) do
        options[name] = check.integer(('%s: %s'):format(where, name), values[name], math.min(default, 1), 1024, default)
    end
    local chunks = self.stages_each or options.chunks or 1
    if type(chunks) == 'function' then chunks = ask(where, 'chunks', 1, 1, chunks, options) end
    options.chunks = check.integer(where .. ': chunks', chunks, 1, 1024)
    return options
end

-- ppl.schedule { name, rank, ... }: name: text. rank: function (s), called once for each rank. Optional:
--   options: { name = default }: whole numbers that may be chosen with the name ('interleaved:chunks=3'); all functions
--     below get those in force as their last argument, rank functions as s.options.
--   chunks: stages of each rank (1), number or function (options); or an option of that name.
--   placement: 'loop' (stage % ranks), 'v', or function (stage, ranks, stages) -> rank. weights: 'sync', 'stash', '2bw'.
--   max_live: most live activations of a rank in stage-microbatches, proven; number or function (ranks, microbatches,
--     options). least_microbatches: likewise.
--   doc, paper: texts.
--   bubble: function (ranks, microbatches, costs, options) -> idle time of a rank in one step on its own, until the last
--     rank ends; costs = { f, i, w } of a stage. span: likewise, idle time between a rank's first and last action.
--     memory: function (ranks, microbatches, rank, options) -> peak of live activations, in stage-microbatches. All three
--     hold for equal stages and links that take no time; they give nil outside their domain, and `value, 'at most'` for a
--     bound instead of an equality.
-- build: instead of a rank function, the lists of all ranks at once (greedy.lua).
function schedule.new(where, description, build)
    local self = {}
    for key, value in pairs(description) do self[key] = value end
    check.text(where .. ': name', self.name)
    where = 'schedule ' .. self.name
    self.build = build
    if not build and type(self.rank) ~= 'function' then fail('%s: rank is %s, want a function (s)', where, check.show(self.rank)) end
    self.defaults, self.stages_each = check_defaults(where .. ': options', self.options), self.chunks
    if self.chunks ~= nil and self.defaults.chunks then fail('%s: chunks stands twice, want it as a field or an option', where) end
    self.options = options_of(where, self, {})
    self.chunks = self.options.chunks
    self.weights = check.name(where .. ': weights', self.weights, weights, 'sync')
    self.placement = placement.check(where, self.placement)
    if self.max_live ~= nil then check_count(where .. ': max_live', self.max_live) end
    if self.least_microbatches ~= nil then check_count(where .. ': least_microbatches', self.least_microbatches) end
    check_formula(where .. ': bubble', self.bubble, 'ranks, microbatches, costs, options')
    check_formula(where .. ': span', self.span, 'ranks, microbatches, costs, options')
    check_formula(where .. ': memory', self.memory, 'ranks, microbatches, rank, options')
    check.text(where .. ': doc', self.doc, '')
    check.text(where .. ': paper', self.paper, '')
    return setmetatable(self, Schedule)
end

setmetatable(schedule, { __call = function(_, description)
    check.keys('ppl.schedule', description, keys)
    return schedule.new('ppl.schedule', description)
end })

function schedule.is(value) return getmetatable(value) == Schedule end
function Schedule:__tostring() return ('schedule %s: %s'):format(self:label(), self.doc or 'no doc') end

-- The same schedule with other options: { chunks = 3 }.
function schedule.configure(description, values)
    local self = {}
    for key, value in pairs(description) do self[key] = value end
    self.options = options_of('schedule ' .. self.name, self, values)
    self.chunks = self.options.chunks
    return setmetatable(self, Schedule)
end

-- The name with the options that are not at their defaults: "interleaved:chunks=3".
function Schedule:label()
    local parts = {}
    for name, default in pairs(self.defaults) do
        if self.options[name] ~= default then parts[#parts + 1] = ('%s=%d'):format(name, self.options[name]) end
    end
    table.sort(parts)
    return self.name .. (parts[1] and ':' .. table.concat(parts, ',') or '')
end

-- "schedule mine (mine.lua:3)": its name, and where it stands unless it is the library's own.
local function about_of(self)
    local line = fail.begin_of(self.build and self.priority or self.rank) or self.line
    return ('schedule %s%s'):format(self:label(), line and (' (%s)'):format(line) or '')
end

-- What a formula ('bubble', 'span', 'memory') says: a number and '=' or 'at most'; nil where it says nothing.
-- of: costs = { f, i, w } of a stage, or the rank for 'memory'.
function Schedule:formula(name, ranks, microbatches, of)
    if not self[name] then return nil end
    local about = about_of(self)
    local value, bound = ask(about, name, ranks * self.chunks, microbatches, self[name], ranks, microbatches, of, self.options)
    if value == nil then return nil end
    about = ('%s: %s'):format(about, name)
    return check.number(about, value, 0), check.name(about .. ': the second value', bound, { '=', 'at most' }, '=')
end

-- A field that is a number or a function of (ranks, microbatches, options), as a whole number from 1; nil where there is none.
local function count(self, field, ranks, microbatches)
    local value = self[field]
    if value == nil then return nil end
    local about = about_of(self)
    if type(value) == 'function' then
        value = ask(about, field, ranks * self.chunks, microbatches, value, ranks, microbatches, self.options)
    end
    return value ~= nil and check.integer(('%s: %s'):format(about, field), value, 1) or nil
end

-- ---- what compiling gives

local Compiled = {}
Compiled.__index = Compiled

-- The texts of all actions, rank by rank.
local function cells(handle)
    local rows = {}
    local action, text = capi.new('ppl_action'), capi.new('char[64]')
    for rank = 0, lib.schedule_ranks(handle) - 1 do
        local row = {}
        for at = 0, tonumber(lib.schedule_length(handle, rank)) - 1 do
            lib.schedule_action(handle, rank, at, action)
            lib.action_print(action, text)
            row[at + 1] = capi.string(text)
        end
        rows[rank + 1] = row
    end
    return rows
end

-- What a refused schedule is called: its name, and the line that says the marked action, or where its rank function begins;
-- of a CSV file, the rank's line. Second: whether it names a line.
local function place_of(self, rank, at)
    if self.path then return ('%s:%d'):format(self.path, rank + 1), true end
    local description, line = self.description, nil
    if not description.build then
        line = at >= 0 and actions.line(description.rank, self.shape, rank, placement.own(self.shape.stage_rank, rank), at)
            or fail.begin_of(description.rank)
    end
    return ('%sschedule %s'):format(line and line .. ': ' or '', description:label()), line ~= nil
end

-- Fails with the words of a refused schedule, its place, and its grid around the marked action. self: what compiling gives.
function schedule.refuse(self, words)
    local rank, at = capi.new('int32_t[1]', -1), capi.new('int64_t[1]', -1)
    lib.schedule_mark(rank, at)
    if rank[0] < 0 then fail('%s', words) end
    local r, position = rank[0], tonumber(at[0]) -- what follows may mark another place
    local grid = timeline.grid(cells(self.handle:get()), r, position)
    local place, line = place_of(self, r, position)
    words = ('%s: %s\n\n%s'):format(place, words, table.concat(grid, '\n'))
    if line then error(words, 0) end -- it is the place: where the schedule was asked for says less
    fail('%s', words)
end

-- Order within ranks, then the abstract plan: no rank may wait for another in a circle.
local function prove(self)
    local ok, words = capi.try.schedule_check(self.handle:get())
    if not ok then schedule.refuse(self, words) end
    local plan = capi.new('ppl_plan *[1]')
    ok, words = capi.try.plan_abstract(self.handle:get(), plan)
    if not ok then schedule.refuse(self, words) end
    return capi.handle('plan', plan[0], 'plan_close', { self.handle })
end

-- from: { description, shape } or { path }.
local function compiled(from, handle)
    local self = setmetatable({ description = from.description, shape = from.shape, path = from.path, handle = handle }, Compiled)
    self.plan = prove(self)
    local raw = handle:get()
    self.name, self.ranks, self.stages = capi.string(lib.schedule_name(raw)), lib.schedule_ranks(raw), lib.schedule_stages(raw)
    self.microbatches = lib.schedule_microbatches(raw)
    self.stage_rank = {}
    for stage = 0, self.stages - 1 do self.stage_rank[stage + 1] = lib.schedule_stage_rank(raw, stage) end
    return self
end

function Compiled:get() return self.handle:get() end
-- Whether its steps flow into each other: asynchronous, with forwards that run within the step before.
function Compiled:overlaps()
    for rank = 0, self.ranks - 1 do
        if lib.plan_ahead(self.plan:get(), rank) > 0 then return true end
    end
    return false
end
function Compiled:cells() return cells(self.handle:get()) end
-- Whether the CSV form can say it: it has no words for versions of the weights.
function Compiled:has_csv() return not self.description or self.description.weights == 'sync' end
-- The compute order as a CSV file; messages: with sends and receives. plan: the compiled form of a trainer, nil for stages in a
-- chain.
function Compiled:write(path, messages, plan)
    if messages then return lib.plan_write(plan or self.plan:get(), path) end
    return lib.schedule_write(self.handle:get(), path)
end
function Compiled:close()
    self.plan:close()
    self.handle:close()
end

-- Hands each rank's list to the engine.
local function add_actions(self, where, handle, shape)
    local lists, kinds = self.build and self.build(self, about_of(self), shape), {}
    for _, kind in ipairs { 'F', 'B', 'I', 'W' } do kinds[kind] = capi.const['PPL_' .. kind] end
    for rank = 0, shape.ranks - 1 do
        local list = lists and lists[rank + 1]
            or actions.of_rank(where, self.rank, shape, rank, placement.own(shape.stage_rank, rank))
        for _, action in ipairs(list) do
            lib.schedule_add(handle, rank, kinds[action.kind], action.stage, action.microbatch, action.overlap or 0)
        end
    end
end

-- schedule.compile(description, { ranks, microbatches }): the checked schedule, on ranks * chunks stages.
function schedule.compile(description, options)
    local where = 'schedule ' .. description:label()
    local ranks = check.integer(where .. ': ranks', options.ranks, 1)
    local m = check.integer(where .. ': microbatches', options.microbatches, 1)
    local stages, about = ranks * description.chunks, about_of(description)
    if stages * m > MOST_FORWARDS then
        fail('%s: %d stages times %d microbatches are %.0f forwards, want %d at most', about, stages, m, stages * m, MOST_FORWARDS)
    end
    local least = count(description, 'least_microbatches', ranks, m)
    if least and m < least then fail('%s: %d microbatches on %d ranks, want %d at least', about, m, ranks, least) end
    local shape = { ranks = ranks, stages = stages, microbatches = m, options = description.options,
        stage_rank = within(about, 'placement', stages, m, placement.ranks, about, description.placement, ranks, stages) }
    local out = capi.new('ppl_schedule *[1]')
    lib.schedule_open(description:label(), ranks, stages, capi.array('int32_t', shape.stage_rank), m, out)
    local handle = capi.handle('schedule', out[0], 'schedule_close')
    lib.schedule_set_weights(handle:get(), capi.const[weights[description.weights]])
    local max_live = count(description, 'max_live', ranks, m)
    if max_live then lib.schedule_set_max_live(handle:get(), max_live) end
    add_actions(description, where, handle:get(), shape)
    return compiled({ description = description, shape = shape }, handle)
end

-- The checked schedule of a CSV file.
function schedule.read(path)
    local out = capi.new('ppl_schedule *[1]')
    lib.schedule_read(path, out)
    return compiled({ path = path }, capi.handle('schedule', out[0], 'schedule_close'))
end

return schedule
