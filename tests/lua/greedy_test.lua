-- greedy_test.lua - ppl.schedule.greedy: orders that are known by other means, the memory limit under random priorities,
-- placements and costs, and what is refused.
local ppl = require 'ppl'
local capi = require 'ppl.capi'
local events = require 'ppl.events'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'

local function compile(description, ranks, microbatches)
    local copy = { name = 'greedy' }
    for key, value in pairs(description) do copy[key] = value end
    return schedule.compile(ppl.schedule.greedy(copy), { ranks = ranks, microbatches = microbatches })
end

local function cells(description, ranks, microbatches)
    local compiled = compile(description, ranks, microbatches)
    local rows = compiled:cells()
    compiled:close()
    return rows
end

local function built_in(name, ranks, microbatches)
    local compiled = schedules.compile(name, { ranks = ranks, microbatches = microbatches })
    local rows = compiled:cells()
    compiled:close()
    return rows
end

local function makespan(compiled, f, i, w)
    local costs = { f = {}, i = {}, w = {}, latency = 0, update = 0 }
    for stage = 1, compiled.stages do costs.f[stage], costs.i[stage], costs.w[stage] = f, i, w end
    return events.simulate(compiled, costs, 1).makespan
end

-- A number that depends on all arguments and looks random: the same sequence in every run.
local function noise(...)
    local state = 7
    for _, value in ipairs { ... } do state = (state * 16807 + value * 7919 + 13) % 2147483647 end
    for _ = 1, 3 do state = state * 48271 % 2147483647 end
    return state
end

