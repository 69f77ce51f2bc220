-- trainer_test.lua - a trainer's methods over the engine: the same losses over stages and schedules, learning, tables,
-- timelines, checkpoints, weights, sampling, evaluation, and what is refused.
local ppl = require 'ppl'
local trainer = require 'ppl.trainer'
local nn = ppl.nn

-- A tiny GPT over a text of 26 letters in order; fields override.
local function make(T, fields)
    local alphabet = ('abcdefghijklmnopqrstuvwxyz'):rep(40)
    local options = {
        model = nn.gpt { layers = 3, dim = 16, heads = 2, context = 16 }, loss = nn.cross_entropy(),
        data = ppl.data.text { files = { T.temporary(alphabet) }, context = 16 },
        pipeline = { stages = 2, microbatches = 2, threads = 1 }, optimizer = ppl.adamw { lr = 1e-2, clip = 1 },
        batch = 4, steps = 60, dtype = 'f32', seed = 3, device = os.getenv 'PPL_TEST_DEVICE', -- nil: the cpu
    }
    for key, value in pairs(fields or {}) do options[key] = value end
    return ppl.trainer(options)
end

-- The losses of n steps, bit by bit.
local function losses(run, n)
    local list = {}
    for i = 1, n do list[i] = ('%a'):format(run:step().loss) end
    return list
end

