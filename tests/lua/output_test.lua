-- output_test.lua - tables, JSON and timelines as they print.
local json = require 'ppl.json'
local tables = require 'ppl.table'
local timeline = require 'ppl.timeline'

-- A rank's tasks from "F0 0 1, B0 2 4".
local function tasks(text)
    local list = {}
    for stage, kind, mb, begin, finish in text:gmatch('(%d*)(%u)(%d*) ([%d.]+) ([%d.]+)') do
        list[#list + 1] = { kind = kind, stage = tonumber(stage), microbatch = tonumber(mb), begin = tonumber(begin),
            finish = tonumber(finish) }
    end
    return list
end

return function(T)
    T.case('output: JSON', function()
        T.equal(json.text { b = 1, a = 'x"\n\1', c = { 1, 2.5 }, d = true, e = json.list {} },
            '{"a": "x\\"\\n\\u0001", "b": 1, "c": [1, 2.5], "d": true, "e": []}')
        T.equal(json.text({ b = 1, a = 2 }, { 'b' }), '{"b": 1, "a": 2}')
        T.equal(json.text { 0 / 0, 1 / 0, 0.1, 1e300, -3, 2 ^ 53 }, '[null, null, 0.1, 1e+300, -3, 9007199254740992]')
        T.equal(tonumber(json.text(1 / 3)), 1 / 3)
    end)
    T.case('output: numbers for people', function()
        T.equal(tables.thousands(0), '0')
        T.equal(tables.thousands(999), '999')
        T.equal(tables.thousands(1000), '1,000')
        T.equal(tables.thousands(12345678), '12,345,678')
        T.equal(tables.thousands(-123456), '-123,456')
        T.equal(tables.bytes(512), '512 B')
        T.equal(tables.bytes(1536), '1.5 KiB')
        T.equal(tables.bytes(3 * 2 ^ 40), '3072.0 GiB')
        T.equal(tables.clock(3.4), '0:03')
        T.equal(tables.clock(3725), '1:02:05')
        T.equal(tables.ms(0.00012), '0.120')
        T.equal(tables.ms(0.01234), '12.3')
        T.equal(tables.percent(0.2727), '27.3 %')
    end)
    T.case('output: a table', function()
        local t = tables.new({ { key = 'name', title = 'name' }, { key = 'n', title = 'numbers', format = tables.thousands },
            { key = 'x', title = 'x', format = '%.1f' } },
            { { name = 'a', n = 12345, x = 1 }, { name = 'longer name', n = 7 } }, { '', 'a note' })
        T.golden('table', tostring(t))
        T.equal(t:json(), '[{"name": "a", "n": 12345, "x": 1}, {"name": "longer name", "n": 7}]')
    end)
    T.case('output: a timeline of whole units', function()
        local rows = { tasks 'F0 0 1, F1 1 2, B0 4 6, B1 6 8', tasks 'F0 1 2, B0 2 4, F1 4 5, I1 5 6, W1 6 7, U 7 8' }
        T.golden('timeline_units', table.concat(timeline.lines(rows, { unit = '', width = 40 }), '\n'))
    end)
    T.case('output: a timeline in milliseconds, scaled', function()
        local rows = { tasks 'F0 0.0011 0.0023, F11 0.0023 0.0034, B0 0.0056 0.0081', tasks 'F0 0.0031 0.0042, B0 0.0042 0.0051' }
        local lines = timeline.lines(rows, { unit = 'ms', width = 60 })
        for i = 1, 2 do T.equal(#lines[i], 60 + 9, 'width') end
        T.golden('timeline_ms', table.concat(lines, '\n'))
    end)
    T.case('output: a timeline that names stages, and one with no room', function()
        local rows = { tasks '0F0 0 4, 2F0 4 8, 2B0 8 16' }
        T.golden('timeline_stages', table.concat(timeline.lines(rows, { unit = '', width = 64, with_stage = true }), '\n'))
        local crowd = {}
        for i = 0, 199 do crowd[i + 1] = { kind = i % 2 == 0 and 'F' or 'B', microbatch = i, begin = i, finish = i + 1 } end
        T.equal(#timeline.lines({ crowd }, { unit = 'ms', width = 50 })[1], 59)
        T.equal(timeline.lines({ {} }, {}), { 'rank 0  (no tasks)' })
    end)
    T.case('output: the grid of a refused schedule marks the place', function()
        local cells = { { '0F0', '0F1', '0B0', '0B1' }, { '1F0', '1B1', '1F1' } }
        T.golden('grid', table.concat(timeline.grid(cells, 1, 1), '\n'))
        local long = {}
        for i = 0, 99 do long[i + 1] = '0F' .. i end
        T.golden('grid_long', table.concat(timeline.grid({ long }, 0, 50), '\n'))
        timeline.grid({ {}, {} }, 1, 0)
        timeline.grid({ long }, 0, 99)
    end)
end
