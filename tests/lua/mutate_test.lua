-- mutate_test.lua - valid schedules with a few things changed at random: an action dropped, doubled, swapped with another of its
-- rank or moved to another rank. Each mutant is refused, or proven fine and trains to the bits of one stage; a judge that knows
-- only what depends on what says which. None hangs. Some hundred; PPL_TEST_FULL=1: thousands.
local ppl = require 'ppl'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'
local training = require 'training'

local FULL = os.getenv 'PPL_TEST_FULL' == '1'
local MUTANTS = FULL and 10000 or 800
local BASES = { 'naive', 'gpipe', '1f1b', 'eager-1f1b', 'zb-h1', 'zb-h2', 'zb-v', 'v-half', 'v-min', 'dualpipe-v', 'interleaved',
    'looped-bfs', 'hanayo' }

-- ---- chance: Park and Miller's minimal generator

local state
local function chance(n) -- 1 .. n
    state = state * 16807 % 2147483647
    return math.floor(state / 2147483647 * n) + 1
end

-- ---- changes of rows, lists of { stage, kind, microbatch } by rank

local function pick(rows)
    local rank = chance(#rows)
    return rows[rank], rank
end

local changes = {}
function changes.drop(rows)
    local row = pick(rows)
    if row[1] then table.remove(row, chance(#row)) end
end
function changes.double(rows)
    local row = pick(rows)
    if row[1] then table.insert(row, chance(#row + 1), row[chance(#row)]) end
end
function changes.swap(rows)
    local row = pick(rows)
    if #row < 2 then return end
    local a, b = chance(#row), chance(#row)
    if chance(3) > 1 then -- neighbours: most that are fine are of these
        a = chance(#row - 1)
        b = a + 1
    end
    row[a], row[b] = row[b], row[a]
end
function changes.move(rows)
    local from, to = pick(rows), pick(rows)
    if from[1] then table.insert(to, chance(#to + 1), table.remove(from, chance(#from))) end
end
local CHANGES = { 'drop', 'double', 'swap', 'swap', 'swap', 'swap', 'move' }

-- ---- the judge: is it complete, and can all of it be done where nothing is ever buffered too little?

-- What a (stage, microbatch) has, and the rank of each stage; nil where an action stands twice or a stage on two ranks.
local function collect(rows)
    local has, rank_of, stages, m = {}, {}, 0, 0
    for rank, row in ipairs(rows) do
        for _, a in ipairs(row) do
            local key = a[1] .. a[2] .. a[3]
            if has[key] or (rank_of[a[1]] or rank) ~= rank then return nil end
            has[key], rank_of[a[1]] = true, rank
            stages, m = math.max(stages, a[1] + 1), math.max(m, a[3] + 1)
        end
        if not row[1] then return nil end
    end
    return has, stages, m
end

local function is_complete(has, stages, m)
    for s = 0, stages - 1 do
        for mb = 0, m - 1 do
            local B, I, W = has[s .. 'B' .. mb], has[s .. 'I' .. mb], has[s .. 'W' .. mb]
            if not has[s .. 'F' .. mb] or not (B and not I and not W or not B and I and W) then return false end
        end
    end
    return true
end

-- May an action be done, after those in `done`?
local function may(a, done, last)
    local s, kind, mb = a[1], a[2], a[3]
    if kind == 'F' then return s == 0 or done[s - 1 .. 'F' .. mb] end
    if kind == 'W' then return done[s .. 'I' .. mb] end
    return done[s .. 'F' .. mb] and (s == last or done[s + 1 .. 'I' .. mb] or done[s + 1 .. 'B' .. mb])
end

local function runs_to_its_end(rows, stages)
    local done, at, next_gradient, moves = {}, {}, {}, true
    while moves do
        moves = false
        for rank, row in ipairs(rows) do
            local a = row[at[rank] or 1]
            while a and may(a, done, stages - 1) do
                if a[2] == 'W' or a[2] == 'B' then -- in microbatch order
                    if a[3] ~= (next_gradient[a[1]] or 0) then return false end
                    next_gradient[a[1]] = a[3] + 1
                end
                done[a[1] .. a[2] .. a[3]] = true
                at[rank] = (at[rank] or 1) + 1
                a, moves = row[at[rank]], true
            end
        end
    end
    for rank, row in ipairs(rows) do
        if (at[rank] or 1) <= #row then return false end
    end
    return true
end

local function is_fine(rows)
    local has, stages, m = collect(rows)
    return has ~= nil and is_complete(has, stages, m) and runs_to_its_end(rows, stages)
end

-- ---- mutants

local function base_rows(what, p, m)
    local compiled = schedules.compile(what, { stages = p * schedules.find(what).chunks, microbatches = m })
    local rows = compiled:cells()
    for _, row in ipairs(rows) do
        for i, cell in ipairs(row) do
            local s, kind, mb = cell:match('^(%d+)(%u)(%d+)$')
            row[i] = { tonumber(s), kind, tonumber(mb) }
        end
    end
    local stage_rank, stages = compiled.stage_rank, compiled.stages
    compiled:close()
    return rows, stage_rank, stages
end

local function csv_text(rows)
    local lines = {}
    for r, row in ipairs(rows) do
        local cells = {}
        for i, a in ipairs(row) do cells[i] = table.concat(a) end
        lines[r] = table.concat(cells, ',') .. '\n'
    end
    return table.concat(lines)
end

-- The same rows as a description; nil where a rank has another's stage, which the language cannot say.
local function description_of(rows, stage_rank, p)
    local chunk_of, count = {}, {}
    for s, rank in ipairs(stage_rank) do
        count[rank] = (count[rank] or -1) + 1
        chunk_of[s - 1] = count[rank]
    end
    for r, row in ipairs(rows) do
        for _, a in ipairs(row) do
            if stage_rank[a[1] + 1] ~= r - 1 then return nil end
        end
    end
    return ppl.schedule {
        name = 'mutant', chunks = #stage_rank / p, placement = function(s) return stage_rank[s + 1] end,
        rank = function(s)
            for _, a in ipairs(rows[s.rank + 1]) do s[a[2]](a[3], chunk_of[a[1]]) end
        end,
    }
end

local baselines = {}
local function baseline(m)
    baselines[m] = baselines[m] or training.bits('naive', { stages = 1, microbatches = m })
    return baselines[m]
end

-- Refused words name a place.
local function check_words(where, words)
    if not tostring(words):match('rank %d+') and not tostring(words):match('stage %d+ stands in no row')
        and not tostring(words):match('no actions') then
        error(('%s: refused without a place: %s'):format(where, tostring(words)), 0)
    end
end

-- One mutant by its seed. Gives whether it was fine.
local function try(seed, path)
    state = seed * 7919 % 2147483646 + 1
    for _ = 1, 3 do chance(2) end
    local what, p, m = BASES[chance(#BASES)], chance(4), chance(5)
    local rows, stage_rank, stages = base_rows(what, p, m)
    local done = {}
    for i = 1, chance(3) do
        done[i] = CHANGES[chance(#CHANGES)]
        changes[done[i]](rows)
    end
    local where = ('mutant %d: %s p = %d m = %d, %s'):format(seed, what, p, m, table.concat(done, ' '))
    local file = assert(io.open(path, 'wb'))
    file:write(csv_text(rows))
    file:close()
    local fine, ok, compiled = is_fine(rows), pcall(schedules.compile, path, {})
    if ok ~= fine then error(('%s: %s, want it %s: %s'):format(where, ok and 'proven' or 'refused', fine and 'proven' or 'refused', ok and
        '' or tostring(compiled)), 0) end
    local own = description_of(rows, stage_rank, p)
    if own then
        local proven, second = pcall(schedule.compile, own, { ranks = p, microbatches = m })
        local whole = fine and compiled.stages == stages and compiled.microbatches == m -- a file that lacks the end is a smaller one
        if proven ~= whole then error(('%s: in Lua %s: %s'):format(where, proven and 'proven' or 'refused', tostring(second)), 0) end
        if proven then second:close() else check_words(where, second) end
    end
    if not fine then
        check_words(where, compiled)
        return false
    end
    local bits = training.bits(path, { stages = compiled.stages, microbatches = compiled.microbatches, stall_seconds = 60,
        faults = { unbuffered = seed % 2 == 0, copies = seed % 4 < 2 } })
    if bits ~= baseline(compiled.microbatches) then error(where .. ': other bits than one stage', 0) end
    compiled:close()
    return true
end

return function(T)
    T.case(('mutate: %d mutants are refused, or proven and train to the same bits'):format(MUTANTS), function()
        local path, fine = T.temporary('', '.csv'), 0
        for seed = 1, MUTANTS do
            if try(seed, path) then fine = fine + 1 end
        end
        T.truthy(fine > MUTANTS / 20 and fine < MUTANTS / 2, ('%d of %d are fine'):format(fine, MUTANTS))
    end)
end
