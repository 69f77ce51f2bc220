-- data_test.lua - sources: text windows, tables, iterators, and what cannot be read.
local capi = require 'ppl.capi'
local data = require 'ppl.data'
local lib = capi.lib

-- The numbers of an input of a step.
local function read(source, step, batch, input, ctype, each)
    local array = capi.new(ctype .. '[?]', batch * each)
    lib.data_read(source:get(), step, 0, batch, batch, input, array)
    local list = {}
    for i = 0, batch * each - 1 do list[i + 1] = array[i] end
    return list
end

return function(T)
    T.case('data: text gives windows and the same moved by one', function()
        local text = {}
        for i = 0, 199 do text[i + 1] = string.char(i) end
        local source = data.text { files = { T.temporary(table.concat(text)) }, context = 10, held_out = 0.25 }
        T.truthy(source.samples > 0, 'samples')
        local x, y = read(source, 0, 2, 0, 'int32_t', 10), read(source, 0, 2, 1, 'int32_t', 10)
        for i = 1, 20 do T.equal(y[i], x[i] + 1) end
        for i = 2, 10 do T.equal(x[i], x[i - 1] + 1) end
        local held = source:held_out()
        T.truthy(read(held, 0, 1, 0, 'int32_t', 10)[1] >= 140, 'from the end of the file')
        T.equal(data.text { files = { T.temporary(table.concat(text)) }, context = 10, held_out = 0 }:held_out(), nil)
    end)
    T.case('data: text that cannot be read', function()
        T.fails(function() data.text { files = { '/nowhere/a.txt' }, context = 4 } end, '/nowhere/a.txt')
        T.fails(function() data.text { files = { T.temporary '' }, context = 4 } end, 'is empty')
        T.fails(function() data.text { files = { T.temporary 'abc' }, context = 40 } end, 'want')
        T.fails(function() data.text { files = {}, context = 4 } end, 'files is empty')
        T.fails(function() data.text { file = 'a', context = 4 } end, 'nearest: files')
        T.fails(function() data.text { files = { 'a' }, context = 0 } end, 'context: is 0')
    end)
    T.case('data: an iterator is asked once a step and may end', function()
        local asked = {}
        local source = data.iterator {
            inputs = { { name = 'x', shape = { 2 } }, { name = 'targets', dtype = 'i32' } },
            next = function(step, batch)
                asked[#asked + 1] = { step, batch }
                if step == 2 then return nil end
                return { x = { { step, 1 }, { step, 2 } }, targets = { 7, 8 } }
            end,
        }
        for _ = 1, 4 do source:feed(2) end
        T.equal(asked, { { 0, 2 }, { 1, 2 }, { 2, 2 } })
        T.equal(read(source, 1, 2, 0, 'float', 2), { 1, 1, 1, 2 })
        T.equal(read(source, 0, 2, 1, 'int32_t', 1), { 7, 8 })
    end)
    T.case('data: a table goes round, shuffled by seed and epoch', function()
        local function make(shuffle, seed)
            return data.table { inputs = { { name = 'x' } }, samples = { x = { 1, 2, 3, 4, 5, 6 } }, shuffle = shuffle, seed = seed }
        end
        local plain = make(false)
        for _ = 1, 2 do plain:feed(4) end
        T.equal(read(plain, 0, 4, 0, 'float', 1), { 1, 2, 3, 4 })
        T.equal(read(plain, 1, 4, 0, 'float', 1), { 5, 6, 1, 2 })
        local a, b = make(true, 5), make(true, 5)
        a:feed(6)
        b:feed(6)
        local order = read(a, 0, 6, 0, 'float', 1)
        T.equal(read(b, 0, 6, 0, 'float', 1), order)
        table.sort(order)
        T.equal(order, { 1, 2, 3, 4, 5, 6 })
    end)
    T.case('data: samples that do not fit their shape', function()
        local function feed(step)
            local source = data.iterator { inputs = { { name = 'x', shape = { 2 } }, { name = 'y' } }, next = function() return step end }
            source:feed(2)
        end
        T.fails(function() feed { x = { { 1, 2 }, { 3 } }, y = { 1, 2 } } end, 'sample 1 of x', '2 numbers')
        T.fails(function() feed { x = { { 1, 2 }, { 3, 4, 5 } }, y = { 1, 2 } } end, 'sample 1 of x')
        T.fails(function() feed { x = { { 1, 2 }, { 3, 'a' } }, y = { 1, 2 } } end, 'sample 1 of x')
        T.fails(function() feed { x = { { 1, 2 } }, y = { 1, 2 } } end, 'y has 2 samples, want 1')
        T.fails(function() feed { x = { { 1, 2 } } } end, 'y is nil')
        T.fails(function() feed(3) end, 'a step: is 3')
        T.fails(function() data.table { inputs = { { name = 'x' } }, samples = { x = {} } } end, 'no samples')
        T.fails(function() data.iterator { inputs = { { nam = 'x' } }, next = print } end, 'nearest: name')
    end)
end
