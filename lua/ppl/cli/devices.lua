-- devices.lua - `ppl devices`: what this machine offers, and why a GPU of it cannot be used. With --links: cli/links.lua.
local capi = require 'ppl.capi'
local fail = require 'ppl.fail'
local json = require 'ppl.json'
local options = require 'ppl.cli.options'
local tables = require 'ppl.table'

local devices = {}

local SPEC = {
    { name = '--links', help = 'measure what a value takes from rank to rank, and warn of slow paths' },
    { name = '--ranks', value = 'N', help = 'links: of so many ranks in a chain (default: one a GPU, 2 at least)' },
    { name = '--device', value = 'NAME', help = 'links: between ranks of cpu or cuda (default: cuda where there is a GPU)' },
    { name = '--bytes', value = 'SIZE', help = 'links: of a message (default: the edge\'s own; 64MiB in a chain)' },
    { name = '--seconds', value = 'S', help = 'links: an edge that takes longer has failed (default: 30)' },
    { name = '--config', value = 'FILE', help = 'links: settings of the script' },
    { name = '--set', value = 'A.B=V', help = 'links: one setting of the script; may be given more than once' },
    { name = '--json', help = 'print one JSON object' },
    { name = '--help', short = '-h', help = 'this text' },
}

local columns = { { key = 'device', title = 'device' }, { key = 'what', title = 'what it is' }, { key = 'ranks', title = 'ranks at once' } }
local path_columns = {
    { key = 'from', title = 'from GPU' }, { key = 'to', title = 'to GPU' }, { key = 'path', title = 'path' },
    { key = 'direct', title = 'memory of the other' }, { key = 'rank', title = "CUDA's rank" },
    { key = 'promised', title = 'made for, GB/s', format = function(x) return ('%.0f'):format(x / 1e9) end },
}
local network_columns = {
    { key = 'name', title = 'to other machines' }, { key = 'kind', title = 'kind' }, { key = 'state', title = 'state' },
    { key = 'bandwidth', title = 'by its label, GB/s', format = function(x) return ('%.1f'):format(x / 1e9) end },
}

-- What lies between two GPUs, by ppl_path.
devices.paths = { [0] = 'the same GPU', 'NVLink', 'one card', 'PCIe switch', 'PCIe switches', 'PCIe host bridge', 'PCIe, one CPU',
    'PCIe, two CPUs', 'not known' }

-- "model name" of /proc/cpuinfo.
local function cpu_name()
    local file = io.open('/proc/cpuinfo')
    if not file then return 'CPU' end
    local name = file:read('*a'):match('model name%s*:%s*([^\n]+)')
    file:close()
    return name or 'CPU'
end

-- The GPUs of this machine: a list, or an empty one and the reason.
function devices.gpus()
    local count, list = capi.new('int32_t[1]'), json.list {}
    local ok, why = capi.try.gpu_count(count)
    if not ok then return list, why end
    for i = 0, count[0] - 1 do
        local raw = capi.new('ppl_gpu')
        capi.lib.gpu_get(i, raw)
        local reason = capi.string(raw.reason)
        local counted, not_counted = false, nil
        if reason == '' then counted, not_counted = capi.try.gpu_activity_check(i) end
        list[i + 1] = { index = i, name = capi.string(raw.name), bus = capi.string(raw.bus), memory = tonumber(raw.memory),
            free = raw.free >= 0 and tonumber(raw.free) or nil, processors = raw.processors,
            capability = ('%d.%d'):format(raw.major, raw.minor), reason = reason ~= '' and reason or nil,
            activity = counted, activity_reason = not_counted }
    end
    return list
end

-- The way from one GPU to another.
function devices.path(from, to)
    local raw = capi.new('ppl_gpu_link')
    capi.lib.gpu_link_get(from, to, raw)
    local path = devices.paths[raw.path]
    if raw.nvlinks > 0 then path = ('%s x %d'):format(path, raw.nvlinks) end
    return { from = from, to = to, path = path, nvlinks = raw.nvlinks, nvlink = raw.path == capi.const.PPL_PATH_NVLINK, same = from == to,
        peer = raw.peer ~= 0, direct = raw.peer ~= 0 and 'reached directly' or 'through the host',
        rank = raw.rank >= 0 and raw.rank or nil, promised = raw.promised > 0 and raw.promised or nil }
end

