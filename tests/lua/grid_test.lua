-- grid_test.lua - every built-in schedule at p 1..8, m 1..2p+3, chunks (waves) 1..3: passes the checks or is refused naming the
-- least m; goes through the CSV form and back to the same plan; trains to the bits of one stage, with and without
-- recomputation, holding as many activations as planned; whatever the timing, with links that buffer nothing. A sample of what
-- trains; PPL_TEST_FULL=1: all of it. Formulas are library_test.lua's.
local capi = require 'ppl.capi'
local plan_text = require 'ppl.plan_text'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'
local training = require 'training'

local FULL = os.getenv 'PPL_TEST_FULL' == '1'
local SEEDS = FULL and 1000 or 50

-- A name with each number of chunks or waves.
local function variants(name)
    local option = next(schedules.find(name).defaults)
    if not option then return { name } end
    local list = {}
    for n = 1, 3 do list[n] = ('%s:%s=%d'):format(name, option, n) end
    return list
end

-- All of the library but second names, each with whether it is synchronous.
local function all()
    local list, seen = {}, {}
    for _, name in ipairs(schedules.names()) do
        local description = schedules.find(name)
        if not seen[description] then
            seen[description] = true
            for _, what in ipairs(variants(name)) do list[#list + 1] = { what, description.weights == 'sync' } end
        end
    end
    return list
end

local function synchronous()
    local list = {}
    for _, entry in ipairs(all()) do
        if entry[2] then list[#list + 1] = entry[1] end
    end
    return list
end

-- { p, m } of the whole grid.
local POINTS = {}
for p = 1, 8 do
    for m = 1, 2 * p + 3 do POINTS[#POINTS + 1] = { p, m } end
end

-- Calls f(p, m) for every point, or for every n-th from one that the number decides; gives how many.
local function each_point(number, n, f)
    local count = 0
    for i, point in ipairs(POINTS) do
        if FULL or (i + 5 * number) % n == 0 then
            f(point[1], point[2])
            count = count + 1
        end
    end
    return count
end

local function stages_of(what, p) return p * schedules.find(what).chunks end

-- ---- planning

local function planning(T)
    for _, entry in ipairs(all()) do
        local what = entry[1]
        T.case('grid: ' .. what .. ' passes the checks, or is refused naming the least m', function()
            local description = schedules.find(what)
            local passed = 0
            for _, point in ipairs(POINTS) do
                local p, m = point[1], point[2]
                local ok, result = pcall(schedule.compile, description, { ranks = p, microbatches = m })
                if ok then
                    passed = passed + 1
                    T.equal({ result.ranks, result.microbatches, result.stages }, { p, m, p * description.chunks })
                    result:close()
                else
                    local least = tonumber(tostring(result):match('want (%d+) at least$'))
                    if not least or least <= m then error(('p = %d, m = %d: %s'):format(p, m, tostring(result)), 0) end
                    schedule.compile(description, { ranks = p, microbatches = least }):close()
                end
            end
            T.truthy(passed >= (description.least_microbatches and 40 or #POINTS), ('%d points passed'):format(passed))
        end)
    end
end

-- ---- CSV

-- A plan as the engine has it: sizes, placement and the bytes of all task lists.
local function plan_of(compiled)
    local plan = compiled.plan:get()
    local parts = { compiled.ranks .. ' ' .. compiled.microbatches, table.concat(compiled.stage_rank, ' ') }
    for rank = 0, compiled.ranks - 1 do
        local bytes = tonumber(capi.lib.plan_length(plan, rank)) * capi.sizeof 'ppl_task'
        parts[#parts + 1] = capi.string(capi.lib.plan_tasks(plan, rank), bytes)
    end
    return table.concat(parts, '\n')
end

local function csv(T)
    local path = T.temporary('', '.csv')
    for number, what in ipairs(synchronous()) do
        T.case('grid: ' .. what .. ' comes back from CSV as the same plan', function()
            each_point(number, 8, function(p, m)
                local out = schedules.compile(what, { stages = stages_of(what, p), microbatches = m })
                local want, text, where = plan_of(out), plan_text.tasks(out), (' at p = %d, m = %d'):format(p, m)
                for _, messages in ipairs { false, true } do
                    out:write(path, messages)
                    local back = schedules.compile(path, {})
                    T.truthy(plan_of(back) == want, 'the same plan' .. where)
                    T.truthy(plan_text.tasks(back) == text, 'the same text' .. where)
                    back:close()
                end
                out:close()
            end)
        end)
    end
end

-- ---- training

local baselines = {} -- by microbatches: dropout's masks go by sample

local function baseline(m)
    baselines[m] = baselines[m] or training.bits('naive', { stages = 1, microbatches = m })
    return baselines[m]
end

local function check_run(what, options)
    local bits, peaks = training.bits(what, options)
    local where = ('%s on %d stages, m = %d, recompute %s, seed %s'):format(what, options.stages, options.microbatches,
        options.recompute or 'none', tostring(options.faults and options.faults.delay_seed))
    if bits ~= baseline(options.microbatches) then error(where .. ': other bits than one stage', 0) end
    for rank, peak in ipairs(peaks) do
        if peak[1] ~= peak[2] then error(('%s: rank %d held %d activations, planned %d'):format(where, rank - 1, peak[1], peak[2]), 0) end
    end
end

local function trains(T)
    for number, what in ipairs(synchronous()) do
        T.case('grid: ' .. what .. ' trains to the bits of one stage and holds what is planned', function()
            local turn = number
            local count = each_point(number, 12, function(p, m)
                for i, recompute in ipairs { 'none', 'full' } do
                    if FULL or (turn + i) % 2 == 0 then
                        check_run(what, { stages = stages_of(what, p), microbatches = m, recompute = recompute })
                    end
                end
                turn = turn + 1
            end)
            T.truthy(count >= 7, count .. ' points')
        end)
    end
end

-- A seed says schedule, ranks, microbatches, whether links copy, and all delays. Edges have as few buffers as the order needs.
local function delays(T)
    T.case(('grid: %d seeds of random delays on links that buffer nothing'):format(SEEDS), function()
        local names = synchronous()
        for seed = 1, SEEDS do
            local what, turn = names[seed % #names + 1], math.floor(seed / #names)
            local p, m = 2 + turn % 3, 1 + (seed + turn) % 6
            check_run(what, { stages = stages_of(what, p), microbatches = m, recompute = seed % 5 == 0 and 'full' or nil,
                stall_seconds = 60,
                faults = { delay_seed = seed, delay = 5e-5, unbuffered = true, copies = turn % 2 == 1 } })
        end
    end)
end

return function(T)
    planning(T)
    csv(T)
    trains(T)
    delays(T)
end
