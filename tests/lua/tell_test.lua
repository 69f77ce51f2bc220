-- tell_test.lua - what a trainer tells of itself: the shape of its tables, times and bubbles on the emulated device against what
-- they must be, memory against the system's word, schedules compared without a trace, predictions, lost time by cause.
local capi = require 'ppl.capi'
local ppl = require 'ppl'
local nn = ppl.nn

-- A tiny GPT over 26 letters; fields override.
local function make(T, fields)
    local options = {
        model = nn.gpt { layers = 3, dim = 16, heads = 2, context = 16 }, loss = nn.cross_entropy(),
        data = ppl.data.text { files = { T.temporary(('abcdefghijklmnopqrstuvwxyz'):rep(40)) }, context = 16 },
        pipeline = { stages = 2, microbatches = 4, threads = 1 }, optimizer = ppl.adamw { lr = 1e-2, clip = 1 },
        batch = 8, steps = 60, dtype = 'f32', seed = 3,
    }
    for key, value in pairs(fields or {}) do options[key] = value end
    return ppl.trainer(options)
end

-- As make, emulated: four ranks, m = 8, all layers of one kind.
local function emulated(T, schedule, costs, fields)
    local stages = ({ interleaved = 8, ['zb-v'] = 8 })[schedule] or 4
    local options = { device = 'emulated', costs = costs, batch = 8, optimizer = ppl.adamw { lr = 1e-2 },
        model = nn.gpt { layers = 8, dim = 16, heads = 2, context = 16 },
        pipeline = { stages = stages, microbatches = 8, schedule = schedule, threads = 1 } }
    for key, value in pairs(fields or {}) do options[key] = value end
    return make(T, options)
end

