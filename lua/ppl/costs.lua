-- costs.lua - what a stage's F, I and W and a message take: for the simulator and the emulated device. From a table, a run's
-- costs.json or a run's measurements; costs_text.lua reads what the command line says.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'

local costs = {}

local KNOWN = check.set('f', 'i', 'w', 'update', 'latency', 'bandwidth', 'between', 'node_ranks', 'links', 'bytes', 'jitter', 'seed',
    'barrier')

-- One number for all stages or a list of one a stage, as a list.
local function per_stage(where, value, stages, default)
    if value == nil then value = default end
    if type(value) == 'table' and #value ~= stages then fail('%s: has %d costs, want %d, one a stage', where, #value, stages) end
    local list = {}
    for stage = 1, stages do
        list[stage] = check.number(('%s of stage %d'):format(where, stage - 1), type(value) == 'table' and value[stage] or value, 0)
    end
    return list
end

-- nil: no limit
local function bandwidth(where, value)
    if value == nil then return nil end
    check.number(where, value)
    if value <= 0 then fail('%s: is %s, want a number above 0', where, check.show(value)) end
    return value
end

-- { latency, bandwidth, and for a list of links from, to }
local function link(where, value, ...)
    check.keys(where, value, check.set('latency', 'bandwidth', ...))
    return { latency = check.number(where .. ': latency', value.latency, 0, nil, 0),
        bandwidth = bandwidth(where .. ': bandwidth', value.bandwidth) }
end

local function links(where, list)
    local result = {}
    for i, value in ipairs(check.table(where, list, {})) do
        local at = ('%s %d'):format(where, i)
        result[i] = link(at, value, 'from', 'to')
        result[i].from = check.integer(at .. ': from', value.from, 0)
        result[i].to = check.integer(at .. ': to', value.to, 0)
    end
    return result
end

local function topology(where, value)
    if (value.between == nil) ~= (value.node_ranks == nil) then
        fail('%s: %s stands without %s, want both: ranks of a node, and what links between nodes take', where,
            value.between and 'between' or 'node_ranks', value.between and 'node_ranks' or 'between')
    end
    if not value.between then return nil, nil end
    return link(where .. ': between', value.between), check.integer(where .. ': node_ranks', value.node_ranks, 1)
end

