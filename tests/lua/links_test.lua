-- links_test.lua - costs with units, links with latency and bandwidth in `ppl plan`, and the emulated device from a script.
local costs_of = require 'ppl.costs'
local costs_text = require 'ppl.costs_text'
local ppl = require 'ppl'
local units = require 'ppl.units'
local yaml = require 'ppl.yaml'
local nn = ppl.nn

local function json(T, arguments)
    local out, status, words = T.run(arguments .. ' --json')
    if status ~= 0 then error(words, 2) end
    return yaml.value(yaml.parse('plan', out))
end

local function refused(T, arguments, ...)
    local out, status, words = T.run('plan ' .. arguments)
    T.equal(out, '', arguments)
    T.truthy(status == 1 or status == 2, arguments)
    for _, text in ipairs { ... } do T.truthy(words:find(text, 1, true), ('%s: %s'):format(arguments, words)) end
end

local function read_texts(T)
    T.case('links: numbers with units', function()
        for text, want in pairs { ['5'] = 5, ['5us'] = 5e-6, ['2.5 ms'] = 2.5e-3, ['1e-3s'] = 1e-3, ['7ns'] = 7e-9 } do
            T.near(units.time(text), want, want * 1e-12)
        end
        for text, want in pairs { ['300GB/s'] = 3e11, ['100Gbit/s'] = 12.5e9, ['5'] = 5, ['2MiB/s'] = 2 ^ 21, ['8bit/s'] = 1 } do
            T.near(units.rate(text), want, want * 1e-12)
        end
        for text, want in pairs { ['4MB'] = 4e6, ['4KiB'] = 4096, ['17'] = 17, ['1B'] = 1 } do T.near(units.size(text), want) end
        for _, read in ipairs { units.time, units.rate, units.size } do
            for _, text in ipairs { '', 'x', '5 x', '-1', '1e999', '5us/s', '3GB/m', '5mB', 'nan', '0x10' } do
                T.equal({ (read(text)) }, {}, text)
            end
        end
    end)
    T.case('links: what the command line says, as costs', function()
        local value, timed = costs_text.read { costs = 'F=2ms:3ms,B=4ms,update=1ms,jitter=0.1,seed=4', link = 'latency=5us,bandwidth=1GB/s',
            ['link-between'] = 'latency=20us', ['node-ranks'] = '4', bytes = '1MB' }
        local checked = costs_of.check('c', value, 2)
        T.equal(timed, true)
        T.near({ checked.f[1], checked.f[2], checked.i[2], checked.w[1], checked.update }, { 2e-3, 3e-3, 2e-3, 2e-3, 1e-3 })
        T.near({ checked.latency, checked.bandwidth, checked.bytes, checked.jitter, checked.seed }, { 5e-6, 1e9, 1e6, 0.1, 4 }, 1e-9)
        T.near({ checked.between.latency, checked.node_ranks }, { 20e-6, 4 }, 1e-9)
        value, timed = costs_text.read { link = 'latency=0.5' }
        T.equal({ value.latency, timed }, { 0.5, false })
    end)
    T.case('links: misuse of the options', function()
        refused(T, '1f1b --link bandwidth=5', 'want --bytes')
        refused(T, '1f1b --link latency=5us', 'has a unit', '--costs F=2ms')
        refused(T, '1f1b --costs F=2ms,B=1', 'F=2ms has a unit', 'B=1 has none')
        refused(T, '1f1b --costs F=2ms', 'has no I')
        refused(T, '1f1b --costs F=2ms,B=4ms --link latency=3', 'latency=3 has none')
        refused(T, '1f1b --link late=1', '--link: late is unknown')
        refused(T, '1f1b --link latency=x', '--link: latency=x is no cost')
        refused(T, '1f1b --link latency=1,latency=2', 'latency stands twice')
        refused(T, '1f1b --costs latency=1 --link latency=2', 'stands in --costs too')
        refused(T, '1f1b --link ,', 'is empty')
        refused(T, '1f1b --node-ranks 2', 'without --link-between')
        refused(T, '1f1b --link-between latency=1', 'without --node-ranks')
        refused(T, '1f1b --node-ranks 0 --link-between latency=1', 'want a whole number of 1')
        refused(T, '1f1b --bytes 4XB', 'want a size, as in 4MB')
        refused(T, '1f1b --costs jitter=1', 'jitter')
        refused(T, '1f1b --costs F=1,F=2', 'F stands twice')
        refused(T, '1f1b --costs B=2,W=1', 'B stands beside W')
        refused(T, '1f1b --costs nothing.json', 'nothing.json cannot be read')
        refused(T, '1f1b --costs nothing', 'nothing cannot be read')
        refused(T, '1f1b --costs F=1e308', 'want 0 to 9e+09')
        refused(T, '1f1b --costs F=8e9', 'want 9e+09 at most')
        refused(T, '1f1b -p 4096 -m 65536', '268435456 forwards')
        refused(T, '1f1b --trace /nowhere/x', '/nowhere/x')
        refused(T, '--compare 1f1b --trace x', '--trace: is for one schedule')
    end)
