-- prompt_test.lua - what the prompt is made of: values as they print, completion, help from the sources' comments.
local complete = require 'ppl.complete'
local help = require 'ppl.help'
local ppl = require 'ppl'
local show = require 'ppl.show'

-- The names that a Tab behind a text finds, sorted.
local function found(before)
    local list = {}
    for name in pairs((complete.candidates(before))) do list[#list + 1] = name end
    table.sort(list)
    return list
end

return function(T)
    T.case('prompt: values as they print', function()
        T.equal(show.text('two\nlines'), 'two\nlines')
        T.equal(show.text { 1, 'a\nb', { x = true } }, '{ 1, "a\\nb", { x = true } }')
        T.equal(show.text {}, '{}')
        T.equal(show.text(0 / 0), 'nan')
        T.equal(show.text { ['end'] = 1, [2.5] = 2, a = 3 }, '{ [2.5] = 2, a = 3, ["end"] = 1 }')
        local loop = { name = 'x' }
        loop.self = loop
        T.equal(show.text(loop), '{ name = "x", self = { ... } }')
        T.equal(show.text { a = { b = { c = { d = { e = 1 } } } } }, '{ a = { b = { c = { d = { ... } } } } }')
        T.equal(show.text(ppl.schedule), tostring(show.text(ppl.schedule)))
    end)
    T.case('prompt: texts do nothing to a terminal but colour it', function()
        T.equal(show.printable 'a\tb\n\27[31mred\27[0m\27[m é', 'a\tb\n\27[31mred\27[0m\27[m é')
        T.equal(show.printable '\27]0;x\7\27[2J\0\r\27', '\\x1b]0;x\\x07\\x1b[2J\\x00\\x0d\\x1b')
        T.equal(show.printable '\0[3m\27\27[1m', '\\x00[3m\\x1b\27[1m')
    end)
    T.case('prompt: lists of records are aligned columns, and all is bounded', function()
        T.equal(show.text { { stage = 0, ms = 1.5 }, { stage = 1, name = 'x' } },
            ' ms  stage  name\n---  -----  ----\n1.5      0  -\n  -      1  x')
        local many, wide, long = {}, {}, {}
        for i = 1, 1000 do many[i], wide['key' .. i], long[i] = { n = i }, ('y'):rep(1000), i end
        local _, lines = show.text(many):gsub('\n', '')
        T.equal(lines, 52)
        T.truthy(show.text(many):find('\n... 950 more$'), 'rest')
        T.truthy(#show.text(wide) < 10000, 'wide')
        T.truthy(#show.text(long) < 2100, 'long')
    end)
    T.case('prompt: completion of globals, fields, methods and inside quotes', function()
        rawset(_G, 'ppl', ppl)
        T.equal(found 'ppl.ad', { 'adamw' })
        T.equal(found 'x = ppl.data.t', { 'table', 'text' })
        T.equal(found 'string.form', { 'format' })
        T.equal(found 'coroutine.wr', { 'wrap' })
        T.equal(found "run:use_schedule 'zb-h", { 'zb-h1', 'zb-h2' })
        T.equal(found 'run:compare("gpipe", "1f', { '1f1b' })
        T.equal(found 'whi', { 'while' })
        T.equal(found '1', {})
        T.equal(found 'nothing.at', {})
        T.equal(found 'ppl..', {})
        T.equal({ complete.tab 'ppl.adam' }, { 'w(', '' })
        T.equal({ complete.tab "'zb-h" }, { '', 'zb-h1  zb-h2' })
        T.equal({ complete.tab "'1f1" }, { "b'", '' })
        rawset(_G, 'ppl', nil)
    end)
    T.case('prompt: completion goes through inherited fields and runs nothing', function()
        rawset(_G, 'trial', setmetatable({ mine = 1 }, { __index = { inherited = print } }))
        T.equal(found 'trial.', { 'inherited', 'mine' })
        T.equal(found 'trial:', { 'inherited' })
        rawset(_G, 'trial', setmetatable({}, { __index = function() error 'was called' end }))
        T.equal(found 'trial.a.b', {})
        rawset(_G, 'trial', nil)
    end)
    T.case('prompt: help is the comment above a function', function()
        T.truthy(help.text(ppl.adamw):find('^ppl.adamw { lr, betas'), 'adamw')
        T.truthy(help.text('zb-h1'):find('schedule zb-h1: ', 1, true), 'schedule')
        T.truthy(help.text('step'):find('^run:step%(n%): '), 'step')
        T.fails(function() help.text 'stpe' end, 'nearest: step')
        T.fails(function() help.text 'adamv' end, 'nearest: adamw')
        T.equal(help.text 'adamw', help.text(ppl.adamw))
        T.equal(help.text 'nn.gpt', help.text(ppl.nn.gpt))
        T.equal(help.text 'ppl.data.text', help.text(ppl.data.text))
        T.truthy(help.text():find('ppl.trainer { ... }', 1, true), 'overview')
        T.equal(help.text(print), 'no words stand above this function in its source')
    end)
    T.case('prompt: help fits a narrow terminal and leaves no word out', function()
        local terminal = require 'ppl.terminal'
        local wide = terminal.width
        terminal.width = function() return 44 end
        local ok, words = pcall(help.text, ppl)
        terminal.width = wide
        T.truthy(ok, words)
        for line in words:gmatch '[^\n]+' do T.truthy(#line <= 44, line) end
        T.truthy(words:gsub('%s+', ' '):find('ppl.tensor(data, options) nested lists, or a flat list with options.shape.', 1, true), words)
    end)
    T.case('prompt: every method for the prompt says what it does', function()
        local names = {}
        for _, entry in ipairs(help.methods()) do
            names[entry.name] = true
            T.truthy(entry.signature:find('^run:' .. entry.name .. '[%(%s]'), entry.signature .. ' is the method\'s own')
            T.truthy(#entry.sentence > 10, entry.name .. ' has a sentence')
        end
        for _, name in ipairs { 'step', 'train', 'evaluate', 'timings', 'timeline', 'memory', 'use_schedule', 'save', 'load',
            'parameters', 'tensor', 'sample', 'links', 'close' } do T.truthy(names[name], name) end
    end)
end
