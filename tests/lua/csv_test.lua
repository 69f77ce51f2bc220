-- csv_test.lua - CSV files of compute order where a user meets them: `ppl plan` writes and reads them, a trainer takes one, and
-- what the form cannot say is refused by name. Their faults are broken_test.lua's, the library's round trip grid_test.lua's.
local ppl = require 'ppl'
local capi = require 'ppl.capi'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'
local training = require 'training'
local support = require 'support'
local write, read = support.write, support.read
local nn = ppl.nn

-- A trainer of linear layers, two stages; rest: fields over its own.
local function trainer(model, rest)
    local options = {
        model = model, loss = nn.mse(), batch = 4, dtype = 'f32',
        data = ppl.data.iterator { inputs = { { name = 'x', shape = { 4 } }, { name = 'targets', shape = { 4 } } }, next = function() end },
        pipeline = { stages = 3, microbatches = 2, threads = 1 },
    }
    for key, value in pairs(rest or {}) do options[key] = value end
    return ppl.trainer(options)
end

local function commands(T)
    T.case('csv: with sends and receives, and back', function()
        local plain, path = T.run 'plan 1f1b -p 2 -m 2 --format csv', T.temporary('', '.csv')
        local text, status = T.run 'plan 1f1b -p 2 -m 2 --format csv --messages'
        T.equal(status, 0)
        T.equal(text, '0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n')
        T.run(('plan 1f1b -p 2 -m 2 --messages --csv %s'):format(path))
        T.equal(read(path), text)
        T.equal(T.run(('plan %s --format csv'):format(path)), plain)
        T.equal(T.run(('plan %s --format csv --messages'):format(path)), text)
    end)
    T.case('csv: ppl plan of a file shows what ppl plan of its schedule shows', function()
        local path = T.temporary('', '.csv')
        local want = T.run(('plan zb-v -p 3 -m 5 --csv %s'):format(path))
        local got, status = T.run('plan ' .. path)
        T.equal(status, 0)
        T.truthy(got:find('3 ranks, 6 stages, 5 microbatches', 1, true), got)
        local function picture(text) return text:match('\n(rank 0 .-\n)        0') end
        T.equal(picture(got), picture(want))
        T.equal(got:match('makespan[^\n]*'), want:match('makespan[^\n]*'))
        local _, second, words = T.run(('plan %s -p 4'):format(path))
        T.equal(second, 1)
        T.truthy(words:find('is for 3 ranks, want 4', 1, true), words)
    end)
    T.case('csv: wrong usage', function()
        for arguments, want in pairs {
            ['plan 1f1b --messages'] = '--messages: is for CSV',
            ['plan --compare 1f1b --messages'] = '--messages: is for one schedule',
            ['plan x.csv:chunks=2'] = 'a CSV file takes none',
        } do
            local _, status, words = T.run(arguments)
            T.truthy(status > 0 and words:find(want, 1, true), words)
        end
    end)
end

local function training_cases(T)
    T.case('csv: a trainer takes a file, and trains to the bits of one stage', function()
        local want, path = training.bits('naive', { stages = 1, microbatches = 3 }), T.temporary('', '.csv')
        for _, what in ipairs { '1f1b', 'zb-h1', 'dualpipe-v', 'interleaved' } do
            local stages = 2 * schedules.find(what).chunks
            local compiled = schedules.compile(what, { stages = stages, microbatches = 3 })
            for _, messages in ipairs { false, true } do
                compiled:write(path, messages)
                T.truthy(training.bits(path, { stages = stages, microbatches = 3 }) == want, what)
            end
        end
        T.fails(function() training.bits(path, { stages = 2, microbatches = 3 }) end, 'is for 4 stages, want 2')
        T.fails(function() training.bits(path, { stages = 4, microbatches = 4 }) end, 'is for 3 microbatches, want 4')
        local broken = T.temporary('0F0,0B0\n1B0,1F0\n', '.csv')
        T.fails(function() training.bits(broken, { stages = 2, microbatches = 1 }) end, broken .. ':2: cell 0, rank 1, position 0, 1B0')
    end)
end

local function refusals(T)
    local path = T.temporary('', '.csv')
    local function refused(f, ...)
        write(path, 'before')
        T.fails(f, 'the CSV form', 'cannot say', ...)
        T.equal(read(path), 'before')
    end
    T.case('csv: versions of the weights cannot be said', function()
        for weights, name in pairs { PPL_WEIGHTS_STASH = 'stash', PPL_WEIGHTS_2BW = '2bw' } do
            local compiled = schedules.compile('1f1b', { stages = 2, microbatches = 2 })
            capi.lib.schedule_set_weights(compiled:get(), capi.const[weights])
            refused(function() compiled:write(path) end, 'schedule 1f1b', name, "want 'sync'")
        end
    end)
    T.case('csv: a value that skips a stage cannot be sent', function()
        local skip = nn.sequential {
            nn.layer { name = 'first', flat = false, a = nn.linear(4, 4), forward = function(self, x)
                local y = self.a(x)
                return { y, y }
            end },
            nn.layer { name = 'middle', flat = false, b = nn.linear(4, 4), forward = function(self, pair)
                return { self.b(pair[1]), pair[2] }
            end },
            nn.layer { name = 'last', c = nn.linear(4, 4), forward = function(self, pair) return self.c(pair[1]) + pair[2] end },
        }
        local run = trainer(skip)
        run.schedule:write(path) -- the compute order says nothing of values
        T.truthy(read(path):find('0F0,0F1', 1, true), 'the compute order')
        refused(function() run.schedule:write(path, true, capi.lib.run_plan(run:open())) end, 'plan 1f1b', 'first.',
            'from stage 0 to stage 2')
        run:close()
    end)
    T.case('csv: a parameter tied over stages cannot be said', function()
        local run = trainer(nn.sequential { nn.linear { inputs = 4, outputs = 4, tie = 'w' }, nn.linear(4, 4),
            nn.linear { inputs = 4, outputs = 4, tie = 'w' } })
        refused(function() run.schedule:write(path, true, capi.lib.run_plan(run:open())) end, 'tied over stages 0 and 2')
        run:close()
    end)
    T.case('csv: an overlap of what waits for one another cannot be said', function()
        local compiled = schedule.compile(ppl.schedule { name = 'own', rank = function(s) s.overlap(s.F(0), s.B(0)) end },
            { ranks = 2, microbatches = 1 })
        refused(function() compiled:write(path, true) end, 'rank 0, position 0, 0F0')
        compiled:write(path)
        T.equal(read(path), '(0F0;0B0)OVERLAP_F_B\n(1F0;1B0)OVERLAP_F_B\n')
    end)
end

return function(T)
    commands(T)
    training_cases(T)
    refusals(T)
end
