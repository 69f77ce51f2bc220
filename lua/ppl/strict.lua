-- strict.lua - reading a global that was never set is an error that names it, and so is setting one outside the prompt:
-- a misspelt local is found where it stands.
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'

local strict = {}
local writable = false

local function names()
    local list = {}
    for name in pairs(_G) do list[#list + 1] = tostring(name) end
    return list
end

local guard = {
    __index = function(_, name)
        fail('global %s: is not set%s, want a local or a require', tostring(name), nearest.hint(tostring(name), names()))
    end,
    __newindex = function(globals, name, value)
        if not writable then fail('global %s: is set by a script, want `local %s = ...`', tostring(name), tostring(name)) end
        rawset(globals, name, value)
    end,
}

function strict.on() setmetatable(_G, guard) end

-- At the prompt each line is a chunk of its own, so that globals are all it can keep.
function strict.allow_globals(yes) writable = yes end

return strict
