-- plan_test.lua - `ppl plan` beyond its table: the field's known figures, pictures, comparisons, costs a stage, files.
local compare = require 'ppl.plan_compare'
local costs_of = require 'ppl.costs'
local costs_text = require 'ppl.costs_text'
local plan_figures = require 'ppl.plan_figures'
local schedules = require 'ppl.schedules'
local yaml = require 'ppl.yaml'
local read = require('support').read

local function parse(text, stages)
    if text == '' then text = nil end
    return costs_of.check('--costs', (costs_text.read { costs = text }), stages)
end

-- Figures of a schedule by name with costs as --costs takes them.
local function figures(name, p, m, costs, steps)
    local compiled = schedules.compile(name, { ranks = p, microbatches = m })
    local result = plan_figures.of(compiled, parse(costs or '', compiled.stages), steps or 1)
    compiled:close()
    return result
end

local function peaks(name, p, m)
    local list = {}
    for r, row in ipairs(figures(name, p, m).by_rank) do list[r] = row.peak_activations end
    return list
end

-- The elements of an XML text in order, as { name, attributes..., text before the next tag }; fails where tags do not nest.
local function elements(text)
    local list, open = {}, {}
    assert(not text:gsub('&%a+;', ''):find('&', 1, true), 'an & that is no entity')
    for closing, name, inside, empty, after in text:gmatch('<(/?)([%a]+)([^<>]-)(/?)>([^<]*)') do
        if closing == '/' then
            assert(table.remove(open) == name, 'tags do not nest at ' .. name)
        else
            local element = { name = name, text = after }
            for key, value in inside:gmatch('([%w:]+)="([^"]*)"') do element[key] = value end
            list[#list + 1] = element
            if empty == '' then open[#open + 1] = name end
        end
    end
    assert(#open == 0 and #list > 0, 'tags stay open')
    return list
end

-- The boxes of tasks in a picture: { class, x, width, y }.
local function boxes(list)
    local found = {}
    for i, element in ipairs(list) do
        if element.name == 'rect' and (element.class or ''):match('^[FBIWU]$') then
            found[#found + 1] = { class = element.class, x = tonumber(element.x), width = tonumber(element.width), y = tonumber(element.y),
                title = list[i + 1].text }
        end
    end
    return found
end

local function known_figures(T)
    T.case('plan: bubble ratio is idle / iteration, bubble overhead idle / ideal', function()
        for _, case in ipairs { { 4, 8, '27', '38' }, { 8, 8, '47', '88' }, { 8, 32, '18', '22' } } do
            local p, m = case[1], case[2]
            for _, name in ipairs { '1f1b', 'gpipe' } do
                local sim = figures(name, p, m).sim
                T.near({ sim.bubble_ratio, sim.bubble_overhead }, { (p - 1) / (m + p - 1), (p - 1) / m })
                T.equal({ ('%.0f'):format(sim.bubble_ratio * 100), ('%.0f'):format(math.floor(sim.bubble_overhead * 100 + 0.5)) },
                    { case[3], case[4] }, name)
            end
        end
        T.near(figures('1f1b', 4, 1).sim.bubble_ratio, 0.75)
    end)
    T.case('plan: peak activations of the known schedules', function()
        T.equal(peaks('1f1b', 4, 8), { 4, 3, 2, 1 })
        T.equal(figures('zb-h2', 4, 8).peak_activations, 7)
        T.equal(figures('gpipe', 4, 32).peak_activations, 8 * figures('1f1b', 4, 32).peak_activations)
    end)
    T.case('plan: versions of the weights, and steps that do not drain', function()
        for name, versions in pairs { pipedream = { 4, 3, 2, 1 }, ['pipedream-2bw'] = { 2, 2, 2, 2 } } do
            local one, ten = figures(name, 4, 8), figures(name, 4, 8, nil, 10)
            T.equal(one.sim.makespan, 33, name)
            T.near(ten.sim.makespan / 10, 24.9, 1e-9)
            T.near(one.chained_iteration, 24, 1e-9)
            for r, row in ipairs(one.by_rank) do T.equal(row.weight_versions, { versions[r] }, name) end
            T.equal(one.weight_versions, versions[1], name)
            local text, status = T.run(('plan %s -p 4 -m 8'):format(name))
            T.equal(status, 0, text)
            T.truthy(text:find('weight versions', 1, true) and text:find('take 24 each', 1, true), text)
            text, status = T.run(('plan %s -p 4 -m 8 --json'):format(name))
            T.equal(status, 0, text)
            T.truthy(text:find(('"weight_versions": [%d]'):format(versions[1]), 1, true), text)
            for _, arguments in ipairs { '--format csv', '--csv ' .. T.temporary 'before' } do
                local _, failed, words = T.run(('plan %s %s'):format(name, arguments))
                T.equal(failed, 1, words)
                T.truthy(words:find("which the CSV form cannot say, want 'sync'", 1, true), words)
            end
        end
        T.equal(figures('1f1b', 4, 8).by_rank[1].weight_versions, nil)
        T.equal(figures('1f1b', 4, 8).chained_iteration, nil)
    end)
    T.case('plan: the slowest stage bounds throughput', function()
        local function each(name, costs) -- time of a further microbatch once the pipeline is full
            local p = select(2, costs:match('F=[%d.:]+'):gsub(':', '')) + 1
            local few, many = figures(name, p, 32, 'W=0,' .. costs), figures(name, p, 64, 'W=0,' .. costs)
            return (many.sim.makespan - few.sim.makespan) / 32
        end
        for text, want in pairs { ['2:2:6:2'] = 6, ['1:1:2:6:2'] = 6, ['2:2:3:3:2'] = 3 } do
            T.near(each('gpipe', 'I=0,F=' .. text), want)
        end
        T.near(each('1f1b', 'F=1:1:3:1,I=1:1:3:1'), 6)
        T.near(each('1f1b', 'F=0.5:0.5:1:3:1,I=0.5:0.5:1:3:1'), 6)
    end)
end

local function costs(T)
    T.case('plan: costs of every stage, or one a stage', function()
        local value = parse('F=1:2:1e1:0.5,B=4:2:1:1,latency=0.25,update=3', 4)
        T.equal({ value.f, value.i, value.w }, { { 1, 2, 10, 0.5 }, { 2, 1, 0.5, 0.5 }, { 2, 1, 0.5, 0.5 } })
        T.equal({ value.latency, value.update }, { 0.25, 3 })
        T.equal(parse('F=2', 2).f, { 2, 2 })
        T.near(figures('1f1b', 4, 8, 'F=1:1:1:1,I=1:1:1:1').sim.makespan, 33)
        T.fails(function() parse('F=1:2', 4) end, 'has 2 costs, want 4')
        for _, text in ipairs { 'F=1:', 'F=:1', 'F=1:x', 'F=-1', 'F=1e999', 'F', 'F=nan', 'update=1:2', 'F=1,F=1', 'B=1,W=1', 'F=1m' } do
            T.fails(function() parse(text, 2) end, '--costs: ')
        end
    end)
    T.case('plan: --link is the latency of --costs', function()
        local inside, own = T.run 'plan 1f1b --costs F=2,latency=0.5', T.run 'plan 1f1b --costs F=2 --link latency=0.5'
        T.equal(own, inside)
        T.truthy(own ~= T.run 'plan 1f1b --costs F=2', 'the latency is seen')
    end)
end

local function pictures(T)
    T.case('plan: a picture has a box for each task, where and as long as it is', function()
        local list = elements((T.run 'plan interleaved -p 2 -m 4 --format svg'))
        local found, count = boxes(list), {}
        for _, box in ipairs(found) do count[box.class] = (count[box.class] or 0) + 1 end
        T.equal(count, { F = 16, B = 16 })
        local first, unit = found[1], found[1].width
        for _, box in ipairs(found) do
            local stage, kind, begin, finish = box.title:match('^(%d)(%u)%d: ([%d.]+) to ([%d.]+)$')
            T.equal(kind, box.class)
            T.near({ box.x, box.width }, { first.x + begin * unit, (finish - begin) * unit }, 0.02)
            T.near(box.y - first.y, stage % 2 * 30)
        end
        local seen = {}
        for _, element in ipairs(list) do seen[element.text] = true end
        for _, words in ipairs { 'rank 0', 'rank 1', '3F0', 'F forward', 'B backward', 'idle', 'time' } do T.truthy(seen[words], words) end
    end)
    T.case('plan: a picture stands alone, in light and dark, and its names are escaped', function()
        local file = T.temporary("return require 'ppl'.schedule { name = 'a<b&\"', rank = function(s) s.F(0) s.I(0) s.W(0) end }", '.lua')
        local text, status = T.run(('plan %s -p 1 -m 1 --format svg --costs F=0.001,I=0.001,W=0.001,update=0.001'):format(file))
        T.equal(status, 0)
        T.equal(#boxes(elements(text)), 4)
        T.truthy(text:find('a&lt;b&amp;&quot;', 1, true) and text:find('prefers-color-scheme:dark', 1, true), text)
        for _, outside in ipairs { 'href', 'url(h', '@import', '<script', 'src=' } do T.truthy(not text:find(outside, 1, true), outside) end
        T.equal(#boxes(elements((T.run 'plan 1f1b --format svg --costs F=0,I=0,W=0'))), 0)
    end)
end

local function files(T)
    T.case('plan: formats, to standard output and to a file', function()
        local path = T.temporary('before', '.csv')
        for _, format in ipairs { 'table', 'csv', 'json', 'svg' } do
            local out, status = T.run('plan dualpipe-v -p 2 -m 4 --format ' .. format)
            T.equal(status, 0)
            local none, second = T.run(('plan dualpipe-v -p 2 -m 4 --format %s --output %s'):format(format, path))
            T.equal({ none, second, read(path) }, { '', 0, out }, format)
        end
        T.equal(T.run 'plan zb-h1 --json', (T.run 'plan zb-h1 --format json'))
        T.run('plan dualpipe-v -p 2 -m 4 --csv ' .. path)
        T.equal(T.run 'plan dualpipe-v -p 2 -m 4 --format csv', read(path))
        T.truthy(read(path):find('(0F3;3B1)OVERLAP_F_B', 1, true), read(path))
        T.equal(T.run(('plan %s --format csv'):format(path)), read(path))
    end)
    T.case('plan: what cannot be written or is no format', function()
        for arguments, want in pairs {
            ['plan 1f1b --output /nowhere/x'] = { 1, '/nowhere/x: cannot be written' },
            ['plan 1f1b --format svq'] = { 2, 'want one of table, csv, json, svg (nearest: svg)' },
            ['plan 1f1b --json --format csv'] = { 2, 'beside --json' },
            ['plan --compare 1f1b --format svg'] = { 2, 'want --format table or json' },
            ['plan --compare ,'] = { 2, 'names no schedule' },
            ['plan --compare 1f1b --tasks'] = { 2, '--tasks: is for one schedule' },
            ['plan --compare mine.lua --nothing'] = { 2, '--nothing: unknown option' },
            ['plan 1f1b --output /nowhere/x --csv /nowhere/x'] = { 2, '--csv: /nowhere/x is the file of --output, want another' },
            ['plan 1f1b --csv /nowhere/x --trace /nowhere/x'] = { 2, '--trace: /nowhere/x is the file of --csv, want another' },
            ["plan 1f1b --trace ''"] = { 2, '--trace: is empty, want the name of a file' },
            ["plan --compare 1f1b --output ''"] = { 2, '--output: is empty, want the name of a file' },
            ['plan 1f1b --tasks --json'] = { 2, '--tasks: is for --format table, and the format is json' },
            ["plan 1f1b --ranks ''"] = { 2, '--ranks: is empty, want a whole number' },
            ["plan 1f1b --costs ''"] = { 2, '--costs: is empty, want F=1' },
            ['plan 1f1b --costs F=1:2'] = { 2, '--costs: F has 2 costs, want 4, one a stage' },
            ['plan 1f1b --costs F=1,B=1:2'] = { 2, '--costs: B has 2 costs, want 4, one a stage' },
            ['plan 1f1b --costs jitter=1'] = { 2, '--costs: jitter is 1, want a part' },
            ['plan 1f1b --costs seed=1.5'] = { 2, '--costs: seed is 1.5, want a whole number' },
            ['plan 1f1b --costs ' .. T.temporary('', '.json')] = { 1, 'has no stages, want the costs.json of a run' },
            ['plan gpipe:chunks=2'] = { 2, 'schedule gpipe: unknown option "chunks", want none' },
            ['plan interleaved:chunk=2'] = { 2, 'unknown option "chunk" (nearest: chunks), want one of chunks' },
            ['plan interleaved:chunks'] = { 2, 'schedule interleaved: "chunks" is no option, want name=number' },
            ['plan interleaved:'] = { 2, 'schedule interleaved: "" is no option' },
        } do
            local out, status, words = T.run(arguments)
            T.equal({ out, status }, { '', want[1] }, arguments)
            T.truthy(words:find(want[2], 1, true), words)
        end
    end)
    T.case('plan: colour on a terminal alone, and never with NO_COLOR or in a file', function()
        if not io.open '/usr/bin/script' then T.skip 'no program `script`, which gives a terminal' end
        local path, log = T.temporary('', '.txt'), T.temporary ''
        local function on_terminal(environment, arguments)
            T.run '--help' -- finds the program
            os.execute(("env -u NO_COLOR TERM=xterm %s script -qec '%s plan 1f1b -p 2 -m 2 %s' /dev/null >%s 2>&1 </dev/null"):format(
                environment, T.path, arguments, log))
            return read(log)
        end
        local coloured = on_terminal('', '')
        if coloured:find('pseudo-terminal', 1, true) then T.skip 'this machine gives no pseudo-terminal' end
        for _, kind in ipairs { 'F', 'B' } do T.truthy(coloured:find('\27%[[%d;]+m' .. kind .. '0'), coloured) end
        local plain = on_terminal('NO_COLOR=1', '')
        T.truthy(plain:find('F0', 1, true) and not plain:find('\27', 1, true), plain)
        on_terminal('', '--output ' .. path)
        T.truthy(read(path):find('F0', 1, true) and not read(path):find('\27', 1, true), 'a file')
    end)
end

local function comparisons(T)
    T.case('plan: names with options in a list', function()
        T.equal(compare.split 'gpipe, hanayo:waves=2,interleaved:chunks=3,hop=2,a.csv,b=1',
            { 'gpipe', 'hanayo:waves=2', 'interleaved:chunks=3,hop=2', 'a.csv', 'b=1' })
        T.equal(compare.split ',', {})
    end)
    T.case('plan: a comparison', function()
        local out, status = T.run 'plan --compare gpipe,1f1b,interleaved:chunks=2,zb-h1,zb-h2,zb-v,v-half -p 4 -m 8'
        T.equal(status, 0)
        T.golden('plan_compare', out)
        out, status = T.run 'plan 1f1b --compare zb-h2 --steps 6 --costs F=1,I=1,W=1 --json'
        T.equal(status, 0)
        local value = yaml.value(yaml.parse('compare', out))
        T.equal(value.steps, 6)
        local first, second = value.schedules[1], value.schedules[2]
        T.near({ first.iteration, second.iteration, second.bubble_ratio }, { 33, 24, 0 })
        T.equal({ first.schedule, first.messages, first.weight_versions, second.peak_activations }, { '1f1b', 48, 1, 7 })
    end)
    T.case('plan: a comparison fails if every schedule is refused, with the reasons', function()
        local crossed = T.temporary("return require 'ppl'.schedule { name = 'crossed', rank = function(s) s.B(0) s.F(0) end }", '.lua')
        local out, status = T.run(('plan --compare 1f1c,%s -p 2 -m 1'):format(crossed))
        T.equal(status, 1)
        T.truthy(out:find('refused 1f1c: is unknown (nearest: 1f1b)', 1, true), out)
        T.truthy(out:find('refused ' .. crossed, 1, true) and out:find('0B0', 1, true), out)
        out, status = T.run(('plan --compare 1f1b,%s -p 2 -m 1 --json'):format(crossed))
        T.equal(status, 0)
        local value = yaml.value(yaml.parse('compare', out))
        T.equal({ #value.schedules, #value.refused, value.refused[1].schedule }, { 1, 1, crossed })
    end)
    T.case('plan: costs of one number are a rank\'s, lists are of stages', function()
        local function rows(text)
            return compare.rows({ '1f1b', 'interleaved' },
                { ranks = 4, microbatches = 8, steps = 1, costs = (costs_text.read { costs = text }) })
        end
        local even = rows 'F=2,I=2,W=2'
        T.near({ even[1].makespan, even[2].makespan }, { 66, 57 })
        T.near({ even[2].peak_activations, even[2].peak_microbatches }, { 11, 5.5 })
        local listed, refused = rows 'F=1:1:1:1'
        T.equal({ #listed, #refused }, { 1, 1 })
        T.truthy(refused[1].reason:find('has 4 costs, want 8', 1, true), refused[1].reason)
    end)
end

return function(T)
    known_figures(T)
    costs(T)
    pictures(T)
    files(T)
    comparisons(T)
end
