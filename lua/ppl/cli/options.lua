-- options.lua - reading a subcommand's options: `--name value`, `--name=value`, `-p value` and flags. An unknown one is
-- wrong usage that names the nearest.
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

-- Gives values by name without dashes (flags: true; each value also in order as .all = { { name, value } }) and the other
-- arguments. unknown(name, value or nil, next) -> how many further arguments it took, handles options of a script.
function options.parse(command, spec, arguments, unknown)
    local values, rest = { all = {} }, {}
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
            table.insert(values.all, { name = key, value = values[key] })
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
    if not n or n % 1 ~= 0 or n < low or (high and n > high) then
        fail.usage('%s: is %s, want a whole number of %d or more', name, text, low)
    end
    return n
end

return options
