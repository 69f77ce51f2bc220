-- greedy.lua - a schedule by rule instead of by list: ppl.schedule.greedy { ... } names what is more urgent and how much a
-- rank may hold, and a list scheduler makes the order from costs. Before: schedule.lua, which describes and compiles. The
-- result is checked and proven like any other.
--
-- Time passes from one end of an action to the next. A rank that is free takes, of the actions that could begin now, the one
-- of the highest priority; it never waits for a better one. Each stage's forwards, backwards and weight gradients go in
-- microbatch order. While a rank is full, a weight gradient is as urgent as the forward that it makes room for.
--
-- The memory limit cannot lock the ranks up: a forward only begins if every microbatch in flight could still be finished on
-- this rank once those before it are gone (Dijkstra's banker). So the oldest unfinished microbatch of all finds room on
-- every rank, whatever the placement and the priorities; one activation for each chunk is enough.
local actions = require 'ppl.actions'
local check = require 'ppl.check'
local costs_of = require 'ppl.costs'
local fail = require 'ppl.fail'
local placement = require 'ppl.placement'
local schedule = require 'ppl.schedule'

local greedy = {}

local keys = check.set('name', 'priority', 'backward', 'memory', 'keep_room', 'costs', 'chunks', 'options', 'placement',
    'weights', 'least_microbatches', 'doc', 'paper', 'bubble', 'span')

-- ---- priorities

-- 'I>F>W' -> { I = 3, F = 2, W = 1 } and whether backwards are split. In a list with W, B stands for I: the backward that
-- others wait for.
local function parse_priority(where, text)
    local kinds, n = {}, 0
    for word in (text .. '>'):gmatch('%s*(.-)%s*>') do
        kinds[#kinds + 1] = word
        n = n + 1
    end
    local rank = {}
    for i, kind in ipairs(kinds) do rank[kind] = n + 1 - i end
    if rank.W and rank.B and not rank.I then rank.I, rank.B = rank.B, nil end
    local split = rank.F and rank.I and rank.W and n == 3
    if not split and not (rank.F and rank.B and n == 2) then
        fail("%s: priority is %s, want F and B ('B>F') or F, I and W ('I>F>W') in the order of their urgency, or a function", where,
            check.show(text))
    end
    return rank, split
end

-- The priority as a function of an action, and whether backwards are split.
local function priority_of(where, description)
    local priority, backward = description.priority, description.backward
    if type(priority) == 'string' then
        local order, split = parse_priority(where, priority)
        if backward ~= nil then fail('%s: backward is for priorities that are functions: %s says it already', where, priority) end
        return function(action) return order[action.kind] end, split
    end
    if type(priority) ~= 'function' then
        fail("%s: priority is %s, want a text ('B>F', 'I>F>W') or a function (action) -> number", where, check.show(priority))
    end
    check.name(where .. ': backward', backward, { 'whole', 'split' }, 'split')
    return function(action)
        local value = priority(action)
        if type(value) ~= 'number' or value ~= value then
            fail('%s: priority of %d%s%d is %s, want a number', where, action.stage, action.kind, action.microbatch, check.show(value))
        end
        return value
    end, backward ~= 'whole'
end

-- ---- the state of the ranks

-- What a rank knows: its stages, when it is free, and the activations it holds and may hold.
local function open_rank(work, rank, limit)
    local own = placement.own(work.shape.stage_rank, rank)
    check.integer(('%s: memory of rank %d'):format(work.where, rank), limit, #own)
    return { rank = rank, own = own, free = 0, live = 0, limit = limit, list = {}, at = 0, before = {} }
end

local function priority_of_forward(work, r, chunk, microbatch)
    local action = work.action
    action.rank, action.live, action.limit = r.rank, r.live, r.limit
    action.kind, action.chunk, action.stage, action.microbatch = 'F', chunk - 1, r.own[chunk], microbatch
    return work.priority(action)
end

-- The first microbatch that the rank has not finished.
local function oldest(work, r)
    local first = work.m
    for _, s in ipairs(r.own) do first = math.min(first, work.released[s]) end
    return first
end

-- With keep_room: before[chunk][other] is how many forwards of the other chunk are more urgent than the chunk's next one.
-- Priorities fall from microbatch to microbatch, so the number only grows.
local function count_before(work, r, chunk)
    local mb = work.next.F[r.own[chunk]]
    if not work.keep_room or mb >= work.m then return end
    local own = priority_of_forward(work, r, chunk, mb)
    for other in ipairs(r.own) do
        local n = r.before[chunk][other] or 0
        while other ~= chunk and n < work.m and priority_of_forward(work, r, other, n) > own do n = n + 1 end
        r.before[chunk][other] = n
    end
end

-- Forwards of other chunks that are more urgent than this chunk's next one and not yet done.
local function more_urgent(work, r, chunk)
    local n = 0
    for other, s in ipairs(r.own) do n = n + math.max(0, r.before[chunk][other] - work.next.F[s]) end
    return n
end

-- Does what a microbatch k lacks, and what it and later ones hold, stay within the rank's limit for every k, if chunk's next
-- forward begins? Then each could be finished with those before it gone. k that lack the same chunks need as much room as
-- the first of them at most, which is the next forward of one of the rank's stages.
local function is_safe(work, r, stage, microbatch)
    local forward, released = work.next.F, work.released
    for _, t in ipairs(r.own) do
        local k, needs = forward[t], 0
        if k < microbatch then
            for _, s in ipairs(r.own) do
                local from, to = math.max(k, released[s]), forward[s] + (s == stage and 1 or 0)
                needs = needs + (to <= k and 1 or to - from)
            end
            if needs > r.limit then return false end
        end
    end
    return true
end

-- May chunk's next forward begin, as far as memory goes?
local function fits(work, r, chunk, microbatch)
    if r.live + 1 > r.limit then return false end
    -- A microbatch in flight lacks one forward less than there are chunks, at most.
    if r.live + #r.own > r.limit and not is_safe(work, r, r.own[chunk], microbatch) then return false end
    return not work.keep_room or r.live + 1 + more_urgent(work, r, chunk) <= r.limit or microbatch == oldest(work, r)
end

-- When the next action of a kind could begin on a stage as far as others are concerned; nil: not known yet.
local function ready(work, r, kind, chunk)
    local s = r.own[chunk]
    local m, mb, last = work.m, work.next[kind][s], work.shape.stages - 1
    if mb >= m then return nil end
    local done, from, own
    if kind == 'F' then
        if not fits(work, r, chunk, mb) then return nil end
        if s == 0 then return 0 end
        from = s - 1
        done = work.done.F[from * m + mb]
    elseif kind == 'W' then
        return mb < work.next.I[s] and 0 or nil
    else
        if mb >= work.next.F[s] then return nil end
        if s == last then return 0 end
        from = s + 1
        done = work.done.B[from * m + mb]
    end
    own = work.shape.stage_rank[from + 1] == r.rank
    return done and (own and done or done + work.costs.latency) or nil
end

-- The earliest time at which the rank could begin something, as far as is known.
local function look(work, r)
    local at = math.huge
    for chunk in ipairs(r.own) do
        for _, kind in ipairs(work.kinds) do
            local when = ready(work, r, kind, chunk)
            if when and when < at then at = when end
        end
    end
    r.at = math.max(at, r.free)
end

-- The priority of the most urgent forward of a rank that has no room: that of the W that would make room for it.
local function blocked_forward(work, r)
    local most
    for chunk, s in ipairs(r.own) do
        if work.next.F[s] < work.m then
            local value = priority_of_forward(work, r, chunk, work.next.F[s])
            if not most or value > most then most = value end
        end
    end
    return most
end

-- Among equals: the lower microbatch, then the kind named first in work.kinds, then the earlier chunk. Gives the kind, chunk
-- and microbatch.
local function choose(work, r, now)
    local action = work.action
    action.time = now
    local inherited = r.live >= r.limit and blocked_forward(work, r)
    local best, best_priority, best_kind, best_chunk
    for _, kind in ipairs(work.kinds) do
        for chunk, s in ipairs(r.own) do
            local when = ready(work, r, kind, chunk)
            if when and when <= now then
                action.rank, action.live, action.limit = r.rank, r.live, r.limit
                action.kind, action.stage, action.chunk, action.microbatch = kind, s, chunk - 1, work.next[kind][s]
                local value = work.priority(action)
                if kind == 'W' and inherited and inherited > value then value = inherited end
                if not best or value > best_priority or value == best_priority and work.next[kind][s] < best then
                    best, best_priority, best_kind, best_chunk = work.next[kind][s], value, kind, chunk
                end
            end
        end
    end
    return best_kind, best_chunk, best
end

-- Does an action and lets those look again whom it may concern.
local function act(work, r, kind, chunk, mb, now)
    local s = r.own[chunk]
    local cost = kind == 'B' and work.costs.i[s + 1] + work.costs.w[s + 1] or work.costs[kind:lower()][s + 1]
    r.list[#r.list + 1] = { kind = kind, stage = s, microbatch = mb }
    r.free = now + cost
    work.next[kind][s] = mb + 1
    local concerned
    if kind == 'F' then
        r.live = r.live + 1
        count_before(work, r, chunk)
        work.done.F[s * work.m + mb] = r.free
        concerned = s + 1
    elseif kind == 'W' then
        r.live = r.live - 1
    else
        work.done.B[s * work.m + mb] = r.free
        concerned = s - 1
        if kind == 'B' then r.live = r.live - 1 end
    end
    look(work, r)
    local other = concerned and work.shape.stage_rank[concerned + 1]
    if other and other ~= r.rank then look(work, work.ranks[other + 1]) end
end

-- All ranks' lists of { kind, stage, microbatch }.
local function lists(work)
    for _, r in ipairs(work.ranks) do
        for chunk in ipairs(r.own) do
            r.before[chunk] = {}
            count_before(work, r, chunk)
        end
        look(work, r)
    end
    local left = work.shape.stages * work.m * #work.kinds
    while left > 0 do
        local now = math.huge
        for _, r in ipairs(work.ranks) do now = math.min(now, r.at) end
        if now == math.huge then fail('%s: the costs add up to more than a number holds, want smaller ones', work.where) end
        for _, r in ipairs(work.ranks) do
            if r.at <= now then
                local kind, chunk, mb = choose(work, r, now)
                act(work, r, kind, chunk, mb, now)
                left = left - 1
            end
        end
    end
    local result = {}
    for i, r in ipairs(work.ranks) do result[i] = r.list end
    return result
end

local function zeros(stages)
    local list = {}
    for s = 0, stages - 1 do list[s] = 0 end
    return list
end

-- The most activations that a rank may hold, in stage-microbatches; no limit: all there are.
local function limit_of(description, shape, rank)
    local limit = description.memory
    if type(limit) == 'function' then limit = limit(shape.ranks, shape.microbatches, rank, shape.options) end
    return limit or shape.microbatches * shape.stages
end

local function build(description, where, shape)
    local priority, split = priority_of(where, description)
    local work = {
        where = where, shape = shape, m = shape.microbatches, priority = priority, keep_room = description.keep_room,
        kinds = split and { 'I', 'F', 'W' } or { 'B', 'F' },
        costs = costs_of.check(where .. ': costs', description.costs or {}, shape.stages),
        next = { F = zeros(shape.stages), B = zeros(shape.stages), I = zeros(shape.stages), W = zeros(shape.stages) },
        done = { F = {}, B = {} }, -- times by stage * m + microbatch; B: of the gradient that the stage before waits for
        action = { ranks = shape.ranks, stages = shape.stages, microbatches = shape.microbatches, options = shape.options },
        ranks = {},
    }
    work.released = split and work.next.W or work.next.B -- by stage: the microbatches below it hold no activation
    for rank = 0, shape.ranks - 1 do work.ranks[rank + 1] = open_rank(work, rank, limit_of(description, shape, rank)) end
    return actions.bounded('a priority that is found faster', function() return where end, shape.stages, shape.microbatches, lists, work)
end

-- ppl.schedule.greedy { name, priority, ... }:
--   priority: 'B>F', or 'I>F>W' for backwards in two parts, most urgent first; or function (action) -> number, of which the
--     highest wins. action: kind, stage, chunk, microbatch; rank, time, live and limit (activations of the rank); ranks,
--     stages, microbatches, options. It is one table, changed for each question. Among equals: the lower microbatch.
--   backward: 'split' (I and W; the default) or 'whole' (B), where priority is a function.
--   memory: most activations of a rank in stage-microbatches, number or function (ranks, microbatches, rank, options); from
--     one for each chunk. Proven with the rest, and the schedule's memory formula, as a bound.
--   keep_room: true: a forward leaves room for all more urgent ones of other chunks that the rank has yet to do. For
--     priorities that depend on kind, chunk, rank and microbatch alone and fall from microbatch to microbatch.
--   costs: { f, i, w } of a stage, each a number or a list by stage (1), and latency (0).
-- The other fields are ppl.schedule's.
function greedy.new(description)
    check.keys('ppl.schedule.greedy', description, keys)
    local where = 'schedule ' .. tostring(description.name)
    priority_of(where, description)
    check.boolean(where .. ': keep_room', description.keep_room, false)
    local copy, memory = {}, description.memory
    for key, value in pairs(description) do copy[key] = value end
    if memory ~= nil then
        if type(memory) ~= 'function' then check.integer(where .. ': memory', memory, 1) end
        local line = fail.begin_of(memory)
        local about = line and ('%s (%s)'):format(where, line) or where
        local function of_rank(p, m, rank, o)
            if type(memory) ~= 'function' then return memory end
            local at = ('%s: memory of rank %d'):format(about, rank)
            if not line then return check.integer(at, memory(p, m, rank, o), 1) end
            local most = actions.bounded('a memory that is found faster', function() return at end, p, m, memory, p, m, rank, o)
            return check.integer(at, most, 1)
        end
        copy.line = line
        copy.memory = function(p, m, rank, o) return of_rank(p, m, rank, o), 'at most' end
        copy.max_live = function(p, m, o)
            local most = 1
            for rank = 0, p - 1 do most = math.max(most, of_rank(p, m, rank, o)) end
            return most
        end
    end
    return schedule.new('ppl.schedule.greedy', copy, build)
end

return greedy
