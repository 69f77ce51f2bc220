-- cli_test.lua - subcommands as processes of their own: what they print, --json, exit status, help.
local yaml = require 'ppl.yaml'

return function(T)
    local run = T.run

    T.case('cli: plan draws, proves and counts', function()
        for _, name in ipairs { '1f1b', 'zb-h1', 'gpipe', 'naive' } do
            local out, status = run(('plan %s -p 4 -m 8'):format(name))
            T.equal(status, 0)
            T.golden('plan_' .. name, out)
        end
    end)
    T.case('cli: plan with costs, chained steps and tasks', function()
        T.golden('plan_costs', (run 'plan 1f1b -p 2 -m 3 --costs F=1,B=3,latency=0.5,update=1 --steps 2'))
        local out = run 'plan 1f1b -p 2 -m 3 --tasks'
        T.truthy(out:find('rank 1\n', 1, true) and out:find('1B2 slot', 1, true), out)
    end)
    T.case('cli: plan prints one JSON object', function()
        local out, status = run 'plan 1f1b -p 4 -m 8 --json'
        T.equal(status, 0)
        local value = yaml.value(yaml.parse('plan', out))
        T.near({ value.makespan, value.bubble_ratio, value.bubble_overhead, value.span_idle }, { 33, 9 / 33, 9 / 24, 9 })
        T.equal(value.by_rank[1].peak_activations, 4)
        T.equal(value.actions[4][1], '3F0')
        T.equal(#value.actions, 4)
    end)
    T.case('cli: plan takes files, CSV and training scripts, and writes CSV', function()
        local csv = T.temporary('', '.csv')
        local _, status = run('plan zb-h1 -p 3 -m 4 --csv ' .. csv)
        T.equal(status, 0)
        local out
        out, status = run('plan ' .. csv)
        T.equal(status, 0)
        T.truthy(out:find('3 ranks, 3 stages, 4 microbatches', 1, true), out)
        local file = T.temporary("return require 'ppl'.schedule { name = 'mine', rank = function(s) s.F(0) s.B(0) end }", '.lua')
        out, status = run(('plan %s -p 3 -m 1'):format(file))
        T.equal(status, 0)
        T.truthy(out:find('schedule mine', 1, true), out)
    end)
    T.case('cli: devices', function()
        local out, status = run 'devices'
        T.equal(status, 0)
        for _, name in ipairs { 'cpu', 'reference', 'emulated' } do T.truthy(out:find(name, 1, true), out) end
        local told = yaml.value(yaml.parse('devices', (run 'devices --json')))
        T.equal(told.devices[1].device, 'cpu')
        T.truthy(told.no_gpu and out:find(told.no_gpu, 1, true) or out:find('GPU 0: ', 1, true), out)
        if told.no_gpu then -- what training on one says too
            local _, failed, words = run 'scripts/train_gpt.lua --set device=cuda'
            T.equal(failed, 1)
            T.truthy(words:find(told.no_gpu, 1, true), words)
        end
    end)
    T.case('cli: help everywhere, and settings of a script', function()
        for _, command in ipairs { '--help', 'plan --help', 'devices --help', 'scripts/train_gpt.lua --help' } do
            local out, status = run(command)
            T.equal(status, 0, command)
            T.truthy(out:find('usage: ppl', 1, true) and out:find('--help', 1, true), command)
        end
        T.truthy(run('scripts/train_gpt.lua --help'):find('pipeline.schedule +1f1b'), 'settings')
    end)
    T.case('cli: wrong usage ends with 2, failures with 1, scripts choose', function()
        for _, command in ipairs { 'nothing', '--nothing', 'plan', 'plan 1f1b --nothing', 'plan 1f1b -m 0', 'plan 1f1b -m x',
            'plan 1f1b --costs F=a', 'plan 1f1b --costs Q=1', 'plan a b', 'plan nothing', 'plan 1f1b:foo=1',
            'devices x', '-i x', 'plan 1f1b --set a=1' } do
            local _, status = run(command)
            T.equal(status, 2, command)
        end
        for _, command in ipairs { 'plan none.csv', 'nowhere.lua' } do
            local _, status = run(command)
            T.equal(status, 1, command)
        end
        local _, status = run(T.temporary('return 7', '.lua'))
        T.equal(status, 7)
    end)
    T.case('cli: version, and help of the prompt', function()
        local out, status = run '--version'
        T.equal({ out:match('^ppl %d+%.%d+%.%d+\n$') ~= nil, status }, { true, 0 })
        out, status = run '-i --help'
        T.equal({ out:match('^usage: ppl %-i') ~= nil, status }, { true, 0 })
    end)
    T.case('cli: options of a script that are wrong are told as what they are', function()
        local script = T.temporary("local cfg = require 'ppl'.config { train = { steps = 3 } } print(cfg.train.steps)", '.lua')
        for command, text in pairs { ['--foo'] = '--foo: unknown option', ['--foo --steps 3'] = '--foo: unknown option',
            ['--stpes'] = 'nearest: --steps', ['--'] = '--: unknown option; --help', ['--steps'] = '--steps: has no value',
            ['--steps --quiet'] = '--steps: has no value',
            ['--set =3'] = 'has no key', ['--set x'] = 'has no =', ['--run .'] = 'is no place of its own',
            ["--run ''"] = 'is no place of its own', ['--run ..'] = 'is no place of its own' } do
            local _, status, words = run(script .. ' ' .. command)
            T.equal(status, 2, command)
            T.truthy(words:find(text, 1, true), command .. ': ' .. words)
        end
        T.equal((run(script .. ' --steps -4 --quiet')), '-4\n')
    end)
    T.case('cli: a run made shorter warms up for as long; both asked for must fit', function()
        local text = T.temporary(('some text to learn. '):rep(60))
        local script = T.temporary(([[
            local ppl = require 'ppl'
            local cfg = ppl.config { train = { steps = 50, warmup = 10 } }
            local run = ppl.trainer { model = ppl.nn.gpt { layers = 1, dim = 8, heads = 1, context = 8 }, loss = ppl.nn.cross_entropy(),
                data = ppl.data.text { files = { '%s' }, context = 8 }, steps = cfg.train.steps, pipeline = { threads = 1 },
                optimizer = ppl.adamw { lr = 1e-3, warmup = cfg.train.warmup, decay = 'cosine' } }
            run:step()
            print(run.optimizer.warmup)
            run:close()]]):format(text), '.lua')
        T.equal((run(script)), '10\n')
        T.equal((run(script .. ' --steps 1')), '0\n')
        T.equal((run(script .. ' --set train.steps=11')), '10\n')
        for _, options in ipairs { '--steps 10 --warmup 10', '--warmup 60', '--steps 5 --warmup 5' } do
            local _, status, words = run(script .. ' ' .. options)
            T.equal(status, 1, options)
            T.truthy(words:find('want it after warmup', 1, true), words)
        end
    end)
    T.case('cli: data that ends early leaves all that the finished steps give', function()
        local script = T.temporary([[
            local ppl = require 'ppl'
            local nn = ppl.nn
            return ppl.trainer { model = nn.sequential { nn.linear(1, 4), nn.linear(4, 1) }, loss = nn.mse(), steps = 9, batch = 4,
                pipeline = { stages = 2, microbatches = 2 }, data = ppl.data.iterator {
                    inputs = { { name = 'x', shape = { 1 } }, { name = 'targets', shape = { 1 } } },
                    next = function(step, batch)
                        if step >= 5 then return nil end
                        local x, y = {}, {}
                        for i = 1, batch do x[i], y[i] = { i }, { 1 } end
                        return { x = x, targets = y }
                    end } }]], '.lua')
        local folder = T.temporary('', '.run')
        os.remove(folder)
        local _, status, words = run(script .. ' --quiet --run ' .. folder)
        T.equal(status, 1)
        T.truthy(words:find('the data ended before step 5', 1, true), words)
        for _, name in ipairs { 'checkpoints/step-5.safetensors', 'costs.json', 'summary.json', 'trace.json', 'plan.csv', 'config.yaml' } do
            local file = io.open(folder .. '/' .. name)
            T.truthy(file, name)
            file:close()
        end
        local lines = 0
        for _ in io.lines(folder .. '/metrics.jsonl') do lines = lines + 1 end
        T.equal(lines, 5)
        os.execute('rm -r ' .. folder)
    end)
    T.case('cli: -i after training that failed gives the prompt, and a pipe says it failed', function()
        local script = T.temporary([[
            local ppl = require 'ppl'
            return ppl.trainer { model = ppl.nn.sequential { ppl.nn.linear(1, 1) }, loss = ppl.nn.mse(), steps = 2, batch = 2,
                pipeline = { microbatches = 1 }, data = ppl.data.iterator {
                    inputs = { { name = 'x', shape = { 1 } }, { name = 'targets', shape = { 1 } } }, next = function() end } }]], '.lua')
        local out, status, words = run(('-i %s --quiet < %s'):format(script, T.temporary 'run.steps\nrun:steps_done()\n'))
        T.equal({ out, status }, { '2\n0\n', 1 })
        T.truthy(words:find('ppl: ', 1, true) and words:find('the data ended before step 0', 1, true), words)
    end)
    T.case('cli: a trainer\'s method called with a dot, or misspelt, is named', function()
        local script = T.temporary([[
            local ppl = require 'ppl'
            return ppl.trainer { model = ppl.nn.gpt { layers = 1, dim = 8, heads = 1, context = 8 }, loss = ppl.nn.cross_entropy(),
                data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = 8 },
                pipeline = { stages = 1, microbatches = 1 }, batch = 1, steps = 1 }]], '.lua')
        for line, want in pairs { ['run.timings()'] = 'timings: called with a dot, want run:timings(...)',
            ['run.step(3)'] = 'step: called with a dot, want run:step(...)', ["run.compare 'gpipe'"] = 'want run:compare(...)',
            ['run.explain { measure = false }'] = 'want run:explain(...)', ['run.train()'] = 'want run:train(...)',
            ['run:timing()'] = 'nearest of a trainer: timings' } do
            local _, status, words = run(('-i %s --quiet < %s'):format(script, T.temporary(line .. '\n')))
            T.equal(status, 1, line)
            T.truthy(words:find(want, 1, true) and not words:find('<ppl>', 1, true), line .. ': ' .. words)
        end
    end)
    T.case('cli: a prompt reads lines, prints values and goes on after errors', function()
        local input = T.temporary('1 + 2\nx = 5\nfor i = 1, 2 do\nprint(i * x)\nend\nnil + 1\nundefined\nppl.nn.gpt {}\n"end"\nexit\n99\n')
        local out, status, words = run('< ' .. input)
        T.equal(status, 1) -- a line has failed
        T.equal(out, '3\n5\n10\nend\n')
        T.truthy(words:find('stack traceback:\n\tprompt:1: in main chunk', 1, true), words)
        out, status = run('< ' .. T.temporary '6 * 7\n')
        T.equal({ out, status }, { '42\n', 0 })
        out, status, words = run('< ' .. T.temporary 'for i = 1, 2 do\n')
        T.equal({ out, status }, { '', 1 })
        T.truthy(words:find('ends inside a statement', 1, true), words)
    end)
end
