-- trainer_memory.lua - run:memory(): every byte that the engine holds, by rank and by what it is for, and beside it what the
-- system reports for the process. Before: trainer_tables.lua.
local capi = require 'ppl.capi'
local tables = require 'ppl.table'

local methods = {}

local columns = { { key = 'rank', title = 'rank' } }
for _, name in ipairs(require 'ppl.trainer_tables'.memory_kinds) do
    columns[#columns + 1] = { key = name, title = name, format = tables.bytes }
end
for _, column in ipairs { { key = 'total', title = 'total', format = tables.bytes }, { key = 'planned_activations', title = 'planned act' },
    { key = 'peak_activations', title = 'peak act' } } do columns[#columns + 1] = column end

-- Bytes of the process that are in memory; nil where the system does not say.
function methods.process_bytes()
    local file = io.open '/proc/self/status'
    if not file then return nil end
    local kilobytes = file:read('*a'):match('VmRSS:%s*(%d+) kB')
    file:close()
    return kilobytes and tonumber(kilobytes) * 1024
end

-- What the process takes without the engine's own memory: program, libraries, interpreter. Asked for before the ranks start.
function methods.runtime_bytes()
    local process = methods.process_bytes()
    return process and math.max(0, process - tonumber(capi.lib.memory_held()))
end

-- run:memory(): bytes of each rank by what they are for (parameters, gradients, optimizer, packed weights, activations by
-- slots, pending: what I keeps for W, edges, link buffers, workspace, other: lists and traces), and activations at once,
-- planned and measured. shared: what the engine holds beside (graph, plans, data, tensors of the prompt). The sum is the
-- engine's own total. runtime: program, libraries and interpreter before the ranks started. Fields: rows, engine (bytes),
-- runtime, process (what the system reports).
function methods:memory()
    self:open()
    local rows, sum, kinds = self:rank_stats(), 0, {}
    for _, row in ipairs(rows) do
        sum = sum + row.total
        for _, name in ipairs(require 'ppl.trainer_tables'.memory_kinds) do kinds[name] = (kinds[name] or 0) + row[name] end
    end
    local held = tonumber(capi.lib.memory_held())
    local result = { rows = rows, engine = held, runtime = self.runtime, process = methods.process_bytes() }
    local shown = { unpack(rows) }
    shown[#shown + 1] = { rank = 'shared', total = held - sum }
    kinds.rank, kinds.total = 'engine', held
    shown[#shown + 1] = kinds
    if self.runtime then shown[#shown + 1] = { rank = 'runtime', total = self.runtime } end
    local notes = {}
    if result.process and self.runtime then
        notes[1] = ''
        notes[2] = ('engine and runtime %s, the system reports %s for the process'):format(tables.bytes(held + self.runtime),
            tables.bytes(result.process))
    end
    return tables.several({ tables.new(columns, shown, notes) }, result)
end

-- Bytes of all ranks together.
function methods:total_memory()
    local sum = 0
    for _, row in ipairs(self:rank_stats()) do sum = sum + row.total end
    return sum
end

return methods
