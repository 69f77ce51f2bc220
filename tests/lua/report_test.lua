-- report_test.lua - `ppl report`: what a run leaves for it, what the page holds, and what it refuses, by name and line.
-- What the page looks like in a browser: tests/e2e/report.sh.
local capi = require 'ppl.capi'
local yaml = require 'ppl.yaml'
local support = require 'support'
local write, read = support.write, support.read

local GOOD = '{"step": %d, "loss": %s, "lr": 0.1, "grad_norm": 1.5, "tokens_per_s": 1000, "step_ms": 2.5, "bubble": 0.25, ' ..
    '"peak_bytes": 4096}\n'

-- Lines of metrics of so many steps.
local function lines(count)
    local list = {}
    for step = 0, count - 1 do list[step + 1] = GOOD:format(step, 5 - step / count) end
    return table.concat(list)
end

return function(T)
    local root = T.temporary('') .. '.runs'
    local made = 0
    -- A directory of a run with such files.
    local function directory(files)
        made = made + 1
        local path = ('%s/run-%d'):format(root, made)
        capi.lib.make_directory(path)
        for name, text in pairs(files) do write(path .. '/' .. name, text) end
        return path
    end
    local function refused(path, status, ...)
        local _, got, words = T.run('report ' .. path)
        T.equal(got, status, words)
        for _, want in ipairs { ... } do T.truthy(words:find(want, 1, true), ('%q lacks %q'):format(words, want)) end
        return words
    end
    if not io.open(require 'ppl.report.page'.d3, 'rb') then
        T.case('report: a page', function() T.skip 'no d3 here, want scripts/setup' end)
        return
    end

    local script = T.temporary([[
        local ppl = require 'ppl'
        local cfg = ppl.config { pipeline = { stages = 2, microbatches = 4, schedule = '1f1b' }, steps = 6 }
        return ppl.trainer {
            model = ppl.nn.gpt { layers = 4, dim = 16, heads = 2, context = 8 }, loss = ppl.nn.cross_entropy(), steps = cfg.steps,
            data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = 8, held_out = 0.1 },
            pipeline = cfg.pipeline, batch = 8, trace_steps = 3,
        }]], '.lua')
    local run = root .. '/trained'

    T.case('report: a run leaves a summary', function()
        local _, status, words = T.run(('%s --run %s --quiet'):format(script, run))
        T.equal(status, 0, words)
        local text = read(run .. '/summary.json')
        local value = yaml.value(yaml.parse('summary', text))
        T.equal({ value.format, value.ranks, value.stages, value.microbatches, value.steps, value.schedule },
            { 1, 2, 2, 4, 6, '1f1b' })
        T.equal({ #value.stage, #value.rank, #value.timeline.steps }, { 2, 2, 3 })
        T.equal({ value.timeline.steps[1].step, value.timeline.steps[3].step }, { 3, 5 })
        for _, step in ipairs(value.timeline.steps) do
            for rank, tasks in ipairs(step.rank) do
                local last = -1
                for task in tasks:gmatch('[^;]+') do
                    local action, begin, duration = task:match('^(.-) ([%d.]+) ([%d.]+) %-?%d+$')
                    T.truthy(action, task)
                    T.truthy(tonumber(begin) >= last - 0.11, 'tasks of a rank follow one another')
                    last = tonumber(begin) + tonumber(duration)
                end
                for mb = 0, 3 do
                    for _, kind in ipairs { 'F', 'B' } do
                        local name = ('%d%s%d '):format(rank - 1, kind, mb)
                        T.truthy((';' .. tasks):find(';' .. name, 1, true), name)
                    end
                end
            end
        end
        -- Theory: (p - 1) / (m + p - 1).
        for _, curve in ipairs(value.curves.p) do
            for i, m in ipairs(value.curves.m) do
                T.near(curve.bubble_ratio[i], (curve.ranks - 1) / (m + curve.ranks - 1), 1e-12)
            end
        end
        T.near(value.bubble.theory.bubble_ratio, 1 / 5, 1e-12)
        T.truthy(value.stage[1].f_ms > 0 and value.rank[1].memory.activations > 0, 'measured')
    end)
    T.case('report: one page that loads nothing', function()
        local out, status, words = T.run('report ' .. run)
        T.equal(status, 0, words)
        T.equal(words, '')
        T.truthy(out:find(('written to %s/report.html ('):format(run), 1, true), out)
        local page = read(run .. '/report.html')
        T.truthy(#page < 5e6, 'size')
        T.truthy(not page:find('{{', 1, true) and page:find('^<!doctype html>'), 'whole')
        T.truthy(page:find('Mike Bostock', 1, true), 'the licence of d3')
        for _, loads in ipairs { '<script src', '<link rel="stylesheet', '@import', 'url%(http', 'fetch%(', 'XMLHttp' } do
            local body = page:gsub('<script>\n/%*.-</script>', '') -- d3's own words
            T.truthy(not body:find(loads), loads)
        end
        out, status = T.run(('report %s/ --json -o %s/other.html'):format(run, root))
        T.equal(status, 0)
        local said = yaml.value(yaml.parse('json', out))
        T.equal({ said.page, said.whole, said.bytes }, { root .. '/other.html', true, #read(root .. '/other.html') })
        out = T.run(('report %s --quiet'):format(run))
        T.equal(out, '')
        local _, both = T.run(('report %s %s -o %s/both.html'):format(run, directory { ['metrics.jsonl'] = lines(3) }, root))
        T.equal(both, 0)
    end)
    T.case('report: text of a run cannot end the script it stands in', function()
        local path = directory { ['metrics.jsonl'] = lines(2), ['config.yaml'] = 'note: "</script><b>x & y"\n' }
        T.equal(select(2, T.run('report ' .. path)), 0)
        local page = read(path .. '/report.html')
        T.truthy(page:find('\\u003c/script>\\u003cb>x & y', 1, true), 'escaped')
    end)
    T.case('report: long runs are shown as means', function()
        local path = directory { ['metrics.jsonl'] = lines(4500) }
        T.equal(select(2, T.run('report ' .. path)), 0)
        local page = read(path .. '/report.html')
        T.truthy(page:find('"steps": 4500, "group": 3', 1, true), 'groups of three')
        local steps = page:match('"step": %[([^]]*)%]')
        T.equal(select(2, steps:gsub('%d+', '')), 1500)
        T.truthy(steps:find('^0,3,6,'), steps:sub(1, 20))
        T.near(tonumber(page:match('"loss": %[([%d.]+),')), 5 - 1 / 4500, 1e-9)
    end)
    T.case('report: a run that goes on, or was ended from outside, is shown as far as it went', function()
        local path = directory { ['metrics.jsonl'] = lines(3) .. '{"step": 3, "lo' }
        local _, status, words = T.run('report ' .. path)
        T.equal(status, 0)
        T.truthy(words:find('has not ended, or was ended from outside: the page shows its 3 steps', 1, true), words)
        T.truthy(read(path .. '/report.html'):find('"steps": 3, "group": 1, "cut": true', 1, true), 'the half line is left out')
        _, status, words = T.run('report ' .. directory { ['metrics.jsonl'] = GOOD:format(0, 'null') })
        T.equal(status, 0)
        T.truthy(words:find('shows its 1 step\n', 1, true), words)
    end)
    T.case('report: what is refused, and how', function()
        refused('/nonexistent/run', 1, '/nonexistent/run: no such directory')
        refused(script, 1, 'is a file, want the directory of a run')
        refused(directory {}, 1, 'is not a run directory', 'metrics.jsonl')
        refused(directory { ['metrics.jsonl'] = '' }, 1, 'has no whole line')
        refused(directory { ['metrics.jsonl'] = '{"step": 0' }, 1, 'has no whole line')
        refused(directory { ['metrics.jsonl'] = lines(2) .. '{"step": 2, "lo\n' .. lines(1) }, 1, 'metrics.jsonl:3: ', 'is damaged')
        refused(directory { ['metrics.jsonl'] = lines(2) .. '\n' }, 1, 'metrics.jsonl:3: ')
        refused(directory { ['metrics.jsonl'] = lines(1) .. '[1]\n' }, 1, 'metrics.jsonl:2: is a list')
        refused(directory { ['metrics.jsonl'] = lines(1) .. '{"step": 1}\n' }, 1, 'metrics.jsonl:2: ', 'has no tokens_per_s')
        refused(directory { ['metrics.jsonl'] = lines(1) .. GOOD:format(1, '"x"') }, 1, 'metrics.jsonl:2: loss is no number')
        local good = lines(2)
        refused(directory { ['metrics.jsonl'] = good, ['summary.json'] = '{"format": 1' }, 1, 'summary.json: line 1', 'is damaged')
        refused(directory { ['metrics.jsonl'] = good, ['summary.json'] = '{"format": 9}' }, 1, 'format is 9, want 1')
        refused(directory { ['metrics.jsonl'] = good, ['summary.json'] = '{"format": 1, "stage": [], "rank": 3}' }, 1, 'rank is no list')
        refused(directory { ['metrics.jsonl'] = good, ['config.yaml'] = 'a: [1' }, 1, 'config.yaml')
        refused('', 2, 'has no run directory')
        refused('a b c', 2, 'c: is one argument too many')
        refused('a --nothing', 2, 'unknown option')
        refused(run .. ' -o /nonexistent/page.html', 1, '/nonexistent/page.html')
    end)
    os.execute(("rm -rf '%s'"):format(root))
end
