-- terminal.lua - where output goes: width, colour, whether a line may be rewritten. Colour only on a terminal and only
-- while NO_COLOR is unset (no-color.org).
local capi = require 'ppl.capi'

local terminal = {}

local DEFAULT_WIDTH = 100
local codes = { F = '44;97', B = '42;30', I = '46;30', W = '43;30', U = '45;97', bold = '1', dim = '2', red = '31' }

function terminal.colour()
    local off = os.getenv('NO_COLOR')
    return not (off and off ~= '') and capi.lib.host_columns() > 0 and os.getenv('TERM') ~= 'dumb'
end

-- Columns to draw in.
function terminal.width()
    local columns = capi.lib.host_columns()
    return columns > 0 and columns or DEFAULT_WIDTH
end

function terminal.is_terminal(descriptor) return capi.lib.host_terminal(descriptor) end

function terminal.paint(name, text)
    if not terminal.colour() then return text end
    return '\27[' .. codes[name] .. 'm' .. text .. '\27[0m'
end

return terminal
