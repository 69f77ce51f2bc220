-- links.lua - `ppl devices --links`: what a value takes over each edge that a plan would use, between the GPUs its ranks go to
-- (or between threads), beside what the path between them is made for. Before: cli/devices.lua. After: the engine's
-- link_measure.
local capi = require 'ppl.capi'
local count = require 'ppl.count'
local fail = require 'ppl.fail'
local json = require 'ppl.json'
local options = require 'ppl.cli.options'
local tables = require 'ppl.table'
local units = require 'ppl.units'

local links = {}

local DEFAULT_BYTES, DEFAULT_SECONDS = 64 * 2 ^ 20, 30

-- ---- which edges

-- Of a list of edges between ranks, one entry for each directed pair: { from, to, bytes = the largest message, edges }.
local function by_pair(edges)
    local list, at = {}, {}
    for _, edge in ipairs(edges) do
        local key = edge.from .. ' ' .. edge.to
        if not at[key] and edge.from ~= edge.to then
            list[#list + 1] = { from = edge.from, to = edge.to, bytes = 0, edges = 0 }
            at[key] = list[#list]
        end
        local pair = at[key]
        if pair then pair.bytes, pair.edges = math.max(pair.bytes, edge.bytes), pair.edges + 1 end
    end
    table.sort(list, function(a, b) return a.from < b.from or a.from == b.from and a.to < b.to end)
    return list
end

-- Ranks in a chain: activations one way, gradients the other.
function links.chain(ranks, bytes)
    local edges = {}
    for rank = 0, ranks - 2 do
        edges[#edges + 1] = { from = rank, to = rank + 1, bytes = bytes }
        edges[#edges + 1] = { from = rank + 1, to = rank, bytes = bytes }
    end
    return by_pair(edges)
end

-- The edges of a training script's plan, and its device.
local function of_script(path)
    local trainer = require 'ppl.cli.script'.load(path, { quiet = true })
    if not require 'ppl.trainer'.is(trainer) then fail('%s: returns %s, want a trainer', path, type(trainer)) end
    local edges, device = {}, trainer.device
    for i, row in ipairs(trainer:links().rows) do edges[i] = { from = row.from_rank, to = row.to_rank, bytes = row.bytes } end
    trainer:close() -- its memory is wanted
    return by_pair(edges), device
end

-- ---- what they take

-- One way of one pair: latency in seconds, bandwidth in bytes a second (nil where nothing is copied); or error, in words.
local function measured(device, from, to, way, bytes, seconds)
    local raw = capi.new('ppl_link_cost')
    local ok, words = capi.try.link_measure(device, from, to, way, bytes, seconds, raw)
    if not ok then return { error = words } end
    return { latency = raw.latency, bandwidth = raw.bandwidth > 0 and raw.bandwidth or nil }
end

-- The ways of a pair: { name, way, used = what a plan goes by }.
local function ways_of(device, path)
    local const = capi.const
    if device ~= 'cuda' then return { { name = 'a bell', way = const.PPL_WAY_POINTER, used = true } } end
    if path.same then return { { name = 'an event', way = const.PPL_WAY_POINTER, used = true } } end
    return { { name = 'NCCL', way = const.PPL_WAY_NCCL, used = true }, { name = 'a copy', way = const.PPL_WAY_COPY } }
end

-- Rows of all pairs, a row a way. Pairs of the same two GPUs are measured once. bytes: of each message; nil: the edge's own.
function links.rows(device, pairs_, bytes, seconds)
    local rows, known, gpus = {}, {}, 0
    if device == 'cuda' then
        local n = capi.new('int32_t[1]')
        capi.lib.gpu_count(n)
        gpus = n[0]
    end
    for _, pair in ipairs(pairs_) do
        local size, a, b = bytes or pair.bytes, 0, 0
        local path = { path = 'threads', same = true, peer = true }
        if gpus > 0 then
            a, b = capi.lib.gpu_of_rank(pair.from, gpus), capi.lib.gpu_of_rank(pair.to, gpus)
            path = require 'ppl.cli.devices'.path(a, b)
        end
        for _, way in ipairs(ways_of(device, path)) do
            local key = ('%d %d %d %d'):format(a, b, way.way, size)
            known[key] = known[key] or measured(device, a, b, way.way, size, seconds)
            local m = known[key]
            rows[#rows + 1] = { from = pair.from, to = pair.to, gpus = gpus > 0 and ('%d -> %d'):format(a, b) or nil,
                gpu_from = a, gpu_to = b, edges = pair.edges, bytes = size, path = path.path, nvlink = path.nvlink, peer = path.peer,
                same = path.same, promised = path.promised, way = way.name, used = way.used or false, latency = m.latency,
                bandwidth = m.bandwidth, error = m.error }
        end
    end
    return rows
end

-- ---- what is wrong with them

local function gb(x) return ('%.1f GB/s'):format(x / 1e9) end

-- Of one pair of GPUs, from the rows of its ways.
local function pair_warnings(rows)
    local best, by, list, first = 0, {}, {}, rows[1]
    local where = ('GPU %d to GPU %d'):format(first.gpu_from, first.gpu_to)
    for _, row in ipairs(rows) do
        if row.bandwidth then
            best, by[row.way] = math.max(best, row.bandwidth), row.bandwidth
        end
    end
    local function warn(...) list[#list + 1] = where .. ': ' .. string.format(...) end
    if not first.peer then
        warn('neither reaches the other\'s memory, each value goes through the host, want direct access: nvidia-smi topo -p2p r '
            .. 'says what keeps them from it')
    end
    if best == 0 then return list end
    if first.promised and best < first.promised / 2 then
        if first.nvlink then
            warn('%s is made for %s and gives %s, want its links up (nvidia-smi nvlink -s) and used (no NCCL_P2P_DISABLE, no '
                .. 'NCCL_P2P_LEVEL)', first.path, gb(first.promised), gb(best))
        elseif first.peer then
            warn('%s is made for %s and gives %s, want the slot\'s lanes free of others\' use, and no IOMMU or access control '
                .. 'between the slots', first.path, gb(first.promised), gb(best))
        end
    end
    if by['NCCL'] and by['a copy'] and by['NCCL'] < by['a copy'] / 2 then
        warn('NCCL gives %s where a copy gives %s, want NCCL to go the direct way: NCCL_DEBUG=INFO says which it goes (via P2P; '
            .. 'SHM and NET are slow paths)', gb(by['NCCL']), gb(by['a copy']))
    end
    return list
end

-- What to look after, a line each: paths that give far less than they are made for, or go through the host.
function links.warnings(rows)
    local list, groups, at = {}, {}, {}
    for _, row in ipairs(rows) do
        if not row.same then
            local key = row.gpu_from .. ' ' .. row.gpu_to
            if not at[key] then
                at[key] = {}
                groups[#groups + 1] = at[key]
            end
            table.insert(at[key], row)
        end
    end
    for _, group in ipairs(groups) do
        for _, line in ipairs(pair_warnings(group)) do list[#list + 1] = line end
    end
    return list
end

-- ---- the command

local columns = {
    { key = 'from', title = 'from rank' }, { key = 'to', title = 'to rank' }, { key = 'gpus', title = 'GPUs' },
    { key = 'path', title = 'path' },
    { key = 'bytes', title = 'message', format = tables.bytes }, { key = 'way', title = 'by' },
    { key = 'latency', title = 'latency us', format = function(x) return ('%.1f'):format(x * 1e6) end },
    { key = 'bandwidth', title = 'GB/s', format = function(x) return ('%.1f'):format(x / 1e9) end },
    { key = 'promised', title = 'made for', format = function(x) return ('%.0f'):format(x / 1e9) end },
}

-- The slowest of what a plan goes by, as an option of ppl plan; nil where nothing was measured.
local function as_costs(rows)
    local latency, bandwidth
    for _, row in ipairs(rows) do
        if row.used and row.latency then latency = math.max(latency or 0, row.latency) end
        if row.used and row.bandwidth then bandwidth = math.min(bandwidth or math.huge, row.bandwidth) end
    end
    if not latency then return nil end
    local rate = bandwidth and (',bandwidth=%.1fGB/s'):format(bandwidth / 1e9) or ''
    return ('--link latency=%.1fus%s'):format(latency * 1e6, rate)
end

-- Each error once, with its pair.
local function errors_of(rows)
    local list, told = {}, {}
    for _, row in ipairs(rows) do
        if row.error and not told[row.error] then
            told[row.error] = true
            list[#list + 1] = row.error
        end
    end
    return list
end

local function show(rows, warnings, errors)
    local notes = {}
    local costs = as_costs(rows)
    if costs then notes[1] = 'the slowest of them, for ppl plan: ' .. costs end
    for _, line in ipairs(errors) do notes[#notes + 1] = 'failed: ' .. line end
    for _, line in ipairs(warnings) do notes[#notes + 1] = 'warning: ' .. line end
    print(tables.new(columns, rows, notes))
end

local function bytes_of(text)
    local bytes = units.size(text)
    if not bytes or bytes < 1 or bytes > 2 ^ 34 or bytes % 1 ~= 0 then
        fail.usage('--bytes: is %s, want a size such as 64MiB, up to 16GiB', text == '' and 'empty' or text)
    end
    return bytes
end

-- The pairs of ranks and the device: of a script, or of a chain.
local function asked(values, script)
    if script then
        for _, name in ipairs { 'ranks', 'device' } do
            if values[name] then fail.usage('--%s: %s says it, want none beside a script', name, script) end
        end
        if not script:match('%.lua$') then fail.usage('%s: is no script, want a .lua file', script) end
        return of_script(script)
    end
    local device, gpus = values.device, require 'ppl.cli.devices'.gpus()
    if device and device ~= 'cpu' and device ~= 'cuda' then fail.usage('--device: is %s, want cpu or cuda', device) end
    device = device or gpus[1] and 'cuda' or 'cpu'
    local ranks = values.ranks and options.integer('--ranks', values.ranks, 2, 1024) or math.max(2, device == 'cuda' and #gpus or 2)
    return links.chain(ranks, DEFAULT_BYTES), device
end

-- values: of ppl devices' command line. Gives the exit status: 1 where an edge does not work.
function links.run(values, script)
    local bytes = values.bytes and bytes_of(values.bytes)
    local seconds = values.seconds and options.integer('--seconds', values.seconds, 1, 3600) or DEFAULT_SECONDS
    local pairs_, device = asked(values, script)
    if not pairs_[1] then fail('%s: its plan has no edge between two ranks, want 2 stages or more', script) end
    local rows = links.rows(device, pairs_, bytes, seconds)
    local warnings, errors = links.warnings(rows), errors_of(rows)
    if values.json then
        print(('{"device": %s, "links": %s, "warnings": %s, "errors": %s}'):format(json.text(device),
            json.text(json.list(rows), { 'from', 'to', 'way' }), json.text(json.list(warnings)), json.text(json.list(errors))))
    else
        print(('links of %s, device %s'):format(script or count(pairs_[#pairs_].from + 1, 'rank') .. ' in a chain', device))
        show(rows, warnings, errors)
    end
    return errors[1] and 1 or 0
end

return links