end

local function tables(T)
    T.case('links: their load, as a table and as JSON', function()
        local arguments = 'plan gpipe -p 2 -m 4 --costs F=0.5:0,I=0,W=0 --link latency=0.25,bandwidth=50 --bytes 100'
        local value = json(T, arguments)
        T.equal(#value.links, 2)
        local link = value.links[1]
        T.equal({ link.from, link.to, link.messages, link.bytes }, { 0, 1, 4, 400 })
        T.near({ link.busy, link.queued, link.longest, link.utilisation, value.makespan }, { 8, 9, 6.75, 8 / value.makespan, 17 })
        local text = T.run(arguments)
        T.truthy(text:find('\n0 to 1 +4 +400 B +8 +47.1 %% +9 +6.75\n'), text)
        T.truthy(not T.run('plan gpipe -p 2 -m 4'):find('links', 1, true), 'no table where nothing is said of links')
        T.equal(json(T, 'plan gpipe -p 2 -m 4').links[1].bytes, nil)
    end)
    T.case('links: fast ones inside nodes, slow ones between', function()
        local value = json(T, 'plan gpipe -p 4 -m 1 --link latency=0.5 --link-between latency=3,bandwidth=2 --node-ranks 2 --bytes 4')
        T.near(value.makespan, 12 + 2 * (0.5 + 5 + 0.5))
        T.near({ value.links[3].from, value.links[3].to, value.links[3].busy }, { 1, 2, 2 })
        local text = T.run 'plan 1f1b -p 12 -m 2 --bytes 1'
        T.truthy(text:find('6 more, less busy', 1, true), text)
    end)
    T.case('links: the busiest one in a comparison, latency and size the same for every schedule', function()
        local value = json(T, 'plan --compare gpipe,looped-bfs -p 2 -m 4 --link latency=0.5,bandwidth=4 --bytes 1')
        local a, b = value.schedules[1], value.schedules[2]
        T.near(a.link_utilisation, 4 * 0.25 / a.iteration)
        T.near(b.link_utilisation, 12 * 0.25 / b.iteration) -- gradients from chunk to chunk go that way too
        T.truthy(T.run('plan --compare gpipe -p 2 -m 4 --link bandwidth=4 --bytes 1'):find('busiest link', 1, true), 'column')
    end)
    T.case('links: jitter changes times, by its seed', function()
        local function makespan(more) return json(T, 'plan 1f1b --costs F=1' .. more).makespan end
        T.near(makespan '', 33)
        T.truthy(math.abs(makespan ',jitter=0.2' - 33) > 1e-3, 'jitter')
        T.equal(makespan ',jitter=0.2,seed=5', makespan ',jitter=0.2,seed=5')
        T.truthy(makespan ',jitter=0.2,seed=5' ~= makespan ',jitter=0.2,seed=6', 'seed')
    end)
    T.case('links: a simulated step as Chrome\'s trace', function()
        local path = T.temporary('', '.json')
        local _, status = T.run('plan 1f1b -p 2 -m 2 --costs F=1ms,B=2ms --steps 2 --trace ' .. path)
        T.equal(status, 0)
        local value = yaml.value(yaml.open(path))
        local names = {}
        for _, event in ipairs(value.traceEvents) do
            if event.ph == 'X' then names[event.name] = (names[event.name] or 0) + 1 end
        end
        T.equal({ names['1F1'], names['0B0'] }, { 2, 2 })
    end)
end

-- A chain of linear layers on the emulated device, one a stage.
local function make(stages, fields)
    local layers = {}
    for i = 1, stages do layers[i] = nn.linear(4, 4) end
    local options = {
        model = nn.sequential(layers), loss = nn.mse(), device = 'emulated', batch = 8, dtype = 'f32', optimizer = ppl.sgd { lr = 0.1 },
        data = ppl.data.iterator { inputs = { { name = 'x', shape = { 4 } }, { name = 'targets', shape = { 4 } } },
            next = function(_, batch)
                local x = {}
                for i = 1, batch do x[i] = { i, 0, 0, 0 } end
                return { x = x, targets = x }
            end },
        pipeline = { stages = stages, microbatches = 8, threads = 1 },
    }
    for key, value in pairs(fields or {}) do options[key] = value end
    return ppl.trainer(options)
end

local function emulated(T)
    T.case('emulated: 64 ranks, with links, jitter and chained steps', function()
        local run = make(64, { costs = { f = 1e-4, i = 1e-4, w = 1e-4, latency = 1e-4, bandwidth = 1e6, jitter = 0.1, seed = 3,
            node_ranks = 8, between = { latency = 2e-4 } }, pipeline = { stages = 64, microbatches = 8, schedule = 'zb-h1', threads = 1 } })
        T.equal(run:step(3).step, 2)
        T.equal(run:record(2).peak_live, 8)
        local links = run:links().rows
        T.equal(#links, 2 * 63)
        for _, link in ipairs(links) do -- a message takes its latency at least; 0: no reader was there before it
            local between = math.floor(link.from_rank / 8) ~= math.floor(link.to_rank / 8)
            T.truthy(link.median == 0 or link.median >= (between and 2e-4 or 1e-4) * 0.9, link.median)
        end
        run:close()
    end)
    T.case('emulated: measured costs tell of the links, and are read back', function()
        local run = make(3, { costs = { f = 2e-3, i = 1e-3, w = 1e-3, update = 1e-3, latency = 5e-3 }, eval_data = nil,
            pipeline = { stages = 3, microbatches = 4, threads = 1 } })
        run:step(2)
        local folder = os.tmpname()
        os.remove(folder)
        local directory = require 'ppl.run_directory'.open(folder, run)
        directory:finish(run, { steps = 2, interrupted = false })
        directory:close()
        local read = costs_of.read(folder .. '/costs.json', 3)
        T.truthy(#read.links >= 2 and #read.links <= 4, #read.links)
        for _, link in ipairs(read.links) do T.truthy(link.latency >= 5e-3 and math.abs(link.from - link.to) == 1, link.latency) end
        T.truthy(read.latency >= 5e-3 and read.update >= 1e-3 and read.f[2] >= 2e-3, 'times')
        local value = json(T, ('plan 1f1b -p 3 -m 4 --costs %s/costs.json'):format(folder))
        T.truthy(value.makespan >= (4 + 2) * 4e-3 + 4 * 5e-3, value.makespan) -- down and up once, whatever the machine adds
        local own = json(T, ('plan 1f1b -p 3 -m 4 --costs %s/costs.json --link latency=0'):format(folder))
        T.truthy(own.makespan < value.makespan, '--link replaces the measured links')
        os.execute('rm -rf ' .. folder)
        run:close()
    end)
    T.case('emulated: a training script is planned by its own costs, its model\'s bytes and its schedule', function()
        local file = T.temporary([[
            local ppl = require 'ppl'
            local nn = ppl.nn
            return ppl.trainer { model = nn.sequential { nn.linear(4, 256), nn.linear(256, 4) }, loss = nn.mse(), device = 'emulated',
                data = ppl.data.iterator { inputs = { { name = 'x', shape = { 4 } }, { name = 'targets', shape = { 4 } } },
                    next = function() end },
                costs = { f = 1, i = 1, w = 1, latency = 0.5, bandwidth = 1024 }, batch = 4, dtype = 'f32', optimizer = ppl.sgd { lr = 1 },
                pipeline = { stages = 2, microbatches = 1, schedule = 'gpipe', threads = 1 } }]], '.lua')
        local value = json(T, 'plan ' .. file)
        T.equal({ value.links[1].bytes, #value.links }, { 4 * 256 * 4, 2 })
        T.near(value.makespan, 6 + 2 * (4 + 0.5))
        T.near(json(T, ('plan %s --costs F=2s,B=4s'):format(file)).makespan, 12)
        refused(T, file .. ' --bytes 4', 'is for a schedule without a model')
        refused(T, file .. ' --link latency=1', 'has costs of its own, want --costs too')
    end)
    T.case('emulated: costs and faults that cannot be', function()
        local function fails(fields, ...)
            local words = { ... }
            T.fails(function() make(2, fields):step() end, unpack(words))
        end
        fails({ device = 'cpu', costs = { f = 1 } }, 'the device is cpu, want emulated')
        fails({ device = 'cpu', faults = { fail = { rank = 0, task = 1 } } }, 'faults.fail: the device is cpu, want emulated')
        fails({ faults = { fail = { rank = 2, task = 1 } } }, 'faults.fail: rank: is 2, want a whole number of 0 to 1')
        fails({ faults = { stall = { rank = 0 } } }, 'faults.stall: task: is nil')
        fails({ faults = { fail = { rank = 0, task = 1 }, stall = { rank = 1, task = 1 } } }, 'rank 0 fails and rank 1 stalls')
        fails({ faults = { delay = -1 } }, 'faults.delay: is -1')
        fails({ costs = { bytes = 4 } }, 'the model says how large')
        fails({ costs = { bandwidth = 0 } }, 'bandwidth: is 0, want a number above 0')
        fails({ costs = { node_ranks = 2 } }, 'node_ranks stands without between')
        fails({ costs = { between = { latency = 1, late = 2 }, node_ranks = 2 } }, 'nearest: latency')
        fails({ costs = { links = { { from = 0, to = 0 } } } }, 'link 0 goes from rank 0 to rank 0')
        fails({ costs = { links = { { from = 0 } } } }, 'link 1: to: is nil')
        fails({ costs = { jitter = 1 } }, 'jitter: is 1')
        fails({ costs = { f = 1e300 } }, 'want 0 to 9e+09')
        fails({ faults = { fail = { rank = 1, task = 3 } }, costs = { f = 1e-4 } }, 'rank 1, stage 1',
            'program 3 of the rank fails, as asked for')
    end)
end

return function(T)
    read_texts(T)
    tables(T)
    emulated(T)
end