return function(T)
    T.case('trainer: losses are the same over stages, cuts and schedules', function()
        local want
        for _, p in ipairs { { stages = 1 }, { stages = 2 }, { stages = 2, cut = { 1 } }, { stages = 3, schedule = 'gpipe' },
            { stages = 5, schedule = 'zb-h1' }, { stages = 2, schedule = 'naive' }, { stages = 2, recompute = 'full' } } do
            p.microbatches, p.threads = 4, 1
            local run = make(T, { pipeline = p })
            local got = losses(run, 4)
            want = want or got
            T.equal(got, want, tostring(run))
            run:close()
        end
    end)
    T.case("trainer: dtype 'auto' is bf16 on a GPU, whatever the CPU", function()
        local run = make(T, { dtype = 'auto', device = 'cuda' }) -- opened by its first step alone
        T.equal(run.dtype, 'bf16')
        run:close()
    end)
    T.case('trainer: asynchronous schedules', function()
        local model = nn.gpt { layers = 3, dim = 16, heads = 2, context = 16, tied = false }
        local adamw = ppl.adamw { lr = 1e-2 }
        for _, name in ipairs { 'pipedream', 'pipedream-2bw' } do
            local run = make(T, { model = model, optimizer = adamw, pipeline = { stages = 2, microbatches = 4, schedule = name } })
            local first, record = run:step().loss, run:step(39)
            T.truthy(first > 5 and record.loss < 2, ('%s: loss %g -> %g'):format(name, first, record.loss))
            T.truthy(tostring(run:timeline()):find('rank 1', 1, true), 'timeline')
            local others = 0
            for _, task in ipairs(run:events()[1]) do others = others + (task.step and 1 or 0) end
            T.truthy(others > 0, name .. ': no task of the step before in the timeline')
            T.near(run:bubble().theory.ratio, 0, 1e-9)
            T.equal(#run:predicted().rows, 2 * 4 * 2 + 2 * (name == 'pipedream' and 4 or 1), name .. ': actions')
            T.truthy(#run:explain { measure = false }.rows > 0, name .. ': explained')
            T.truthy(run:evaluate(2) < 2, name .. ': held-out loss')
            T.equal(#run:sample('abcdefg', 8), 15, name .. ': sample')
            local path = T.temporary('', '.safetensors')
            run:save(path)
            run:use_schedule('1f1b')
            T.truthy(run:step(2).loss < 2, name .. ': then 1f1b')
            run:use_schedule(name)
            run:load(path)
            T.equal(run:steps_done(), 40, name)
            local after = losses(run, 3)
            run:load(path)
            T.equal(losses(run, 3), after, name .. ': goes on from a checkpoint')
            run:close()
        end
        local bad = make(T, { model = model, pipeline = { stages = 2, microbatches = 4, schedule = 'pipedream' } })
        T.fails(function() bad:step() end, "clip is before, which needs all ranks' gradients of a step at once")
        bad = make(T, { optimizer = adamw, pipeline = { stages = 2, microbatches = 4, schedule = 'pipedream-2bw' } })
        T.fails(function() bad:step() end, "parameter 'embed.token.weight' is tied over stages 0 and 1")
    end)
    T.case('trainer: it learns the alphabet', function()
        local run = make(T)
        local first = run:step().loss
        local record = run:step(59)
        T.equal(record.step, 59)
        T.truthy(first > 5 and record.loss < 1.5, ('loss %g -> %g'):format(first, record.loss))
        T.truthy(run:evaluate(2) < 1.5, 'held-out loss')
        T.equal(run:sample('abcde', 6, { temperature = 0 }), 'abcdefghijk')
        T.equal(#run:sample('abc', 20), 23) -- more than the context
        T.equal(run:sample('abc', 5, { seed = 4 }), run:sample('abc', 5, { seed = 4 }))
        run:close()
    end)
    T.case('trainer: tables and timeline', function()
        local run = make(T, { pipeline = { stages = 2, microbatches = 4, schedule = 'zb-h1' } })
        T.fails(function() run:timings() end, 'no step has run')
        run:step(3)
        local timings = run:timings()
        T.equal({ timings.rows[1].layers, timings.rows[2].layers }, { 3, 2 })
        T.equal(timings.rows[1].parameters + timings.rows[2].parameters, 256 * 16 + 16 * 16 + 3 * (12 * 16 * 16 + 13 * 16) + 32)
        T.truthy(timings.rows[1].f > 0 and timings.rows[1].w > 0, 'times')
        T.truthy(timings.bubble.measured.ratio > 0 and timings.bubble.measured.ratio < 1, 'bubble')
        T.truthy(tostring(timings):find('bubble ratio', 1, true), 'notes')
        T.equal(#run:memory().rows, 2)
        for _, row in ipairs(run:memory().rows) do T.equal(row.peak_activations, row.planned_activations) end
        local timeline = run:timeline()
        T.equal({ timeline.lines[1]:sub(1, 6), timeline.lines[2]:sub(1, 6) }, { 'rank 0', 'rank 1' })
        local kinds = {}
        for _, rank in ipairs(run:events()) do
            for _, task in ipairs(rank) do kinds[task.kind] = (kinds[task.kind] or 0) + 1 end
        end
        T.equal({ kinds.F, kinds.I, kinds.W, kinds.U }, { 8, 8, 8, 2 })
        T.truthy(#run:links().rows > 0, 'links')
        T.truthy(tostring(run:parameters()):find('blocks.1.attn.qkv.weight', 1, true), 'parameters')
        run:close()
    end)
    T.case('trainer: a checkpoint goes on where it was, on other stages', function()
        local path = T.temporary('', '.safetensors')
        local a = make(T)
        a:step(3)
        a:save(path)
        local want = losses(a, 2)
        a:close()
        local b = make(T, { pipeline = { stages = 3, microbatches = 2, schedule = 'gpipe', threads = 1 } })
        b:load(path)
        T.equal(b:steps_done(), 3)
        T.equal(losses(b, 2), want)
        T.fails(function() b:load '/nowhere/x.safetensors' end, '/nowhere/x.safetensors')
        b:close()
    end)
    T.case('trainer: a schedule is changed between steps', function()
        local a, b = make(T), make(T)
        a:step(2)
        b:step(2)
        b:use_schedule 'zb-h1'
        T.equal(losses(b, 2), losses(a, 2))
        T.fails(function() b:use_schedule '1f1c' end, 'nearest: 1f1b')
        T.equal(#losses(b, 1), 1)
        a:close()
        b:close()
    end)
    T.case('trainer: weights are read and written as tensors', function()
        local run = make(T)
        local w = run:tensor 'embed.position.weight'
        T.equal(tostring(w.shape), '(16, 16)')
        run:assign('embed.position.weight', w * 2)
        T.near(run:tensor('embed.position.weight'):numbers(), (w * 2):numbers())
        run:step()
        T.equal(tostring(run:tensor('norm.bias', 'gradient').shape), '(16)')
        T.fails(function() run:tensor 'embed.positon.weight' end, 'nearest: embed.position.weight')
        T.fails(function() run:assign('norm.bias', w) end, 'shape (16, 16), want (16)')
        T.fails(function() run:assign('norm.bias', 3) end, 'assign: got 3, want a tensor of shape (16)')
        T.fails(function() run:assign('norm.bias') end, 'assign: got nil, want a tensor')
        T.fails(function() run:tensor() end, 'tensor: name: is nil, want a text')
        run:close()
        T.truthy(tostring(run):find(', closed$'), tostring(run))
    end)
    T.case('trainer: data from Lua, ended early and not finite', function()
        local function numbers(last, value)
            return ppl.data.iterator {
                inputs = { { name = 'x', shape = { 2 } }, { name = 'targets', shape = { 1 } } },
                next = function(step, batch)
                    if step >= last then return nil end
                    local x, y = {}, {}
                    for i = 1, batch do x[i], y[i] = { i, step == 1 and value or step }, { 1 } end
                    return { x = x, targets = y }
                end,
            }
        end
        local function run_on(source)
            return make(T, { model = nn.sequential { nn.linear(2, 4), nn.linear(4, 1) }, loss = nn.mse(), data = source,
                pipeline = { stages = 2, microbatches = 2 } })
        end
        local run = run_on(numbers(100, 1))
        T.equal(run:step(20).step, 19)
        run:close()
        run = run_on(numbers(2, 1))
        run:step(2)
        T.fails(function() run:step() end, 'data')
        run:close()
        run = run_on(numbers(9, 1e39))
        run:step()
        T.fails(function() run:step() end, 'finite')
        run:close()
    end)
    T.case('trainer: a trainer that is closed says so, and closes twice', function()
        local run = make(T)
        run:step()
        run:close()
        run:close()
        T.fails(function() run:step() end, 'is closed')
    end)
    T.case('trainer: runs that are dropped are freed under the collector', function()
        for _ = 1, 3 do
            local run = make(T)
            run:step()
            T.truthy(trainer.is(run), 'trainer')
        end
        collectgarbage()
        collectgarbage()
    end)
    T.case('trainer: the emulated device takes the times of its costs', function()
        local run = make(T, { device = 'emulated', costs = { f = 0.002, i = 0.002, w = 0.002 },
            pipeline = { stages = 4, microbatches = 8, schedule = '1f1b' }, batch = 8 })
        run:step(2)
        local took = run:timings().rows[2].f -- a loaded machine may take longer, none less
        T.truthy(took >= 0.00199, ('F took %.6f s, want 0.002 at least'):format(took))
        run:close()
    end)
    T.case('trainer: a rank that fails or stalls stops everyone, by name', function()
        local function faulty(faults)
            return make(T, { device = 'emulated', costs = { f = 1e-4, i = 1e-4, w = 1e-4 }, stall_seconds = 0.5, faults = faults })
        end
        local run = faulty { fail = { rank = 1, task = 4 } }
        T.fails(function() run:step() end, 'rank 1')
        run:close()
        run = faulty { stall = { rank = 1, task = 4 } }
        T.fails(function() run:step() end, 'rank 1')
        T.fails(function() run:step() end, 'run')
        run:close()
    end)
    T.case('trainer: options are checked before anything starts', function()
        T.fails(function() make(T, { stpes = 3 }) end, 'nearest: steps')
        T.fails(function() make(T, { pipeline = { stage = 3 } }) end, 'nearest: stages')
        T.fails(function() make(T, { steps = 0 }) end, 'steps: is 0')
        T.fails(function() make(T, { dtype = 'fp32' }) end, 'nearest: f32')
        T.fails(function() make(T, { batch = 4, pipeline = { microbatches = 3 } }) end, 'want one of 1, 2, 4')
        T.fails(function() make(T, { data = 3 }) end, 'data is 3')
        T.fails(function() make(T, { optimizer = {} }) end, 'want ppl.adamw')
        T.fails(function() make(T, { clip = { mode = 'befor', norm = 1 } }) end, 'nearest: before')
        T.fails(function() ppl.adamw { rate = 1 } end, 'unknown option')
        T.fails(function() ppl.adamw {} end, 'lr: is nil')
    end)
end
