-- fail.lua - how the library fails: a Lua error whose position is the caller's own line, the nearest one outside the
-- library. Every function of ppl throws; none returns an error.
local LIBRARY = '=<ppl>/'

local fail = {}

-- The path of the script that is being loaded: what stands for its line where a tail call (`return ppl.trainer { ... }`)
-- has taken its frame.
fail.script = nil

-- "train.lua:12: " of the innermost frame that is not the library's; '' where there is none.
local function position()
    for level = 3, 250 do
        local frame = debug.getinfo(level, 'Sl')
        if not frame then break end
        if frame.what ~= 'C' and frame.currentline > 0 and frame.source:sub(1, #LIBRARY) ~= LIBRARY then
            return ('%s:%d: '):format(frame.short_src, frame.currentline)
        end
    end
    return fail.script and fail.script .. ': ' or ''
end

-- fail(format, ...): "where: what is, want what".
setmetatable(fail, { __call = function(_, format, ...)
    local text = select('#', ...) > 0 and format:format(...) or format
    error(position() .. text, 0)
end })

local usage = { __tostring = function(self) return self.message end }

-- Wrong usage of the command line: the program ends with status 2.
function fail.usage(format, ...)
    local text = select('#', ...) > 0 and format:format(...) or format
    error(setmetatable({ usage = true, message = text }, usage), 0)
end

-- For xpcall where an error is thrown on: the library's own faults keep the stack they came from.
function fail.keep_stack(err)
    if type(err) == 'string' and err:sub(1, #LIBRARY - 1) == LIBRARY:sub(2) then return debug.traceback(err, 2) end
    return err
end

return fail