return function(T)
    T.case('greedy: known orders come out', function()
        for p = 1, 5 do
            for m = 1, 2 * p + 3 do
                T.equal(cells({ priority = 'F>B' }, p, m), built_in('gpipe', p, m), 'F>B')
                T.equal(cells({ priority = 'B>F', memory = function(ranks, _, rank) return ranks - rank end }, p, m),
                    built_in('1f1b', p, m), 'B>F with 1F1B\'s memory')
                T.equal(cells({ priority = 'B>F', memory = 1 }, p, m), built_in('naive', p, m), 'memory 1')
            end
        end
    end)
    T.case('greedy: split backwards idle less than two thirds of whole ones at the same memory', function()
        for p = 1, 6 do
            local compiled = compile({ priority = 'I>F>W', memory = function(ranks) return ranks end }, p, 2 * p)
            local idle = makespan(compiled, 1, 1, 1) - 3 * 2 * p
            T.truthy(idle >= p - 1 and idle <= 2 * (p - 1), ('p = %d: idle %g'):format(p, idle))
            compiled:close()
        end
        T.equal(cells({ priority = 'B>F>W' }, 3, 4), cells({ priority = 'I>F>W' }, 3, 4)) -- with W, B is I
    end)
    T.case('greedy: among equals the lower microbatch, and no more room is kept than it takes', function()
        T.equal(table.concat(cells({ priority = 'B>F', chunks = 2, placement = 'v' }, 2, 6)[1], ' ', 1, 9),
            '0F0 0F1 0F2 3F0 3B0 3F1 3B1 0F3 0B0')
        T.equal(table.concat(cells({ priority = 'F>B', chunks = 2, placement = 'v', memory = 3 }, 2, 6)[1], ' ', 1, 10),
            '0F0 0F1 3F0 3B0 0F2 0B0 3F1 3B1 0F3 0B1')
        for p = 2, 8 do -- ZB-V's memory and idle time, by priorities
            local compiled = compile({
                chunks = 2, placement = 'v', memory = 2 * p,
                priority = function(a)
                    if a.kind == 'F' then return a.chunk == 1 and 3 or 1 end
                    return a.kind == 'I' and 2 + a.chunk / 2 or 0
                end,
            }, p, 2 * p)
            T.near(makespan(compiled, 1, 1, 1), 6 * 2 * p + p - 1)
            compiled:close()
        end
    end)
    T.case('greedy: costs decide', function()
        local function order(costs) return table.concat(cells({ priority = 'I>F>W', costs = costs }, 2, 2)[2], ' ') end
        T.equal(order { f = 1 }, '1F0 1I0 1F1 1I1 1W0 1W1')
        T.equal(order { f = { 2, 1 } }, '1F0 1I0 1F1 1I1 1W0 1W1')
        T.equal(order { f = { 3, 1 } }, '1F0 1I0 1W0 1F1 1I1 1W1') -- a slow stage 0 leaves stage 1 time for W
        T.equal(order { f = 1, latency = 1 }, '1F0 1I0 1F1 1I1 1W0 1W1')
    end)
    T.case('greedy: a priority sees its action', function()
        local seen = {}
        cells({
            options = { chunks = 2, extra = 3 }, placement = 'v', memory = 4, backward = 'whole',
            priority = function(a)
                if a.kind == 'B' and a.stage == 2 and a.microbatch == 1 then
                    for key, value in pairs(a) do seen[key] = value end
                end
                return a.kind == 'B' and 1 or 0
            end,
        }, 2, 2)
        T.truthy(seen.time > 0 and seen.live > 0, 'time and live')
        seen.time, seen.live = nil, nil
        T.equal(seen, { kind = 'B', stage = 2, chunk = 1, microbatch = 1, rank = 1, limit = 4, ranks = 2, stages = 4,
            microbatches = 2, options = { chunks = 2, extra = 3 } })
    end)
    T.case('greedy: no priorities, placement or costs lock ranks up, or take more than the limit', function()
        for seed = 1, os.getenv 'PPL_TEST_FULL' == '1' and 1000 or 120 do
            local p, chunks, m = 1 + noise(seed, 1) % 4, 1 + noise(seed, 2) % 3, 1 + noise(seed, 3) % 8
            local limit, loops = chunks + noise(seed, 4) % (chunks + 2), noise(seed, 5) % 2 == 0
            local keep_room, split = noise(seed, 6) % 3 == 0, noise(seed, 7) % 2 == 0
            local f = {}
            for stage = 1, p * chunks do f[stage] = noise(seed, 8, stage) % 4 end -- 0 included
            local description = {
                chunks = chunks, memory = limit, keep_room = keep_room, backward = split and 'split' or 'whole',
                costs = { f = f, i = 1, w = noise(seed, 9) % 2, latency = noise(seed, 10) % 3 },
                placement = loops and 'loop' or function(stage, ranks) -- a rank may own any stages
                    return stage < ranks and stage or noise(seed, 11, stage) % ranks
                end,
                priority = function(a) return noise(seed, a.kind:byte(), a.stage, a.microbatch, keep_room and 0 or a.live) end,
            }
            if not loops then description.memory = chunks * p end
            local compiled = compile(description, p, m)
            for rank = 0, p - 1 do
                T.truthy(capi.lib.plan_peak_live(compiled.plan:get(), rank) <= description.memory, 'peak, seed ' .. seed)
            end
            compiled:close()
        end
    end)
    T.case('greedy: many ranks', function()
        local compiled = compile({ priority = 'I>F>W', memory = function(ranks) return ranks end }, 64, 256)
        T.truthy(makespan(compiled, 1, 1, 1) <= 3 * (256 + 63 / 2), 'idle')
        compiled:close()
    end)
    T.case('greedy: what is refused', function()
        local function refuse(description, ...)
            local texts = { ... }
            T.fails(function() cells(description, 2, 2) end, unpack(texts))
        end
        refuse({}, 'priority is nil')
        refuse({ priority = 'F' }, 'priority is "F"', "'B>F'")
        refuse({ priority = 'B>F>I' }, "'I>F>W'")
        refuse({ priority = 'F>F' }, "'B>F'")
        refuse({ priority = 'B>F', backward = 'whole' }, 'says it already')
        refuse({ priority = function() return 1 end, backward = 'both' }, 'whole')
        refuse({ priority = function() end }, 'priority of 0F0 is nil')
        refuse({ priority = function() return 0 / 0 end }, 'want a number')
        refuse({ priority = 'B>F', memory = 0 }, 'memory: is 0')
        refuse({ priority = 'B>F', memory = 1, chunks = 2 }, 'memory of rank 0: is 1', '2 or more')
        refuse({ priority = 'B>F', memory = function() return 1.5 end }, 'memory of rank 0: is 1.5')
        refuse({ priority = 'B>F', memmory = 1 }, 'nearest: memory')
        refuse({ priority = 'B>F', keep_room = 1 }, 'keep_room: is 1')
        refuse({ priority = 'B>F', costs = { g = 1 } }, 'unknown option "g"')
        refuse({ priority = 'B>F', costs = { f = 1 / 0 } }, 'f of stage 0')
        refuse({ priority = 'B>F', costs = { f = 1.7e308 } }, 'add up to more than a number holds')
        refuse({ priority = function() while true do end end }, 'is still running', 'found faster')
        T.fails(function() ppl.schedule.greedy { priority = 'B>F' } end, 'name')
    end)
end
