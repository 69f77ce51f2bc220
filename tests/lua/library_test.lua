-- library_test.lua - every built-in schedule over a grid of ranks, microbatches and chunks: complete and proven, simulated idle
-- times and peaks as its formulas say, known figures of the papers, and training to the same bits. A sample of the grid;
-- PPL_TEST_FULL=1: all of it. Options with the name, too.
local ppl = require 'ppl'
local capi = require 'ppl.capi'
local events = require 'ppl.events'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'

local FULL = os.getenv 'PPL_TEST_FULL' == '1'
local UNIT = { f = 1, i = 1, w = 1 }
local COSTS = { UNIT, { f = 2, i = 3, w = 1 } }
if FULL then COSTS[3], COSTS[4] = { f = 1, i = 1.5, w = 0.5 }, { f = 1, i = 1, w = 2 } end

-- Costs of equal stages, as events.simulate wants them.
local function of_stages(costs, stages)
    local lists = { latency = costs.latency or 0, update = 0 }
    for _, key in ipairs { 'f', 'i', 'w' } do
        lists[key] = {}
        for stage = 1, stages do lists[key][stage] = costs[key] end
    end
    return lists
end

-- Idle time of a step on its own, the largest span idle, and each rank's peak.
local function simulate(compiled, costs, steps)
    local sim = events.simulate(compiled, of_stages(costs, compiled.stages), steps or 1)
    local each = compiled.stages / compiled.ranks
    local peaks, most = {}, 0
    for rank = 0, compiled.ranks - 1 do
        peaks[rank + 1] = capi.lib.plan_peak_live(compiled.plan:get(), rank)
        most = math.max(most, peaks[rank + 1])
    end
    return { idle = sim.makespan - compiled.microbatches * each * (costs.f + costs.i + costs.w), span = sim.span_idle,
        peaks = peaks, most = most, iteration = sim.iteration }
end

local function measure(what, p, m, costs, steps)
    local compiled = schedule.compile(schedules.find(what), { ranks = p, microbatches = m })
    local result = simulate(compiled, costs or UNIT, steps)
    compiled:close()
    return result
end

-- A name with each number of chunks or waves that is tried.
local function variants(name)
    local defaults = schedules.find(name).defaults
    local option = next(defaults)
    if not option then return { name } end
    local list = {}
    for n = 1, 3 do list[n] = ('%s:%s=%d'):format(name, option, n) end
    return list
end

