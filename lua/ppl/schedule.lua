-- schedule.lua - the schedule language: a description whose rank function says each rank's actions, in order. Compiling it
-- for so many ranks and microbatches gives the engine's schedule, checked. Before: schedules/*.lua and scripts. After:
-- ppl_schedule_* and, for the proof, ppl_plan_abstract.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local placement = require 'ppl.placement'
local timeline = require 'ppl.timeline'

local lib = capi.lib
local schedule = {}
local Schedule = {}
Schedule.__index = Schedule

local keys = check.set('name', 'rank', 'chunks', 'placement', 'weights', 'max_live', 'least_microbatches', 'doc', 'paper',
    'bubble', 'memory')
local weights = { sync = 'PPL_WEIGHTS_SYNC', stash = 'PPL_WEIGHTS_STASH', ['2bw'] = 'PPL_WEIGHTS_2BW' }

-- A number, or a function of (ranks, microbatches) that gives one.
local function check_count(where, value)
    if type(value) ~= 'function' then check.integer(where, value, 1) end
end

-- ppl.schedule { name, rank, ... }: name: text. rank: function (s), called once for each rank. Optional: chunks: stages of
-- each rank (1). placement: 'loop' (stage % ranks), 'v', or function (stage, ranks, stages) -> rank. weights: 'sync',
-- 'stash', '2bw'. max_live: most live activations of a rank in stage-microbatches, number or function (ranks,
-- microbatches). least_microbatches: likewise. doc, paper: texts. bubble: function (ranks, microbatches, costs, chunks) ->
-- idle time of a rank in a step, costs = { f, i, w } of a stage. memory: function (ranks, microbatches, rank) -> peak
-- activations.
local function new(_, description)
    check.keys('ppl.schedule', description, keys)
    local self = {}
    for key, value in pairs(description) do self[key] = value end
    check.text('ppl.schedule: name', self.name)
    local where = 'schedule ' .. self.name
    if type(self.rank) ~= 'function' then fail('%s: rank is %s, want a function (s)', where, check.show(self.rank)) end
    self.chunks = check.integer(where .. ': chunks', self.chunks, 1, nil, 1)
    self.weights = check.name(where .. ': weights', self.weights, weights, 'sync')
    self.placement = placement.check(where, self.placement)
    if self.max_live ~= nil then check_count(where .. ': max_live', self.max_live) end
    if self.least_microbatches ~= nil then check_count(where .. ': least_microbatches', self.least_microbatches) end
    return setmetatable(self, Schedule)
end
setmetatable(schedule, { __call = new })

function schedule.is(value) return getmetatable(value) == Schedule end
function Schedule:__tostring() return ('schedule %s: %s'):format(self.name, self.doc or 'no doc') end

local function count(value, ranks, microbatches)
    if type(value) == 'function' then return value(ranks, microbatches) end
    return value
end

-- ---- collecting a rank's actions

-- What one rank's list may take: room for every mistake that a complete list of F, I and W can hold, and instructions for
-- a rank function that looks at all microbatches for each action.
local function action_limit(stages, microbatches) return 8 * stages * microbatches + 64 end
local function instruction_limit(stages, microbatches) return 2e7 + 1000 * stages * microbatches end

