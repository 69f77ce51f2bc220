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

-- The words of a misuse that the language itself found, or nil: a trainer's method called with a dot, whose first argument then
-- stands for the trainer; a method that is misspelt.
local function misuse(err)
    local trainer = package.loaded['ppl.trainer']
    if type(trainer) ~= 'table' then return nil end
    for level = 3, 250 do
        local frame = debug.getinfo(level, 'Sf')
        if not frame then break end
        local first, value = debug.getlocal(level, 1)
        if first == 'self' and frame.source:sub(1, #LIBRARY) == LIBRARY and not trainer.is(value) then
            for name, method in pairs(trainer.methods) do
                if method == frame.func then return ('%s%s: called with a dot, want run:%s(...)'):format(position(), name, name) end
            end
        end
    end
    local own = err:sub(1, #LIBRARY - 1) == LIBRARY:sub(2)
    local name = not own and err:match "attempt to call method '([%w_]+)' %(a nil value%)$"
    local close = name and package.loaded['ppl.nearest'].find(name, package.loaded['ppl.nearest'].keys(trainer.methods))
    return close and ('%s (nearest of a trainer: %s)'):format(err, close) or nil
end

-- For xpcall where an error is thrown on: the library's own faults keep the stack they came from, and an error that has no
-- words gets the place where it was raised; a trainer's method that was called wrongly is named.
function fail.keep_stack(err)
    if type(err) == 'string' then
        err = misuse(err) or err
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