local function microbatches(p)
    local list = {}
    if FULL then
        for m = 1, 2 * p + 3 do list[m] = m end
        return list
    end
    local seen = {}
    for _, m in ipairs { 1, 2, p - 1, p, p + 1, 2 * p - 1, 2 * p, 2 * p + 3 } do
        if m >= 1 and not seen[m] then
            seen[m] = true
            list[#list + 1] = m
        end
    end
    return list
end

-- Holds a number against a formula; gives 1 where the formula says something.
local function hold(where, got, value, is)
    if value == nil then return 0 end
    if got > value + 1e-6 or (is == '=' and got < value - 1e-6) then
        error(('%s: simulated %g, formula: %s %g'):format(where, got, is, value), 0)
    end
    return 1
end

-- Compiles and simulates one point of the grid. Gives how many formulas it held, by name.
local function check_point(description, p, m, held)
    local compiled = schedule.compile(description, { ranks = p, microbatches = m })
    for _, costs in ipairs(COSTS) do
        local where = ('%s p=%d m=%d F=%g I=%g W=%g'):format(description:label(), p, m, costs.f, costs.i, costs.w)
        local sim = simulate(compiled, costs)
        held.bubble = held.bubble + hold(where .. ' idle', sim.idle, description:formula('bubble', p, m, costs))
        held.span = held.span + hold(where .. ' span idle', sim.span, description:formula('span', p, m, costs))
        for rank = 0, p - 1 do
            held.memory = held.memory + hold(('%s peak of rank %d'):format(where, rank), sim.peaks[rank + 1],
                description:formula('memory', p, m, rank))
        end
    end
    compiled:close()
end

local function check_schedule(T, what)
    local description = schedules.find(what)
    local held = { bubble = 0, span = 0, memory = 0 }
    for p = 1, 8 do
        for _, m in ipairs(microbatches(p)) do
            local least = description.least_microbatches and description.least_microbatches(p, m, description.options) or 1
            if m < least then
                T.fails(function() check_point(description, p, m, held) end, ('want %d at least'):format(least))
            else
                check_point(description, p, m, held)
            end
        end
    end
    for _, name in ipairs { 'bubble', 'span', 'memory' } do
        T.equal(held[name] > 0, description[name] ~= nil, ('%s: the %s formula was held'):format(what, name))
    end
end

local function library_cases(T)
    for _, name in ipairs(schedules.names()) do
        for _, what in ipairs(variants(name)) do
            T.case(('library: %s is proven and as its formulas say'):format(what), function()
                local description = schedules.find(what)
                T.truthy(description.doc and (description.paper or name == 'naive'), 'doc and paper')
                check_schedule(T, what)
            end)
        end
    end
end

local function figures(T)
    T.case('library: figures of the papers', function()
        T.equal(measure('1f1b', 4, 8).peaks, { 4, 3, 2, 1 })
        T.near(measure('gpipe', 4, 8).idle, 9)
        T.equal(measure('gpipe', 4, 8).most, 8)
        T.equal(measure('1f1b', 4, 32).most * 8, measure('gpipe', 4, 32).most)
        T.equal(measure('eager-1f1b', 4, 8).peaks, { 7, 5, 3, 1 })
        T.equal(measure('interleaved', 4, 8).peaks[1], 11)
        T.near(measure('interleaved', 4, 7).idle, 9) -- no multiple of p
        T.equal(measure('zb-h1', 4, 8).peaks, { 4, 4, 4, 4 })
        T.near(measure('zb-h1', 4, 8).idle, 3)
        T.equal(measure('zb-h2', 4, 8).peaks, { 7, 7, 7, 7 })
        T.near(measure('zb-h2', 4, 8).span, 0)
        T.near({ measure('zb-v', 4, 8).idle, measure('zb-v', 4, 8).span, measure('zb-v', 4, 8).most }, { 3, 0, 8 })
        T.equal(measure('dualpipe-v', 4, 10).peaks, { 9, 9, 9, 9 })
        T.near(measure('dualpipe-v', 4, 10).idle, 3)
    end)
    T.case('library: V-Half and V-Min hold what their paper says', function()
        local idle = { ['v-half'] = { [4] = 5, [8] = 17 }, ['v-min'] = { [4] = 11, [8] = 25 } } -- stage units: half a rank's
        for p = 2, FULL and 16 or 8 do
            local half, min = measure('v-half', p, 2 * p), measure('v-min', p, 2 * p)
            T.equal({ half.most, min.most }, { 2 * math.floor((p + 2) / 2), 2 * math.floor((p + 4) / 3) }, 'peaks at p = ' .. p)
            T.truthy(half.idle <= 3 * (p - 1) and min.idle <= 4 * (p - 1), 'idle at p = ' .. p)
            if idle['v-half'][p] then T.near({ half.idle, min.idle }, { idle['v-half'][p], idle['v-min'][p] }) end
        end
    end)
    T.case('library: chained steps and slow links', function()
        T.near(measure('1f1b', 4, 8, UNIT, 3).iteration, 33)
        T.near(measure('zb-h2', 4, 8, UNIT, 3).iteration, 24) -- its stagger vanishes between steps
        local slow = { f = 1, i = 1, w = 1, latency = 0.5 }
        local plain, eager = measure('1f1b', 4, 16, slow), measure('eager-1f1b', 4, 16, slow)
        T.near({ plain.iteration, eager.iteration }, { 71, 60 })
    end)
end

-- ---- options

local function option_cases(T)
    T.case('library: options in a text and in a table', function()
        for _, what in ipairs { 'interleaved:chunks=3', 'interleaved: chunks = 3', { name = 'interleaved', chunks = 3 } } do
            T.equal(schedules.find(what).options, { chunks = 3 })
        end
        local found = schedules.find 'hanayo:waves=2'
        T.equal({ found.chunks, found:label(), found.options }, { 4, 'hanayo:waves=2', { waves = 2, chunks = 4 } })
        T.equal(schedules.find('interleaved:chunks=2'):label(), 'interleaved')
        T.equal(schedules.find('hanayo').options.waves, 1) -- the built-in itself is unchanged
        T.equal(schedules.compile('interleaved:chunks=3', { stages = 6, microbatches = 2 }).ranks, 2)
    end)
    T.case('library: options that cannot be', function()
        T.fails(function() schedules.find 'interleaved:chunk=3' end, 'schedule interleaved', '"chunk"', 'nearest: chunks')
        T.fails(function() schedules.find { name = 'hanayo', wave = 3 } end, '"wave"', 'nearest: waves')
        T.fails(function() schedules.find 'interleaved:chunks=x' end, 'chunks=x', 'want name=number')
        T.fails(function() schedules.find 'interleaved:chunks=0' end, 'chunks: is 0', '1 to 1024')
        T.fails(function() schedules.find 'interleaved:chunks=2,chunks=3' end, 'chunks stands twice')
        T.fails(function() schedules.find '1f1b:chunks=2' end, 'unknown option "chunks"')
        T.fails(function() schedules.find 'interleavd:chunks=2' end, 'nearest: interleaved')
        T.fails(function() schedules.find 'x.csv:chunks=2' end, 'x.csv', 'takes none')
        T.fails(function() schedules.find { chunks = 2 } end, 'want a name')
        T.fails(function() schedules.compile('interleaved:chunks=3', { stages = 4, microbatches = 2 }) end, 'multiple of its 3 chunks')
        T.fails(function() ppl.schedule { name = 'x', rank = print, chunks = 2, options = { chunks = 2 } } end, 'stands twice')
        T.fails(function() ppl.schedule { name = 'x', rank = print, options = { n = 'two' } } end, 'options: n', 'whole number')
    end)
    T.case('library: options reach every function of a description', function()
        local seen = {}
        local mine = ppl.schedule {
            name = 'mine', options = { group = 2 },
            rank = function(s)
                seen.rank = s.options.group
                for mb = 0, s.microbatches - 1 do s.F(mb) s.B(mb) end
            end,
            max_live = function(_, _, o) seen.max_live = o.group return 1 end,
            least_microbatches = function(_, _, o) seen.least = o.group return 1 end,
            memory = function(_, _, _, o) return o.group, 'at most' end,
        }
        local five = schedule.configure(mine, { group = 5 })
        schedule.compile(five, { ranks = 1, microbatches = 2 }):close()
        T.equal(seen, { rank = 5, max_live = 5, least = 5 })
        T.equal({ five:formula('memory', 1, 2, 0) }, { 5, 'at most' })
        T.equal({ mine:formula('memory', 1, 2, 0) }, { 2, 'at most' })
        T.equal(mine:formula('bubble', 1, 2, UNIT), nil)
    end)
end

-- ---- training

-- The losses of three steps of a model with 8 layers, bit by bit.
local function train(T, what, stages, m)
    local run = ppl.trainer {
        model = ppl.nn.gpt { layers = 6, dim = 8, heads = 2, context = 8 }, loss = ppl.nn.cross_entropy(),
        data = ppl.data.text { files = { T.temporary(('a schedule changes no bit of what is learnt. '):rep(20)) }, context = 8 },
        pipeline = { stages = stages, microbatches = m, schedule = what, threads = 1 }, batch = m, steps = 3, dtype = 'f32',
        seed = 7, optimizer = ppl.adamw { lr = 1e-2 }, device = os.getenv 'PPL_TEST_DEVICE', -- nil: the cpu
    }
    local list = {}
    for i = 1, 3 do list[i] = ('%a'):format(run:step().loss) end
    run:close()
    return list
end

local function training_cases(T)
    T.case('library: every synchronous schedule trains to the same bits', function()
        for _, m in ipairs { 2, 5 } do
            local want
            for _, what in ipairs { 'naive', 'gpipe', '1f1b', 'eager-1f1b', 'interleaved:chunks=4', 'looped-bfs', 'zb-h1', 'zb-h2', 'zb-v',
                'v-half', 'v-min', 'dualpipe-v', 'hanayo:waves=2' } do
                local chunks = schedules.find(what).chunks
                local got = train(T, what, chunks == 1 and 4 or 8, m)
                want = want or got
                T.equal(got, want, what)
            end
        end
    end)
end

return function(T)
    library_cases(T)
    figures(T)
    option_cases(T)
    training_cases(T)
end
