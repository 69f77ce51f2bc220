-- snippets_test.lua - what stands in lua/ppl/schedules/README.md is true: each ```lua block is a file by the name in its first
-- line, each block that begins with `$ ppl plan` shows lines of what that command prints, and every built-in schedule is named.
local schedules = require 'ppl.schedules'
local terminal = require 'ppl.terminal'
local read = require('support').read

local FILE = (debug.getinfo(1, 'S').source:match('^@(.*)/[^/]*$') or '.') .. '/../../lua/ppl/schedules/README.md'
local COLUMNS = 80 -- of the pictures

-- What `ppl plan` prints, or the words of its failure.
local function plan(arguments)
    local lines, old_print, old_width = {}, print, terminal.width
    _G.print = function(text) lines[#lines + 1] = tostring(text or '') end
    terminal.width = function() return COLUMNS end
    local ok, words = pcall(require 'ppl.cli.plan'.run, arguments)
    _G.print, terminal.width = old_print, old_width
    if not ok then lines[#lines + 1] = tostring(words) end
    return (table.concat(lines, '\n'):gsub('\27%[[%d;]*m', ''))
end

-- The commands of a block: { command, lines that are shown of its output }.
local function commands_of(block)
    local list = {}
    for line in block:gmatch('[^\n]+') do
        local command = line:match('^%$ ppl plan (.*)$')
        if command then
            list[#list + 1] = { command = command }
        elseif list[1] then
            table.insert(list[#list], line)
        end
    end
    return list
end

-- Finds each line that is shown in the output, one behind the other.
local function check_output(shown, output)
    local at = 1
    for _, line in ipairs(shown) do
        local _, last = output:find(line, at, true)
        if not last then error(('ppl plan %s\nshows: %s\nprinted:\n%s'):format(shown.command, line, output), 0) end
        at = last + 1
    end
end

return function(T)
    local text = read(FILE)
    T.case('snippets: the schedules\' README', function()
        local files, commands = {}, 0
        for kind, block in text:gmatch('\n```(%w*)\n(.-)\n```') do
            if kind == 'lua' then
                local name = block:match('^%-%- (%S+%.lua)\n')
                files[name] = T.temporary(block .. '\n', '.lua')
            else
                for _, shown in ipairs(commands_of(block)) do
                    local arguments = {}
                    for word in shown.command:gmatch('%S+') do
                        local name, options = word:match('^([%w-]+%.lua)(.*)$')
                        arguments[#arguments + 1] = name and files[name] .. options or word
                    end
                    T.truthy(#shown > 0, shown.command .. ' shows something')
                    local output = plan(arguments)
                    for name, path in pairs(files) do output = output:gsub(path:gsub('%p', '%%%0'), name) end
                    check_output(shown, output)
                    commands = commands + 1
                end
            end
        end
        T.truthy(commands >= 6, 'commands: ' .. commands)
    end)
    T.case('snippets: the schedules\' README names every built-in schedule', function()
        for _, name in ipairs(schedules.names()) do T.truthy(text:find('`' .. name .. '`', 1, true), name) end
    end)
end
