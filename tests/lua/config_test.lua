-- config_test.lua - settings: defaults, files, --set, options, types and unknown keys.
local config = require 'ppl.config'
local yaml = require 'ppl.yaml'

local function defaults()
    return {
        model = { layers = 2, dim = 64, name = 'gpt', tied = true },
        pipeline = { stages = 2, cut = 'even' },
        data = { files = { 'a', 'b' }, sizes = { 1, 2 }, none = {} },
        steps = 10,
    }
end

-- The settings with overrides in order.
local function declare(...)
    config.pending = { ... }
    local ok, result = pcall(config.declare, defaults())
    config.pending = {}
    if not ok then error(result, 0) end
    return result
end

local function set(text) return { kind = 'set', text = text } end
local function option(name, value) return { kind = 'option', name = name, value = value } end

return function(T)
    local function file(text) return { kind = 'file', path = T.temporary(text) } end

    T.case('config: defaults stand, and are not the script\'s own table', function()
        local d = defaults()
        config.pending = {}
        local values = config.declare(d)
        T.equal(values, d)
        values.model.layers = 9
        T.equal(d.model.layers, 2)
    end)
    T.case('config: files, --set and options override in order', function()
        local values = declare(file 'model:\n  layers: 4\n  name: "7"\nsteps: 20\n', set 'steps=30', set 'model.tied=false',
            option('dim', '128'), option('files', 'x,y,z'), option('data.sizes', '3'))
        T.equal(values.model, { layers = 4, dim = 128, name = '7', tied = false })
        T.equal(values.steps, 30)
        T.equal(values.data.files, { 'x', 'y', 'z' })
        T.equal(values.data.sizes, { 3 })
        T.equal(declare(set 'steps=30', file 'steps: 20').steps, 20)
    end)
    T.case('config: lists and empty files', function()
        T.equal(declare(file 'data: {files: [c], sizes: []}').data, { files = { 'c' }, sizes = {}, none = {} })
        T.equal(declare(file '').steps, 10)
        T.equal(declare(file '# nothing\n').steps, 10)
        T.equal(declare(file '{"model": {"layers": 3}}').model.layers, 3)
    end)
    T.case('config: an unknown key names file, line and the nearest', function()
        local f = file 'steps: 3\nmodel:\n  dim: 8\n  layer: 4\n'
        T.fails(function() declare(f) end, f.path .. ':4', 'unknown key model.layer', 'nearest: layers')
        T.fails(function() declare(set 'model.lairs=1') end, 'unknown key model.lairs', 'nearest: model.layers')
        T.fails(function() declare(option('layrs', '1')) end, '--layrs', 'nearest: --layers')
        T.fails(function() declare(set 'modle.layers=1') end, 'unknown key modle.layers')
        T.fails(function() declare(set 'steps.x=1') end, 'unknown key steps.x')
    end)
    T.case('config: a value of another type is refused', function()
        local f = file 'model:\n  layers: many\n'
        T.fails(function() declare(f) end, f.path .. ':2', 'model.layers is "many"', 'a number')
        T.fails(function() declare(file 'model: 3') end, 'model is "3"', 'a group')
        T.fails(function() declare(file 'steps: [1]') end, 'steps', 'a number')
        T.fails(function() declare(file 'steps: "3"') end, 'steps is "3"', 'a number')
        T.fails(function() declare(file 'model: {tied: 1}') end, 'true or false')
        T.fails(function() declare(file 'data: {files: a}') end, 'data.files', 'a list')
        T.fails(function() declare(file 'data: {sizes: [1, x]}') end, 'data.sizes is "x"', 'a number')
        T.fails(function() declare(file '- 1\n- 2\n') end, 'sequence', 'mapping')
        T.fails(function() declare(set 'model=3') end, 'model is a group', 'dim, layers')
        T.fails(function() declare(set 'steps=few') end, '--set: steps is "few"')
        T.fails(function() declare(set 'steps') end, 'has no =')
        T.fails(function() declare(option('stages', 'x')) end, '--stages', 'a number')
    end)
    T.case('config: wrong usage is told from a wrong file', function()
        local ok, words = pcall(declare, set 'nothing=1')
        T.equal(ok, false)
        T.truthy(type(words) == 'table' and words.usage, 'usage')
        ok, words = pcall(declare, file 'nothing: 1')
        T.equal(ok, false)
        T.equal(type(words), 'string')
    end)
    T.case('config: broken YAML names file and line', function()
        local f = file 'model:\n  layers: [1, 2\nsteps: 3\n'
        T.fails(function() declare(f) end, f.path, '3')
        T.fails(function() declare { kind = 'file', path = '/nowhere/x.yaml' } end, '/nowhere/x.yaml')
    end)
    T.case('config: an option that fits two settings is refused', function()
        config.pending = { option('dim', '3') }
        T.fails(function() config.declare { a = { dim = 1 }, b = { dim = 2 } } end, 'a.dim or b.dim')
        config.pending = {}
    end)
    T.case('config: defaults that are no settings are refused', function()
        T.fails(function() config.declare { f = print } end, 'f: its default is a function')
        T.fails(function() config.declare { a = { 1, b = 2 }, c = { [1] = 1 }, d = { e = { f = {}, [2] = 3 } } } end, 'd.e.2')
    end)
    T.case('yaml: what is written reads back', function()
        local value = { a = 1.5, b = 'plain', c = 'two words: "x"\n', d = true, e = { f = { 1, 2 }, g = {} }, h = 'yes', i = '12' }
        local text = yaml.text(value)
        T.equal(yaml.value(yaml.parse('text', text)), value)
    end)
end
