-- capi.lua - the binding: the only file that knows the FFI. It declares ppl.h and host.h as the program was compiled with
-- them, checks the version and the size of every struct, and turns a bad status into an error at the caller's own line.
-- Before: boot.lua. After: every module that talks to the engine.
local ffi = require 'ffi'
local fail = require 'ppl.fail'

local capi = {}

local ABI_VERSION = 1
local STRUCTS = {
    'ppl_type', 'ppl_attrs', 'ppl_param_spec', 'ppl_action', 'ppl_task', 'ppl_costs', 'ppl_sim_result', 'ppl_event', 'ppl_link_cost',
    'ppl_link_load', 'ppl_optimizer_options', 'ppl_run_options', 'ppl_step_record', 'ppl_stage_stats', 'ppl_rank_stats', 'ppl_edge_stats',
    'ppl_param_info', 'ppl_yaml_node', 'ppl_gpu', 'ppl_gpu_versions', 'ppl_gpu_link', 'ppl_network',
    'ppl_gpu_activity',
}

-- A header as a cdef: the preprocessor's lines are dropped.
local function declarations(header)
    local lines = {}
    for line in (header .. '\n'):gmatch('(.-)\n') do
        lines[#lines + 1] = line:sub(1, 1) == '#' and '' or line
    end
    return table.concat(lines, '\n')
end

local function check_sizes()
    if ffi.C.ppl_abi_version() ~= ABI_VERSION then
        fail('library: engine interface %d, want %d: program and Lua library are of different versions',
            ffi.C.ppl_abi_version(), ABI_VERSION)
    end
    for _, name in ipairs(STRUCTS) do
        local engine, here = tonumber(ffi.C.ppl_abi_sizeof(name)), ffi.sizeof(name)
        if engine ~= here then fail('library: %s takes %d bytes in the engine, want %d', name, engine, here) end
    end
end

local status_type

function capi.bind(header, host_header)
    ffi.cdef(declarations(header))
    ffi.cdef(declarations(host_header))
    status_type = ffi.typeof('ppl_status')
    check_sizes()
end

-- capi.lib.graph_open(...) calls ppl_graph_open and raises its words if the status is bad.
capi.lib = setmetatable({}, { __index = function(lib, name)
    local call = ffi.C['ppl_' .. name]
    local function checked(...)
        local result = call(...)
        if ffi.istype(status_type, result) then
            if result ~= 0 then fail('%s', ffi.string(ffi.C.ppl_error())) end
            return nil
        end
        return result
    end
    rawset(lib, name, checked)
    return checked
end })

-- The same without raising: true, or false with the words and the status' name ("schedule").
capi.try = setmetatable({}, { __index = function(try, name)
    local call = ffi.C['ppl_' .. name]
    local function tried(...)
        local status = call(...)
        if status == 0 then return true end
        return false, ffi.string(ffi.C.ppl_error()), ffi.string(ffi.C.ppl_status_name(status))
    end
    rawset(try, name, tried)
    return tried
end })

-- The value of an enum's constant: capi.const.PPL_F32 -> 0.
capi.const = setmetatable({}, { __index = function(const, name)
    local value = tonumber(ffi.C[name])
    rawset(const, name, value)
    return value
end })

-- ---- the processes that run the script together (ppl.process(), ppl.processes())

-- Process 0 prints and writes files; the others do the same things in silence.
function capi.leads() return ffi.C.ppl_host_process() == 0 end

local function alone() return ffi.C.ppl_host_processes() == 1 end

-- True where `flag` is in any process. Every process calls this at the same place, as all that follows.
function capi.any(what, flag)
    if alone() then return flag end
    local out = ffi.new('int32_t[1]')
    capi.lib.host_any(what, flag and 1 or 0, out)
    return out[0] ~= 0
end

-- Process 0's number, text or nil: for what depends on the time, the terminal or files.
function capi.same_number(what, x)
    if alone() then return x end
    local box = ffi.new('double[1]', x or 0 / 0)
    capi.lib.host_share(what, box, 8)
    if box[0] ~= box[0] then return nil end
    return box[0]
end

function capi.same_text(what, text)
    if alone() then return text end
    local bytes = capi.same_number(what, capi.leads() and text and #text or nil)
    if not bytes then return nil end
    local box = ffi.new('char[?]', bytes + 1)
    if capi.leads() then ffi.copy(box, text, bytes) end
    capi.lib.host_share(what, box, bytes)
    return ffi.string(box, bytes)
end

-- Whether a signal has come since the last call, to any process.
function capi.interrupted() return capi.any('a signal', ffi.C.ppl_host_interrupted()) end

-- ---- values that cross

capi.new = ffi.new
capi.copy = ffi.copy
capi.sizeof = ffi.sizeof

function capi.string(pointer, bytes)
    if pointer == nil then return nil end
    return bytes and ffi.string(pointer, bytes) or ffi.string(pointer)
end

function capi.is_null(pointer) return pointer == nil end

-- The pointer type of C parameters that take an array of borrowed texts; the second result keeps them alive.
function capi.strings(list)
    local array = ffi.new('const char *[?]', math.max(#list, 1))
    for i, text in ipairs(list) do array[i - 1] = text end
    return array, list
end

-- An array of a Lua list: capi.array('int32_t', { 1, 2 }).
function capi.array(ctype, list)
    local array = ffi.new(ctype .. '[?]', math.max(#list, 1))
    for i, value in ipairs(list) do array[i - 1] = value end
    return array
end

-- ---- handles

-- A handle owns an engine object. Closing it twice is safe. It holds its parents open: one that is closed (or collected)
-- before its last child goes when that child does, so that neither the script's order nor the collector's can free an
-- object that another borrows.
local Handle = {}
Handle.__index = Handle

local function release(state)
    if not state.dropped or state.children > 0 or state.closed then return end
    state.closed = true
    state.closer(state.pointer)
    state.pointer = nil
    for _, parent in ipairs(state.parents) do
        parent.children = parent.children - 1
        release(parent)
    end
end

local function drop(state)
    state.dropped = true
    release(state)
end

-- name: what errors call it; closer: of the engine, as in 'graph_close'; parents: handles that it borrows from.
function capi.handle(name, pointer, closer, parents)
    local state = { pointer = pointer, closer = ffi.C['ppl_' .. closer], children = 0, parents = {}, dropped = false }
    for i, parent in ipairs(parents or {}) do
        state.parents[i] = parent.state
        parent.state.children = parent.state.children + 1
    end
    -- The net: an object that is collected lets its state go. The state knows nothing of the object.
    local anchor = ffi.gc(ffi.new('char[1]'), function() drop(state) end)
    return setmetatable({ name = name, state = state, anchor = anchor }, Handle)
end

-- Holds one more parent open until this handle has closed.
function Handle:borrow(parent)
    table.insert(self.state.parents, parent.state)
    parent.state.children = parent.state.children + 1
end

function Handle:close() drop(self.state) end

function Handle:closed() return self.state.dropped end

-- The pointer for a call; an error once the handle is closed.
function Handle:get()
    if self.state.dropped then fail('%s: is closed, want an open one', self.name) end
    return self.state.pointer
end

return capi
