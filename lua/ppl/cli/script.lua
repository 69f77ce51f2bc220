-- script.lua - `ppl train.lua [options]`: runs a script; if it returns a trainer, trains it and says where the time went.
local config = require 'ppl.config'
local fail = require 'ppl.fail'
local options = require 'ppl.cli.options'
local strict = require 'ppl.strict'

local script = {}

local SPEC = {
    { name = '--config', value = 'FILE', help = 'YAML file with settings, over the script\'s defaults' },
    { name = '--set', value = 'A.B=V', help = 'one setting; may be given more than once' },
    { name = '--run', value = 'DIR', help = 'run directory (default: runs/NAME of the script)' },
    { name = '--json', help = 'print one JSON object at the end instead of tables' },
    { name = '--quiet', help = 'print nothing while training' },
    { name = '--help', short = '-h', help = 'this text and the script\'s settings' },
}

local function help(path, values)
    print(('usage: ppl %s [options]\n\n%s'):format(path, options.help(SPEC)))
    if not values then return end
    print('\nsettings of the script, each an option (--steps 20) and a --set (--set train.steps=20):')
    for _, line in ipairs(config.lines(values)) do print(('  %-24s %s'):format(line[1], line[2])) end
end

-- The function of a script file, with the folder of the script in reach of require.
local function load_script(path)
    local file = io.open(path, 'rb')
    if not file then fail('%s: no such file, want a script that can be read', path) end
    local text = file:read('*a')
    file:close()
    if not text then fail('%s: is a folder, want a script', path) end
    local chunk, words = loadstring((text:gsub('^#![^\n]*', '')), '@' .. path)
    if not chunk then fail('%s', words) end
    local folder = path:match('^(.*)/[^/]*$') or '.'
    package.path = folder .. '/?.lua;' .. package.path
    return chunk
end

-- Reads the command line: the path, what the library takes, and what ppl.config is to have.
local function parse(arguments)
    local names = {}
    for i, option in ipairs(SPEC) do names[i] = option.name:sub(3) end
    config.command_options = names
    local values, rest = options.parse('ppl', SPEC, arguments, options.pend)
    if values.run and not values.run:match('[^./]') then
        fail.usage('--run %s: is no place of its own, want a directory for this run alone', values.run == '' and '""' or values.run)
    end
    if #rest > 1 then fail.usage('%s: is one argument too many, want options after the script', rest[2]) end
    return rest[1], values
end

-- What is left when the script never asked for settings.
local function refuse_pending()
    local left = config.pending[1]
    if not left then return end
    local word = left.kind == 'option' and '--' .. left.name or left.kind == 'set' and '--set ' .. left.text or '--config ' .. left.path
    local known = {}
    for i, option in ipairs(SPEC) do known[i] = option.name end
    fail.usage('%s: unknown option%s: the script declares no settings (ppl.config)', word,
        left.kind == 'option' and require 'ppl.nearest'.hint(word, known) or '')
end

-- Loads and runs a script up to what it returns. options: those of the trainer's command line.
function script.load(path, values)
    local chunk = load_script(path)
    if values.help then
        config.on_declare = function(defaults)
            help(path, defaults)
            error({ helped = true }, 0)
        end
    end
    require 'ppl.trainer'.command = {
        run = values.run, json = values.json, quiet = values.quiet or values.json,
        name = path:match('([^/]*)%.lua$'), script = path,
    }
    fail.script = path
    local ok, result = fail.try(chunk)
    config.on_declare, fail.script = nil, nil
    if not ok then
        if type(result) == 'table' and result.helped then return nil, true end
        error(result, 0)
    end
    refuse_pending()
    return result
end

-- -i: training that fails leaves the prompt, where what happened can be looked at.
local function train_and_prompt(trainer, values)
    local prompt = require 'ppl.cli.prompt'
    local ok, words = require 'ppl.host'.guard(prompt.words, function() require 'ppl.summary'.train(trainer, values) end)
    if not ok then
        io.stdout:flush()
        io.stderr:write('ppl: ', words, '\n')
    end
    return prompt.run(trainer, not ok)
end

function script.run(arguments, interactive)
    local path, values = parse(arguments)
    if not path and values.help then
        print('usage: ppl -i [SCRIPT.lua [options]]\n\n' .. options.help(SPEC))
        return 0
    end
    if not path then fail.usage('-i: has no script, want ppl -i SCRIPT.lua') end
    if not path:match('%.lua$') then fail.usage('%s: is no script, want a .lua file', path) end
    local result, helped = script.load(path, values)
    if helped then return 0 end
    if values.help then
        help(path)
        return 0
    end
    local trainer = require 'ppl.trainer'
    local status = 0
    if trainer.is(result) then
        local summary = require 'ppl.summary'
        if interactive then return train_and_prompt(result, values) end
        status = summary.train(result, values)
    elseif type(result) == 'number' then
        status = result
    end
    strict.allow_globals(true)
    if interactive then return require 'ppl.cli.prompt'.run(nil) end
    if trainer.is(result) then result:close() end
    return status
end

return script