-- The s of a rank function. list receives { kind, chunk, microbatch, overlap }.
local function recorder(where, ranks, rank, own, stages, microbatches)
    local list, pairs_made = {}, 0
    local limit = action_limit(#own, microbatches)
    local s = { ranks = ranks, rank = rank, stages = stages, chunks = #own, microbatches = microbatches }
    local function add(kind, microbatch, chunk)
        chunk = chunk == nil and 0 or chunk
        local at = ('%s, rank %d, position %d: %s'):format(where, rank, #list, kind)
        check.integer(at .. ': the microbatch', microbatch)
        check.integer(at .. ': the chunk', chunk, 0, #own - 1)
        if microbatch < 0 or microbatch >= microbatches then
            fail('%s of microbatch %d, want 0 to %d', at, microbatch, microbatches - 1)
        end
        if #list >= limit then
            fail('%s, rank %d: has more than %d actions and goes on, want the actions of %d stage%s and %d microbatches: does it end?',
                where, rank, limit, #own, #own == 1 and '' or 's', microbatches)
        end
        list[#list + 1] = { kind = kind, stage = own[chunk + 1], microbatch = microbatch, overlap = 0 }
        return #list
    end
    for _, kind in ipairs { 'F', 'B', 'I', 'W' } do
        s[kind] = function(microbatch, chunk) return add(kind, microbatch, chunk) end
    end
    -- s.overlap(s.F(5), s.B(1)): the two may run at once.
    function s.overlap(a, b)
        if b ~= #list or a ~= b - 1 then
            fail('%s, rank %d: overlap joins actions %s and %s, want the last two: s.overlap(s.F(5), s.B(1))', where, rank,
                tostring(a), tostring(b))
        end
        pairs_made = pairs_made + 1
        list[a].overlap, list[b].overlap = pairs_made, pairs_made
    end
    -- The stage of a chunk of this rank.
    function s.stage(chunk) return own[(chunk or 0) + 1] end
    return s, list
end

-- Calls a rank function within its bounds.
local function collect(self, where, s, list, stages, microbatches)
    lib.host_budget(instruction_limit(stages, microbatches))
    local ok, err = pcall(self.rank, s)
    lib.host_budget(0)
    if ok then return list end
    if tostring(err):find('all the instructions it may take', 1, true) then
        fail('%s, rank %d: %s; want a rank function that ends (it gave %d actions)', where, s.rank, tostring(err), #list)
    end
    return error(err, 0)
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

-- Fails with the words of a refused schedule and its grid around the marked place.
function schedule.refuse(handle, words)
    local rank, at = capi.new('int32_t[1]', -1), capi.new('int64_t[1]', -1)
    lib.schedule_mark(rank, at)
    if rank[0] < 0 then fail('%s', words) end
    local grid = timeline.grid(cells(handle), rank[0], tonumber(at[0]))
    fail('%s\n\n%s', words, table.concat(grid, '\n'))
end

-- Order within ranks, then the abstract plan: no rank may wait for another in a circle.
local function prove(handle)
    local ok, words = capi.try.schedule_check(handle:get())
    if not ok then schedule.refuse(handle:get(), words) end
    local plan = capi.new('ppl_plan *[1]')
    ok, words = capi.try.plan_abstract(handle:get(), plan)
    if not ok then schedule.refuse(handle:get(), words) end
    return capi.handle('plan', plan[0], 'plan_close', { handle })
end

local function compiled(description, handle)
    local self = setmetatable({ description = description, handle = handle }, Compiled)
    self.plan = prove(handle)
    local raw = handle:get()
    self.name, self.ranks, self.stages = capi.string(lib.schedule_name(raw)), lib.schedule_ranks(raw), lib.schedule_stages(raw)
    self.microbatches = lib.schedule_microbatches(raw)
    self.stage_rank = {}
    for stage = 0, self.stages - 1 do self.stage_rank[stage + 1] = lib.schedule_stage_rank(raw, stage) end
    return self
end

function Compiled:get() return self.handle:get() end
function Compiled:cells() return cells(self.handle:get()) end
function Compiled:write(path) lib.schedule_write(self.handle:get(), path) end
function Compiled:close()
    self.plan:close()
    self.handle:close()
end

-- schedule.compile(description, { ranks, microbatches }): the checked schedule, on ranks * chunks stages.
function schedule.compile(description, options)
    local where = 'schedule ' .. description.name
    local ranks = check.integer(where .. ': ranks', options.ranks, 1)
    local m = check.integer(where .. ': microbatches', options.microbatches, 1)
    local stages = ranks * description.chunks
    local least = count(description.least_microbatches, ranks, m)
    if least and m < least then fail('%s: %d microbatches on %d ranks, want %d at least', where, m, ranks, least) end
    local stage_rank = placement.ranks(where, description.placement, ranks, stages)
    local out = capi.new('ppl_schedule *[1]')
    lib.schedule_open(description.name, ranks, stages, capi.array('int32_t', stage_rank), m, out)
    local handle = capi.handle('schedule', out[0], 'schedule_close')
    lib.schedule_set_weights(handle:get(), capi.const[weights[description.weights]])
    if description.max_live then lib.schedule_set_max_live(handle:get(), count(description.max_live, ranks, m)) end
    for rank = 0, ranks - 1 do
        local own = placement.own(stage_rank, rank)
        local s, list = recorder(where, ranks, rank, own, stages, m)
        for _, action in ipairs(collect(description, where, s, list, #own, m)) do
            lib.schedule_add(handle:get(), rank, capi.const['PPL_' .. action.kind], action.stage, action.microbatch,
                action.overlap)
        end
    end
    return compiled(description, handle)
end

-- The checked schedule of a CSV file.
function schedule.read(path)
    local out = capi.new('ppl_schedule *[1]')
    lib.schedule_read(path, out)
    return compiled(nil, capi.handle('schedule', out[0], 'schedule_close'))
end

return schedule