-- { f, i, w: seconds (or units of time), a number or a list by stage (1); update: of a stage's optimizer step (0).
--   latency (0), bandwidth (no limit): of each link between two ranks, a direction: seconds, bytes a second.
--   node_ranks, between = { latency, bandwidth }: ranks of a node, and the links between ranks on different nodes.
--   links: list of { from, to, latency, bandwidth }: pairs of ranks that go by their own.
--   bytes: of each message, where no model says it. jitter (0), seed (0): each F, I, W and message takes up to this part more
--   or less. barrier (false): updates wait for every rank's norm. }
function costs.check(where, value, stages)
    check.keys(where, value, KNOWN)
    local between, node_ranks = topology(where, value)
    return {
        f = per_stage(where .. ': f', value.f, stages, 1), i = per_stage(where .. ': i', value.i, stages, 1),
        w = per_stage(where .. ': w', value.w, stages, 1), update = check.number(where .. ': update', value.update, 0, nil, 0),
        latency = check.number(where .. ': latency', value.latency, 0, nil, 0),
        bandwidth = bandwidth(where .. ': bandwidth', value.bandwidth), between = between, node_ranks = node_ranks,
        links = links(where .. ': link', value.links),
        bytes = value.bytes ~= nil and check.number(where .. ': bytes', value.bytes, 0) or nil,
        jitter = check.number(where .. ': jitter', value.jitter, 0, 0.999999, 0), seed = check.seed(where .. ': seed', value.seed, 0),
        barrier = check.boolean(where .. ': barrier', value.barrier, false),
    }
end

-- ---- a run's costs.json

-- What is said of a run's links, { from, to, bytes, seconds } a message, as links that take so long whatever the size; and
-- the median, for links that the run did not have.
function costs.of_links(measured)
    local result, by_pair, all = {}, {}, {}
    for _, row in ipairs(measured) do
        local key = row.from .. ' ' .. row.to
        local pair = by_pair[key]
        if not pair then
            pair = { from = row.from, to = row.to, latency = 0, count = 0 }
            by_pair[key], result[#result + 1] = pair, pair
        end
        pair.latency, pair.count = pair.latency + row.seconds, pair.count + 1
    end
    for i, pair in ipairs(result) do
        pair.latency, pair.count = pair.latency / pair.count, nil
        all[i] = pair.latency
    end
    table.sort(all)
    return result, all[math.ceil(#all / 2)] or 0
end

local function read_links(path, list)
    local rows = {}
    if type(list) ~= 'table' then fail('%s: links is %s, want a list of links', path, check.show(list)) end
    for i, row in ipairs(list) do
        local where = ('%s: link %d'):format(path, i)
        if type(row) ~= 'table' then fail('%s: is %s, want from, to, bytes and seconds', where, check.show(row)) end
        rows[i] = { from = check.integer(where .. ': from', row.from, 0), to = check.integer(where .. ': to', row.to, 0),
            seconds = check.number(where .. ': seconds', row.seconds, 0) }
    end
    return rows
end

-- The table of a file that a run wrote (costs.json), for costs.check.
function costs.read_file(path)
    local root = require 'ppl.yaml'.open(path)
    local value = require 'ppl.yaml'.value(root)
    if type(value) ~= 'table' or type(value.stages) ~= 'table' then fail('%s: has no stages, want the costs.json of a run', path) end
    local result = { f = {}, i = {}, w = {}, latency = value.latency, update = value.update }
    for s, stage in ipairs(value.stages) do
        if type(stage) ~= 'table' then fail('%s: stage %d is %s, want its f, i and w', path, s - 1, check.show(stage)) end
        for _, key in ipairs { 'f', 'i', 'w' } do
            if stage[key] == nil then fail('%s: stage %d has no %s, want seconds', path, s - 1, key) end
            result[key][s] = stage[key]
        end
    end
    if value.links ~= nil then result.links, result.latency = costs.of_links(read_links(path, value.links)) end
    return result
end

function costs.read(path, stages) return costs.check(path, costs.read_file(path), stages) end

-- ---- the engine's form

local function fill_links(raw, own_links)
    local list = capi.new('ppl_link_cost[?]', math.max(#own_links, 1))
    for i, own in ipairs(own_links) do
        list[i - 1].from, list[i - 1].to, list[i - 1].latency, list[i - 1].bandwidth = own.from, own.to, own.latency, own.bandwidth or 0
    end
    raw.links, raw.n_links = list, #own_links
    return list
end

-- A ppl_costs, and what keeps its arrays alive. value: as check gives it; f, i, w, latency and update must be there.
function costs.to_engine(value)
    local raw = capi.new('ppl_costs')
    local keep = { capi.array('double', value.f), capi.array('double', value.i), capi.array('double', value.w) }
    keep[4] = fill_links(raw, value.links or {})
    raw.f, raw.i, raw.w, raw.update = keep[1], keep[2], keep[3], value.update
    raw.latency, raw.bandwidth = value.latency, value.bandwidth or 0
    if value.between then
        raw.node_ranks, raw.between_latency, raw.between_bandwidth = value.node_ranks, value.between.latency, value.between.bandwidth or 0
    end
    raw.unit_bytes, raw.jitter, raw.jitter_seed = value.bytes or 0, value.jitter or 0, value.seed or 0
    raw.barrier = value.barrier and 1 or 0
    return raw, keep
end

-- The mean over the stages: { f, i, w } of a stage, for formulas.
function costs.mean(value)
    local result = {}
    for _, key in ipairs { 'f', 'i', 'w' } do
        local sum = 0
        for _, cost in ipairs(value[key]) do sum = sum + cost end
        result[key] = sum / #value[key]
    end
    return result
end

-- The same costs with their mean for every stage.
function costs.equal(value)
    local mean, result = costs.mean(value), {}
    for key, cost in pairs(value) do result[key] = cost end
    for _, key in ipairs { 'f', 'i', 'w' } do
        result[key] = {}
        for stage = 1, #value[key] do result[key][stage] = mean[key] end
    end
    return result
end

return costs
