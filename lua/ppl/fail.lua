-- fail.lua - how the library fails: a Lua error whose position is the caller's own line, the nearest one outside the
-- library. Every function of ppl throws; none returns an error.
local LIBRARY = '=<ppl>/'

local fail = {}

-- The path of the script that is being loaded: what stands for its line where a tail call (`return ppl.trainer { ... }`)
-- has taken its frame.
fail.script = nil

-- "train.lua:12" of the innermost frame that is not the library's; nil where there is none.
function fail.line()
    for level = 3, 250 do
        local frame = debug.getinfo(level, 'Sl')
        if not frame then break end
        if frame.what ~= 'C' and frame.currentline > 0 and frame.source:sub(1, #LIBRARY) ~= LIBRARY then
            return ('%s:%d'):format(frame.short_src, frame.currentline)
        end
    end
    return nil
end

-- The same in front of words: "train.lua:12: ", or the script's path, or ''.
local function position()
    local line = fail.line() or fail.script
    return line and line .. ': ' or ''
end

-- "mine.lua:7", where a function begins; nil for the library's own.
function fail.begin_of(f)
    if type(f) ~= 'function' then return nil end
    local frame = debug.getinfo(f, 'S')
    if frame.what == 'C' or frame.source:sub(1, #LIBRARY) == LIBRARY then return nil end
    return ('%s:%d'):format(frame.short_src, frame.linedefined)
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

-- Errors that are tables with a meaning of their own: they say what they are, or are another's signal.
local function speaks(err)
    local meta = getmetatable(err)
    return err.message or err.helped or err.skip or meta and meta.__tostring
end

-- For xpcall where an error is thrown on: the library's own faults keep the stack they came from, and an error that has no
-- words gets the place where it was raised.
function fail.keep_stack(err)
    if type(err) == 'string' then
        if err:sub(1, #LIBRARY - 1) == LIBRARY:sub(2) then return debug.traceback(err, 2) end
        return err
    end
    if type(err) == 'table' and speaks(err) then return err end
    local what = err == nil and 'nil' or type(err) == 'table' and 'a table without words' or ('a %s (%s)'):format(type(err), tostring(err))
    return ('%san error that is %s, want a text'):format(position(), what)
end

-- Calls f(...): true and its first result, or false and the error, with its place.
function fail.try(f, ...)
    local ok, result = xpcall(f, fail.keep_stack, ...)
    if ok or result ~= 'stack overflow' then return ok, result end -- which leaves no room to look for its place
    local capi = require 'ppl.capi'
    local place = capi.string(capi.lib.host_deep())
    return false, ('%sstack overflow, want functions that end'):format(place ~= '' and place .. ': ' or '')
end

return fail
