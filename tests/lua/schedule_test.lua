-- schedule_test.lua - the schedule language: what descriptions compile to, and everything that is refused. The built-in
-- schedules are library_test.lua's.
local ppl = require 'ppl'
local events = require 'ppl.events'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'

-- A description with a rank function, compiled.
local function compile(rank, ranks, microbatches, options)
    local description = { name = 'test', rank = rank }
    for key, value in pairs(options or {}) do description[key] = value end
    return schedule.compile(ppl.schedule(description), { ranks = ranks, microbatches = microbatches })
end

local function rows(compiled)
    local list = {}
    for r, row in ipairs(compiled:cells()) do list[r] = table.concat(row, ' ') end
    return list
end

local function gpipe(s)
    for mb = 0, s.microbatches - 1 do s.F(mb) end
    for mb = 0, s.microbatches - 1 do s.B(mb) end
end

return function(T)
    T.case('schedule: actions in the field\'s notation', function()
        T.equal(rows(compile(gpipe, 2, 2)), { '0F0 0F1 0B0 0B1', '1F0 1F1 1B0 1B1' })
        T.equal(rows(schedules.compile('1f1b', { stages = 2, microbatches = 3 })),
            { '0F0 0F1 0B0 0F2 0B1 0B2', '1F0 1B0 1F1 1B1 1F2 1B2' })
        T.equal(rows(schedules.compile('naive', { stages = 2, microbatches = 2 })), { '0F0 0B0 0F1 0B1', '1F0 1B0 1F1 1B1' })
    end)
    T.case('schedule: chunks and placement', function()
        local function rank(s)
            for chunk = 0, s.chunks - 1 do s.F(0, chunk) end
            for chunk = s.chunks - 1, 0, -1 do s.B(0, chunk) end
        end
        T.equal(rows(compile(rank, 2, 1, { chunks = 2 })), { '0F0 2F0 2B0 0B0', '1F0 3F0 3B0 1B0' })
        T.equal(rows(compile(rank, 2, 1, { chunks = 2, placement = 'v' })), { '0F0 3F0 3B0 0B0', '1F0 2F0 2B0 1B0' })
        local compiled = compile(rank, 2, 1, { chunks = 2, placement = function(stage) return stage < 2 and 0 or 1 end })
        T.equal(compiled.stage_rank, { 0, 0, 1, 1 })
    end)
    T.case('schedule: split backwards and overlap', function()
        local compiled = compile(function(s)
            s.F(0)
            s.overlap(s.F(1), s.I(0))
            s.W(0)
            s.B(1)
        end, 1, 2)
        T.equal(rows(compiled), { '0F0 0F1 0I0 0W0 0B1' })
        local path = T.temporary('', '.csv')
        compiled:write(path)
        T.truthy(assert(io.open(path)):read('*a'):find('(0F1;0I0)OVERLAP_F_B', 1, true), 'the overlap in CSV')
        T.fails(function() compile(function(s) s.overlap(s.F(0), 7) end, 1, 1) end, 'overlap', 'the last two')
    end)
    T.case('schedule: 1F1B on 4 ranks and 8 microbatches idles 9 of 33', function()
        local compiled = schedules.compile('1f1b', { stages = 4, microbatches = 8 })
        local one = { 1, 1, 1, 1 }
        local sim = events.simulate(compiled, { f = one, i = one, w = one, latency = 0, update = 0 }, 1)
        T.near(sim.makespan, 33)
        T.near(sim.bubble_ratio, 9 / 33)
        T.near(sim.bubble_overhead, 9 / 24)
    end)
    T.case('schedule: CSV goes out and comes back', function()
        local path = T.temporary('', '.csv')
        local out = schedules.compile('zb-h1', { stages = 3, microbatches = 4 })
        out:write(path)
        local back = schedules.compile(path, { stages = 3, microbatches = 4 })
        T.equal(back:cells(), out:cells())
        T.fails(function() schedules.compile(path, { stages = 4 }) end, 'is for 3 stages, want 4')
    end)
    T.case('schedule: a file by path', function()
        local path = T.temporary("local ppl = require 'ppl'\nreturn ppl.schedule { name = 'mine', rank = function(s) s.F(0) s.B(0) end }\n",
            '.lua')
        T.equal(rows(schedules.compile(path, { stages = 1, microbatches = 1 })), { '0F0 0B0' })
        T.fails(function() schedules.find(T.temporary('return 3', '.lua')) end, 'returns 3', 'ppl.schedule')
        T.fails(function() schedules.find '/nowhere/s.lua' end, 'no such file')
        T.fails(function() schedules.find(T.temporary('return {', '.lua')) end, ':1:')
    end)
    T.case('schedule: a missing backward is named with the place marked', function()
        local words = T.fails(function()
            compile(function(s)
                for mb = 0, 2 do s.F(mb) end
                for mb = 0, 2 do
                    if not (s.rank == 1 and mb == 1) then s.B(mb) end
                end
            end, 2, 3)
        end, 'rank 1', '1B1 is missing')
        T.truthy(words:find('> rank 1', 1, true), words)
    end)
    T.case('schedule: a backward before its forward, twice, and W out of order', function()
        T.fails(function() compile(function(s) s.B(0) s.F(0) end, 1, 1) end, '0B0', '0F0')
        T.fails(function() compile(function(s) s.F(0) s.F(0) s.B(0) end, 1, 1) end, '0F0')
        T.fails(function() compile(function(s) s.F(0) s.F(1) s.I(0) s.I(1) s.W(1) s.W(0) end, 1, 2) end, 'W')
        T.fails(function() compile(function(s) s.F(0) s.B(0) s.I(0) s.W(0) end, 1, 1) end, '0')
    end)
    T.case('schedule: crossed orders are a cycle, printed', function()
        local words = T.fails(function()
            compile(function(s)
                if s.rank == 0 then
                    s.F(0) s.B(0) s.F(1) s.B(1)
                else
                    s.F(0) s.F(1) s.B(0) s.B(1)
                end
            end, 2, 2)
        end, 'wait')
        T.truthy(words:find('rank 0') and words:find('rank 1'), words)
    end)
    T.case('schedule: max_live and least_microbatches are held', function()
        T.fails(function() compile(gpipe, 1, 4, { max_live = 3 }) end, '3')
        T.fails(function() compile(gpipe, 2, 4, { least_microbatches = function(p) return 3 * p end }) end, 'want 6 at least')
        compile(gpipe, 1, 4, { max_live = 4, least_microbatches = 4 })
    end)
    T.case('schedule: a rank function that never ends', function()
        T.fails(function() compile(function(s) while true do s.F(0) end end, 1, 1) end, 'rank 0', 'does it end?')
        T.fails(function() compile(function() while true do end end, 2, 1) end, 'schedule_test.lua', 'is still running')
        T.fails(function() compile(function() while true do pcall(error) end end, 1, 1) end, 'is still running')
    end)
    T.case('schedule: actions that cannot be name their place', function()
        T.fails(function() compile(function(s) s.F(0) s.F(3) end, 1, 2) end, 'position 1: F: the microbatch: is 3', '0 to 1')
        T.fails(function() compile(function(s) s.F(0, 1) end, 1, 1) end, 'the chunk: is 1, want 0')
        T.fails(function() compile(function(s) s.F(0.5) end, 1, 1) end, 'the microbatch: is 0.5')
        T.fails(function() compile(function(s) s.F() end, 1, 1) end, 'the microbatch: is nil')
        T.fails(function() compile(function(s) s.G(0) end, 1, 1) end, 'G')
    end)
    T.case('schedule: descriptions that cannot be', function()
        T.fails(function() ppl.schedule { name = 'x' } end, 'rank is nil')
        T.fails(function() ppl.schedule { rank = print } end, 'name')
        T.fails(function() ppl.schedule { name = 'x', rank = print, chunk = 2 } end, 'nearest: chunks')
        T.fails(function() ppl.schedule { name = 'x', rank = print, placement = 'w' } end, 'loop, v')
        T.fails(function() ppl.schedule { name = 'x', rank = print, weights = 'synch' } end, 'nearest: sync')
        T.fails(function() compile(gpipe, 2, 1, { placement = function() return 0 end }) end, 'rank 1 no stage')
        T.fails(function() compile(gpipe, 2, 1, { placement = function() return 2 end }) end, 'placement of stage 0')
        T.fails(function() schedules.find '1f1c' end, 'nearest: 1f1b')
        T.fails(function() schedules.compile('1f1b', { stages = 4, ranks = 2, microbatches = 2 }) end, '4 stages on 2 ranks')
    end)
    T.case('schedule: every field that is a function is bounded, and its faults are named', function()
        local function forever() while true do end end
        local function bare() error({}) end
        for _, field in ipairs { 'placement', 'max_live', 'least_microbatches' } do
            T.fails(function() compile(gpipe, 1, 1, { [field] = forever }) end, 'schedule test (',
                field .. ': is still running', 'found faster')
            T.fails(function() compile(gpipe, 1, 1, { [field] = bare }) end, 'schedule_test.lua', field .. ': an error that is a table')
            T.fails(function() compile(gpipe, 1, 1, { [field] = function(p) return p.x end }) end, 'schedule_test.lua', 'schedule test (',
                field .. ': attempt to index')
        end
        T.fails(function() compile(gpipe, 1, 1, { chunks = forever }) end, 'schedule test: chunks: is still running')
        T.fails(function() compile(gpipe, 1, 1, { chunks = function() end }) end, 'schedule test: chunks: is nil, want')
        for _, name in ipairs { 'bubble', 'span', 'memory' } do
            local function formula(f)
                local description = ppl.schedule { name = 'test', rank = gpipe, [name] = f }
                return description:formula(name, 2, 2, name == 'memory' and 0 or { f = 1, i = 1, w = 1 })
            end
            T.fails(function() formula(3) end, 'schedule test: ' .. name .. ': is 3, want a function (ranks')
            T.fails(function() formula(forever) end, name .. ': is still running', 'found faster')
            T.fails(function() formula(bare) end, name .. ': an error that is a table')
            for _, wrong in ipairs { 'a', {}, 0 / 0, -1, false } do
                T.fails(function() formula(function() return wrong end) end, 'schedule test (',
                    name .. ': is ', 'want a number of 0 or more')
            end
            T.fails(function() formula(function() return 1, 'about' end) end, name .. ': the second value: is "about"', 'at most')
            T.equal({ formula(function() return 1 end) }, { 1, '=' })
            T.equal({ formula(function() return 1, 'at most' end) }, { 1, 'at most' })
            T.equal({ formula(function() end) }, {})
        end
        for _, field in ipairs { 'doc', 'paper' } do
            T.fails(function() compile(gpipe, 1, 1, { [field] = {} }) end, 'schedule test: ' .. field .. ': is a table, want a text')
        end
        for _, memory in ipairs { forever, bare, function() return 'a' end } do
            local description = ppl.schedule.greedy { name = 'test', priority = 'B>F', memory = memory }
            T.fails(function() schedule.compile(description, { ranks = 1, microbatches = 1 }) end,
                'schedule_test.lua', 'memory of rank 0: ')
        end
    end)
end