local function paths_of(gpus)
    local rows = json.list {}
    for from = 0, #gpus - 1 do
        for to = 0, #gpus - 1 do
            if from ~= to then rows[#rows + 1] = devices.path(from, to) end
        end
    end
    return rows
end

-- PPL_SYS_CLASS: another list than the kernel's, for tests.
local function networks()
    local most, rows = 64, json.list {}
    local raw = capi.new('ppl_network[?]', most)
    for i = 0, capi.lib.networks(os.getenv 'PPL_SYS_CLASS', raw, most) - 1 do
        local n = raw[i]
        rows[#rows + 1] = { name = capi.string(n.name), kind = capi.string(n.kind), up = n.up ~= 0,
            state = n.up ~= 0 and 'up' or 'down', bandwidth = n.bandwidth > 0 and n.bandwidth or nil }
    end
    return rows
end

local function dotted(version) return version > 0 and ('%d.%d'):format(version / 1000, version % 1000 / 10) or nil end

-- Versions as texts, those that there are: driver, driver_cuda, runtime, nccl; and what serves attention.
local function versions()
    local raw = capi.new('ppl_gpu_versions')
    capi.lib.gpu_versions_get(raw)
    local driver, nccl, attention = capi.string(raw.driver), raw.nccl, capi.string(capi.lib.gpu_attention())
    return { driver = driver ~= '' and driver or nil, driver_cuda = dotted(raw.driver_cuda), runtime = dotted(raw.runtime),
        nccl = nccl > 0 and ('%d.%d.%d'):format(nccl / 10000, nccl / 100 % 100, nccl % 100) or nil,
        attention = attention ~= '' and attention or nil }
end

local function versions_text(v)
    if not v.runtime then return nil end
    local driver = v.driver_cuda and ('driver %sfor CUDA %s'):format(v.driver and v.driver .. ' ' or '', v.driver_cuda) or 'no driver'
    return ('built for CUDA %s; %s; NCCL %s'):format(v.runtime, driver, v.nccl or 'not there')
end

local function device_rows(cores, bf16, gpus)
    local rows = {
        { device = 'cpu', what = ('%s, bf16 %s'):format(cpu_name(), bf16 and 'in hardware' or 'widened to f32'), ranks = cores },
        { device = 'reference', what = 'plain loops, f64 where asked for: what the others are judged by', ranks = cores },
        { device = 'emulated', what = 'no arithmetic: tasks take the time a cost table gives', ranks = 'any' },
    }
    for _, gpu in ipairs(gpus) do
        local room = ('%.1f GiB'):format(gpu.memory / 2 ^ 30)
        if gpu.free then room = ('%.1f of %s free'):format(gpu.free / 2 ^ 30, room) end
        rows[#rows + 1] = { device = 'cuda', ranks = gpu.reason and 'none' or 'any',
            what = ('GPU %d: %s, %s, %d processors, compute capability %s, bus %s'):format(gpu.index, gpu.name, room, gpu.processors,
                gpu.capability, gpu.bus) }
    end
    return rows
end

-- Of which GPUs run:timings() tells how busy they are, in a line; and why not of others, a line each.
local function activity_notes(notes, gpus)
    local counted = {}
    for _, gpu in ipairs(gpus) do
        if gpu.activity then counted[#counted + 1] = gpu.index end
        if not gpu.activity and not gpu.reason then notes[#notes + 1] = gpu.activity_reason end
    end
    if counted[1] then
        notes[#notes + 1] = ('GPU %s: activity can be read: run:timings() tells of multiprocessors, tensor cores, memory bandwidth'):format(
            table.concat(counted, ', '))
    end
end

-- Why GPUs cannot be used, a line each; whether their activity can be read; and that the CPU can be used.
local function notes_of(gpus, why, v)
    local notes = { versions_text(v) }
    if v.attention then notes[#notes + 1] = 'attention: ' .. v.attention end
    if why then notes[#notes + 1] = why end
    for _, gpu in ipairs(gpus) do notes[#notes + 1] = gpu.reason end
    activity_notes(notes, gpus)
    if why then notes[#notes + 1] = 'This program trains on the CPU as it is.' end
    return notes
end

local function show(told)
    local parts = { tables.new(columns, told.rows, notes_of(told.gpus, told.why, told.versions)) }
    local shown = {} -- both ways once, where they are alike
    for _, row in ipairs(told.paths) do
        local back = row.from > row.to and devices.path(row.to, row.from)
        if not back or back.path ~= row.path or back.peer ~= row.peer then shown[#shown + 1] = row end
    end
    if shown[1] then parts[#parts + 1] = tables.new(path_columns, shown) end
    if told.networks[1] then
        parts[#parts + 1] = tables.new(network_columns, told.networks, told.gpus[1] and
            { 'Which of them ranks on several machines use is NCCL\'s choice: NCCL_DEBUG=INFO tells it in a run.' } or nil)
    end
    print(tables.several(parts))
end

function devices.run(arguments)
    local values, rest = options.parse('ppl devices', SPEC, arguments)
    if values.help then
        print('usage: ppl devices [options]\n       ppl devices --links [train.lua] [options]\n\n' .. options.help(SPEC))
        return 0
    end
    if values.links and not rest[2] then return require 'ppl.cli.links'.run(values, rest[1]) end
    for _, name in ipairs { 'ranks', 'device', 'bytes', 'seconds', 'config', 'set' } do
        if values[name] and not values.links then fail.usage('--%s: is for --links, want that beside it', name) end
    end
    if rest[1] then
        fail.usage('%s: is one argument too many, want ppl devices [options], or --links train.lua', rest[values.links and 2 or 1])
    end
    local told = { cores = capi.lib.cpu_cores(), bf16 = capi.lib.cpu_bf16() ~= 0 }
    told.gpus, told.why = devices.gpus()
    told.rows, told.paths = device_rows(told.cores, told.bf16, told.gpus), paths_of(told.gpus)
    told.networks, told.versions = networks(), versions()
    if not values.json then
        show(told)
        return 0
    end
    print(('{"cores": %d, "bf16": %s, "no_gpu": %s, "devices": %s, "gpus": %s, "links": %s, "networks": %s, "versions": %s}'):format(
        told.cores, tostring(told.bf16), json.text(told.why), json.text(json.list(told.rows), { 'device', 'what', 'ranks' }),
        json.text(told.gpus, { 'index', 'name' }), json.text(told.paths, { 'from', 'to' }), json.text(told.networks, { 'name' }),
        json.text(told.versions)))
    return 0
end

return devices
