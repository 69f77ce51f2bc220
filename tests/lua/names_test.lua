-- names_test.lua - nearest names, strict globals and errors at the caller's own line.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'

return function(T)
    T.case('names: edit distance', function()
        for _, entry in ipairs { { '', '', 0 }, { 'abc', '', 3 }, { '', 'ab', 2 }, { 'kitten', 'sitting', 3 }, { 'lr', 'rl', 1 },
            { 'stages', 'stagse', 1 }, { 'a', 'a', 0 } } do
            T.equal(nearest.distance(entry[1], entry[2]), entry[3], entry[1] .. ' ' .. entry[2])
            T.equal(nearest.distance(entry[2], entry[1]), entry[3], entry[2] .. ' ' .. entry[1])
        end
    end)
    T.case('names: the nearest is what was meant, or none', function()
        local names = { 'layers', 'dim', 'heads', 'context', 'lr', 'microbatches' }
        T.equal(nearest.find('layer', names), 'layers')
        T.equal(nearest.find('haeds', names), 'heads')
        T.equal(nearest.find('micro', names), 'microbatches')
        T.equal(nearest.find('LR', names), 'lr')
        T.equal(nearest.find('zzz', names), nil)
        T.equal(nearest.find('x', { 'f', 'lr' }), nil, 'nothing in common')
        T.equal(nearest.find('', { 'f' }), nil)
        T.equal(nearest.hint('dmi', names), ' (nearest: dim)')
    end)
    T.case('names: checks name the option, its value and what is wanted', function()
        T.fails(function() check.keys('here', { stags = 1 }, { stages = true }) end, 'here', 'stags', 'nearest: stages')
        T.fails(function() check.integer('n', 2.5, 1) end, 'n: is 2.5', 'whole number of 1 or more')
        T.fails(function() check.integer('n', 9, 1, 8) end, '1 to 8')
        T.fails(function() check.number('x', 0 / 0) end, 'want a number')
        T.fails(function() check.name('kind', 'on', { 'one', 'two' }) end, '"on"', 'nearest: one', 'one, two')
        T.equal(check.integer('n', nil, 1, nil, 3), 3)
    end)
    T.case('names: a global that is not set is an error', function()
        T.fails(function() return lyers end, 'global lyers', 'is not set') -- luacheck: ignore 113
        T.fails(function() lyers = 1 end, 'global lyers', 'local lyers') -- luacheck: ignore 111
    end)
    T.case('names: errors of the library stand at the caller\'s own line', function()
        local line = debug.getinfo(1, 'l').currentline + 1
        local words = T.fails(function() fail('here: %d', 5) end, 'here: 5')
        T.truthy(words:find('names_test.lua:' .. line .. ': ', 1, true), words)
    end)
    T.case('names: a bad status of the engine carries its words and the caller\'s line', function()
        local words = T.fails(function() capi.lib.graph_open(99, capi.new('ppl_graph *[1]')) end, 'names_test.lua')
        T.truthy(#words > 20, words)
        local ok, text, status = capi.try.graph_open(99, capi.new('ppl_graph *[1]'))
        T.equal(ok, false)
        T.truthy(#text > 0 and #status > 0, status)
    end)
    T.case('names: handles close in any order, twice, and under the collector', function()
        local order = {}
        local function handle(name, parents)
            local h = capi.handle(name, name, 'graph_close', parents)
            h.state.closer = function(pointer) order[#order + 1] = pointer end
            return h
        end
        local parent = handle 'parent'
        local child = handle('child', { parent })
        parent:close()
        T.fails(function() parent:get() end, 'parent: is closed')
        T.equal(order, {})
        child:close()
        child:close()
        parent:close()
        T.equal(order, { 'child', 'parent' })
        order = {}
        do
            local p = handle 'p'
            handle('c', { p })
        end
        collectgarbage()
        collectgarbage()
        T.equal(order, { 'c', 'p' })
    end)
end