-- A table's shape: its words, with numbers, their padding and units left out.
local function shape(result)
    local lines = {}
    for line in (tostring(result) .. '\n'):gmatch('(.-)\n') do
        line = line:gsub('%-%-+', '--'):gsub('[-+]?%d[%d,.]*', 'N'):gsub(' [KM]iB', ' iB'):gsub('N B ', 'N iB '):gsub('N B$', 'N iB')
        lines[#lines + 1] = line:gsub('%s+', ' '):gsub('^ ', ''):gsub(' $', '')
    end
    return table.concat(lines, '\n')
end

-- All numbers of a run, weights and moments, as one text of their bits.
local function bits(run)
    local parts = {}
    for _, info in ipairs(run:parameter_list()) do
        for _, part in ipairs { 'weight', 'moment1', 'moment2' } do
            for _, x in ipairs(run:tensor(info.name, part):numbers()) do parts[#parts + 1] = ('%a'):format(x) end
        end
    end
    return table.concat(parts, ' ')
end

local BYTES = 200e6

return function(T)
    T.case('tell: the tables\' shape', function()
        local run = emulated(T, '1f1b', { f = 0.004, i = 0.004, w = 0.004, update = 0.001 }, { clip = 1,
            pipeline = { stages = 2, microbatches = 4, threads = 1 }, model = nn.gpt { layers = 2, dim = 16, heads = 2, context = 16 } })
        run:step(3)
        local texts = {}
        for _, method in ipairs { 'timings', 'slowest', 'memory', 'links', 'parameters', 'explain' } do
            texts[#texts + 1] = '== ' .. method
            local text = shape(run[method](run, method == 'parameters' and 'norm' or nil))
            if method == 'explain' then text = text:match('^(.-\n)what would help') end -- the advice goes by what was measured
            texts[#texts + 1] = text
        end
        texts[#texts + 1] = '== predicted'
        texts[#texts + 1] = table.concat({ shape(run:predicted()):match('^([^\n]*\n[^\n]*\n).-(\n\n.*)$') })
        texts[#texts + 1] = '== compare'
        texts[#texts + 1] = shape(run:compare('gpipe'))
        T.golden('tell', table.concat(texts, '\n'))
        local summary, kinds = require 'ppl.run_summary'.of(run, { steps = 3 }), require 'ppl.trainer_tables'.memory_kinds
        for i, row in ipairs(run:memory().rows) do -- a report shows the same bytes
            for _, kind in ipairs(kinds) do T.equal(summary.rank[i].memory[kind], row[kind], ('rank %d: %s'):format(row.rank, kind)) end
        end
        run:close()
    end)

    -- 20 ms a task on four ranks. A busy machine makes steps longer, never shorter: medians, and more steps until they are near.
    for schedule, theory in pairs { gpipe = 3 / 11, ['1f1b'] = 3 / 11, interleaved = 1.5 / 9.5, ['zb-h1'] = 1 / 9 } do
        T.case('tell: costs and bubble as they must be: ' .. schedule, function()
            local cost = schedule == 'interleaved' and 0.01 or 0.02
            local run = emulated(T, schedule, { f = cost, i = cost, w = cost }, { trace_steps = 5 })
            local why
            for _ = 1, 8 do
                why = nil
                for _ = 1, 5 do run:step() end
                local timings = run:timings()
                for _, row in ipairs(timings.rows) do
                    for _, key in ipairs { 'f', 'i', 'w' } do
                        if math.abs(row[key] / cost - 1) > 0.03 then
                            why = ('%s of stage %d took %.5f s'):format(key, row.stage, row[key])
                        end
                    end
                end
                for _, kind in ipairs { 'theory', 'measured' } do
                    local ratio = (timings.bubble[kind] or { ratio = 1 }).ratio
                    if math.abs(ratio - theory) > 0.01 then why = ('%s: a bubble ratio of %.4f'):format(kind, ratio) end
                end
                T.near(timings.bubble.measured.overhead, timings.bubble.measured.ratio / (1 - timings.bubble.measured.ratio), 1e-12)
                if not why then break end
            end
            T.truthy(not why, why)
            run:close()
        end)
    end

    T.case('tell: what is waited for has a name, in the table and in the picture', function()
        local run = emulated(T, '1f1b', { f = { 0.001, 0.001, 0.006, 0.001 }, i = 0.001, w = 0.001 }, { clip = 1 })
        run:step(2)
        local ranks = run:timings().ranks
        T.equal({ ranks[2].waits_for, ranks[4].waits_for }, { 2, 2 })
        local text = tostring(run:timeline())
        T.truthy(text:find('\nrank 3  |%.2%.'), text)
        T.truthy(text:find('waits for a value of rank 1', 1, true), text)
        T.equal(run:slowest().rows[1].stage, 2)
        T.truthy(tostring(run:slowest()):find('rank 2 bounds the step', 1, true), 'slowest')
        T.fails(function() run:timeline(7) end, 'step 7', 'want one of 0 to 1')
        run:close()
    end)

    T.case('tell: the prediction is action by action, the largest differences first', function()
        local run = emulated(T, 'zb-h1', { f = 0.005, i = 0.005, w = 0.005 })
        run:step()
        local predicted = run:predicted()
        T.equal(#predicted.rows, 4 * 8 * 3 + 4)
        for r = 2, #predicted.rows do
            T.truthy(math.abs(predicted.rows[r - 1].late) >= math.abs(predicted.rows[r].late), 'order')
        end
        local _, lines = tostring(predicted):gsub('\n', '')
        T.equal(lines, 24)
        T.truthy(predicted.measured_ms >= predicted.predicted_ms * 0.98, 'a step is not faster than its tasks')
        run:close()
    end)

    T.case('tell: the lost time by its causes sums to the step', function()
        local run = emulated(T, '1f1b', { f = { 0.002, 0.002, 0.006, 0.002 }, i = 0.002, w = 0.002, update = 0.001 })
        run:step(3)
        local result, sum, by = run:explain(), 0, {}
        for i = 1, #result.rows - 1 do
            sum, by[result.rows[i].what] = sum + result.rows[i].seconds, result.rows[i].seconds
        end
        T.near(sum, result.rows[#result.rows].seconds, 1e-9)
        T.truthy(by.bubble > 0.015 and by.imbalance > 0.015 and by.optimizer > 0.0008, tostring(result))
        T.truthy(tostring(result):find('from stage 2, the slowest', 1, true), tostring(result))
        T.fails(function() run:explain { mesure = true } end, 'nearest: measure')
        run:close()
        run = emulated(T, '1f1b', { f = { 0.002, 0.002, 0.006, 0.002 }, i = 0.002, w = 0.002 },
            { model = nn.gpt { layers = 4, dim = 16, heads = 2, context = 16 } }) -- stages of 2, 1, 1 and 2 layers
        run:step(2)
        local words = tostring(run:explain())
        T.truthy(words:find('stage 2, the slowest, is one layer', 1, true) and not words:find('an even cut', 1, true), words)
        run:close()
        run = make(T)
        run:step(2)
        local small
        for _, row in ipairs(run:explain().rows) do small = small or row.what == 'small microbatches' end
        T.truthy(small, 'small microbatches are measured')
        T.equal(run:steps_done(), 2)
        run:close()
    end)

    T.case('tell: comparing leaves weights, state, data and timings as they are', function()
        local function numbers()
            return ppl.data.iterator { inputs = { { name = 'x', shape = { 2 } }, { name = 'targets', shape = { 1 } } },
                next = function(step, batch)
                    if step >= 12 then return nil end
                    local x, y = {}, {}
                    for i = 1, batch do x[i], y[i] = { i / batch, step / 10 }, { 1 } end
                    return { x = x, targets = y }
                end }
        end
        local lists = { text = {}, iterator = { model = nn.sequential { nn.linear(2, 4), nn.linear(4, 1) }, loss = nn.mse() } }
        for kind, fields in pairs(lists) do
            if kind == 'iterator' then fields.data = numbers() end
            local a = make(T, fields)
            if kind == 'iterator' then fields.data = numbers() end
            local b = make(T, fields)
            a:step(2)
            b:step(2)
            local before, timings = bits(a), a:record(1)
            local result = a:compare('gpipe', { name = 'zb-h1' }, 'naive')
            T.equal(#result.rows, 4)
            T.equal({ result.rows[1].schedule, result.rows[3].schedule }, { '1f1b', 'zb-h1' })
            T.truthy(bits(a) == before, kind .. ': weights and moments')
            T.equal({ a:steps_done(), a.schedule.name, a:record(1) }, { 2, '1f1b', timings })
            T.truthy(a:timings() ~= nil, 'timings are there still')
            for _ = 1, 5 do T.equal(('%a'):format(a:step().loss), ('%a'):format(b:step().loss), kind) end
            T.truthy(bits(a) == bits(b), kind .. ': as without comparing')
            if kind == 'iterator' then
                T.fails(function() a:compare 'gpipe' end, 'data') -- it ends within the trial
                a:step(5)
                b:step(5)
                T.truthy(bits(a) == bits(b), 'after a failed trial')
            end
            T.fails(function() a:compare() end, 'no schedule')
            T.fails(function() a:compare 'gpip' end, 'nearest: gpipe')
            a:close()
            b:close()
        end
    end)

    T.case('tell: nothing is told of steps before another schedule or a checkpoint', function()
        local run, path = make(T), T.temporary('', '.safetensors')
        for _, method in ipairs { 'timings', 'timeline', 'slowest', 'predicted', 'explain', 'costs', 'bubble' } do
            T.fails(function() run[method](run) end, 'no step has run, want run:step() before')
        end
        run:step(2)
        run:save(path)
        run:use_schedule { name = 'gpipe' }
        for _, method in ipairs { 'timings', 'timeline', 'slowest', 'predicted', 'explain' } do
            T.fails(function() run[method](run) end, 'no step has run with schedule gpipe')
        end
        run:step()
        T.truthy(tostring(run:timings()):find('bubble ratio', 1, true), 'after a step')
        T.fails(function() run:timeline(1) end, 'want one of 2 to 2')
        run:load(path)
        T.fails(function() run:timings() end, 'no step has run')
        run:close()
    end)

    T.case('tell: parameters by pattern, with norms', function()
        local run = make(T)
        T.equal(run:parameters('norm').rows[1].grad_norm, nil)
        run:step()
        local rows = run:parameters('mlp.*weight').rows
        T.equal(#rows, 6)
        local sum = 0
        for _, x in ipairs(run:tensor(rows[1].name):numbers()) do sum = sum + x * x end
        T.near(rows[1].norm, math.sqrt(sum), 1e-4)
        T.truthy(rows[1].grad_norm > 0, 'gradient norm')
        T.equal(#run:parameters().rows, #run:parameter_list())
        T.fails(function() run:parameters '%' end, 'is no pattern')
        run:close()
    end)

    T.case('tell: memory adds up to the engine\'s own total, and to what the system reports', function()
        local run = make(T, { model = nn.gpt { layers = 6, dim = 384, heads = 6, context = 64 }, batch = 4,
            data = ppl.data.text { files = { T.temporary(('abcdefghijklmnopqrstuvwxyz'):rep(400)) }, context = 64 },
            pipeline = { stages = 2, microbatches = 4, threads = 1 } })
        run:step()
        local memory, sum, ranks = run:memory(), 0, 0
        for _, row in ipairs(memory.tables[1].rows) do
            if row.rank == 'engine' then T.equal(row.total, tonumber(capi.lib.memory_held())) end
            if row.rank ~= 'engine' and row.rank ~= 'runtime' then sum = sum + row.total end
        end
        for _, row in ipairs(memory.rows) do ranks = ranks + row.total end
        T.equal(sum, memory.engine)
        T.truthy(memory.engine > BYTES, ('%d bytes, want a model of %d'):format(memory.engine, BYTES))
        T.truthy(ranks > 0.97 * memory.engine, ('the ranks account for %d of %d bytes'):format(ranks, memory.engine))
        local apart = math.abs(memory.process / (memory.engine + memory.runtime) - 1)
        T.truthy(apart < 0.1, tostring(memory))
        run:close()
    end)
end
