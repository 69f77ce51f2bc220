-- options.lua - reading a subcommand's options: `--name value`, `--name=value`, `-p value` and flags. An unknown one is
-- wrong usage that names the nearest.
local config = require 'ppl.config'
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'

local options = {}

-- spec: list of { name = '--run', short = '-r', value = 'DIR' (nil: a flag), help }.
local function find(spec, word)
    for _, option in ipairs(spec) do
        if option.name == word or option.short == word then return option end
    end
end

local function names(spec)
    local list = {}
    for _, option in ipairs(spec) do list[#list + 1] = option.name end
    return list
end

-- Gives values by name without dashes (flags: true) and the other arguments. --config and --set also go to config.pending,
-- in order. unknown(name, value or nil, next) -> how many further arguments it took, handles options of a script.
function options.parse(command, spec, arguments, unknown)
    local values, rest = {}, {}
    config.pending = {}
    local i = 1
    while i <= #arguments do
        local word = arguments[i]
        local name, value = word:match('^(%-%-[^=]+)=(.*)$')
        name = name or word
        local option = find(spec, name)
        if option then
            if option.value and value == nil then
                i = i + 1
                value = arguments[i]
                if value == nil then fail.usage('%s: has no value, want %s %s', name, name, option.value) end
            elseif not option.value and value then
                fail.usage('%s: takes no value, got %s', name, value)
            end
            local key = option.name:gsub('^%-+', '')
            values[key] = option.value and value or true
            if key == 'config' then table.insert(config.pending, { kind = 'file', path = value }) end
            if key == 'set' then table.insert(config.pending, { kind = 'set', text = value }) end
        elseif word:match('^%-.') and not word:match('^%-%d') then
            if not unknown then
                fail.usage('%s: unknown option of %s%s; %s --help lists them', name, command, nearest.hint(name, names(spec)), command)
            end
            i = i + unknown(name, value, arguments[i + 1])
        else
            rest[#rest + 1] = word
        end
        i = i + 1
    end
    return values, rest
end

-- An `unknown` of options.parse that leaves the option to the script's settings, which know whether there is such a one. What
-- begins with -- is the next option, not a value.
function options.pend(name, value, following)
    if name:sub(1, 2) ~= '--' then fail.usage('%s: unknown option; --help lists them', name) end
    if following and following:sub(1, 2) == '--' then following = nil end
    local taken = value == nil and following and 1 or 0
    value = value or following
    table.insert(config.pending, { kind = 'option', name = name:sub(3), value = value })
    return taken
end

-- The lines of --help.
function options.help(spec)
    local lines = {}
    for _, option in ipairs(spec) do
        local left = (option.short and option.short .. ', ' or '') .. option.name .. (option.value and ' ' .. option.value or '')
        lines[#lines + 1] = ('  %-24s %s'):format(left, option.help)
    end
    return table.concat(lines, '\n')
end

function options.integer(name, text, low, high)
    local n = tonumber(text)
    if not n or n % 1 ~= 0 or n < low or n > high then
        fail.usage('%s: is %s, want a whole number of %d to %d', name, text == '' and 'empty' or text, low, high)
    end
    return n
end

return options
