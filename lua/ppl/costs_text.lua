-- costs_text.lua - costs as the command line says them: --costs F=1,I=1,W=1, --link latency=5us,bandwidth=300GB/s, --bytes 4MB,
-- or the costs.json of a run. Times have units everywhere, and are seconds, or nowhere. After: costs.check.
local costs_of = require 'ppl.costs'
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local units = require 'ppl.units'

local text_of = {}

local COSTS = { f = units.time, i = units.time, w = units.time, b = units.time, update = units.time, latency = units.time,
    bandwidth = units.rate, jitter = units.number, seed = units.number }
local LINK = { latency = units.time, bandwidth = units.rate }
local BY_STAGE = check.set('f', 'i', 'w', 'b')
local UNITLESS = check.set('jitter', 'seed')
local WANT_COSTS = 'F=1,I=1,W=1[,B=2][,update=0][,jitter=0], one value or one a stage as in F=1:2:1:1, with units as in F=20ms or ' ..
    'without, or a run\'s costs.json'
local WANT_LINK = 'latency=5us,bandwidth=300GB/s, or one of them'

-- "1" as a number, "1:2:1:1" as a list of one a stage; nil where it is neither. unit: whether one has a unit, nil: all are 0.
local function numbers(text, read)
    local list, unit = {}, nil
    for part in (text .. ':'):gmatch('([^:]*):') do
        local number, has_unit = read(part)
        if not number then return nil end
        if number ~= 0 or has_unit then
            if unit ~= nil and unit ~= has_unit then return nil end
            unit = has_unit
        end
        list[#list + 1] = number
    end
    return #list == 1 and list[1] or list, unit
end

local function half(value)
    if type(value) == 'number' then return value / 2 end
    local list = {}
    for i, number in ipairs(value) do list[i] = number / 2 end
    return list
end

-- What `said` ({ timed, by }: nothing yet, or whether times have units and which entry showed it) learns of an entry.
local function note_unit(option, said, entry, unit)
    if unit == nil then return end
    if said.timed ~= nil and said.timed ~= unit then
        local with, without = said.by, option .. ' ' .. entry
        if unit then with, without = without, with end
        fail.usage('%s has a unit, %s has none, want units in all or in none', with, without)
    end
    said.timed, said.by = unit, said.by or option .. ' ' .. entry
end

-- "F=1,I=1:2:1:1,W=1" as { f = 1, i = { 1, 2, 1, 1 }, w = 1 }. option: what errors call it. known: what reads each entry.
local function entries(option, text, known, want, said)
    local value, count = {}, 0
    for entry in text:gmatch('[^,]+') do
        local name, rest = entry:match('^%s*(%a+)%s*=(.*)$')
        local key = name and name:lower()
        if name and not known[key] then fail.usage('%s: %s is unknown, want %s', option, name, want) end
        local number, unit
        if name then number, unit = numbers(rest, known[key]) end
        if not number then fail.usage('%s: %s is no cost, want %s', option, entry, want) end
        if type(number) == 'table' and not BY_STAGE[key] then fail.usage('%s: %s has a value a stage, want one number', option, name) end
        if value[key] then fail.usage('%s: %s stands twice, want it once', option, name) end
        if not UNITLESS[key] then note_unit(option, said, entry, unit) end
        value[key], count = number, count + 1
    end
    return value, count
end

-- Wants what has a default of 1 to be said where times are seconds, and B apart from its parts.
local function complete(value, said)
    if value.b and (value.i or value.w) then
        fail.usage('--costs: B stands beside %s, which is a part of it, want B or both I and W', value.i and 'I' or 'W')
    end
    if value.b then value.i, value.w, value.b = half(value.b), half(value.b), nil end
    for _, key in ipairs { 'f', 'i', 'w' } do
        if said.timed and value[key] == nil then
            fail.usage('--costs: has no %s, whose default 1 has no unit: want F, I and W (or F and B)', key:upper())
        end
    end
    return value
end

-- Jitter and seed as the simulator takes them.
local function check_luck(value)
    if value.jitter and value.jitter >= 1 then fail.usage('--costs: jitter is %s, want a part, 0 to 0.999999', value.jitter) end
    if value.seed and (value.seed % 1 ~= 0 or value.seed > 2 ^ 53) then
        fail.usage('--costs: seed is %s, want a whole number of 0 to %.0f', value.seed, 2 ^ 53)
    end
end

local function is_file(text) return text:match('%.json$') or text:match('%.ya?ml$') or text ~= '' and not text:find('=', 1, true) end

local function read_costs(text, said)
    if not is_file(text) then
        local value = complete(entries('--costs', text, COSTS, WANT_COSTS, said), said)
        check_luck(value)
        return value
    end
    local file, why = io.open(text, 'rb'), nil
    if file then
        why = select(2, file:read(0)) -- a folder's; nil at the end of an empty file
        file:close()
    end
    if not file or why then fail.usage('--costs: %s cannot be read, want %s', text, WANT_COSTS) end
    said.timed, said.by = true, text
    return costs_of.read_file(text)
end

local function read_link(option, text, said)
    local value, count = entries(option, text, LINK, WANT_LINK, said)
    if count == 0 then fail.usage('%s: is empty, want %s', option, WANT_LINK) end
    return value
end

local function node_ranks(values)
    local link, ranks = values['link-between'], values['node-ranks']
    if (link == nil) ~= (ranks == nil) then
        fail.usage('--%s: stands without --%s, want both', link and 'link-between' or 'node-ranks', link and 'node-ranks' or 'link-between')
    end
    return ranks and require 'ppl.cli.options'.integer('--node-ranks', ranks, 1, 4096)
end

-- values: of the options --costs, --link, --link-between, --node-ranks, --bytes. Gives a table for costs.check, which then knows
-- the stages, and whether times are seconds.
function text_of.read(values)
    local said = {}
    if values.costs and not values.costs:find('[^%s,]') then fail.usage('--costs: is empty, want %s', WANT_COSTS) end
    local costs = read_costs(values.costs or '', said)
    if values.link then
        local link = read_link('--link', values.link, said)
        for key in pairs(link) do
            if not is_file(values.costs or '') and costs[key] then fail.usage('--link: %s stands in --costs too, want it once', key) end
        end
        costs.latency, costs.bandwidth, costs.links = link.latency or costs.latency, link.bandwidth or costs.bandwidth, nil
    end
    costs.node_ranks = node_ranks(values)
    costs.between = values['link-between'] and read_link('--link-between', values['link-between'], said)
    if said.timed and not values.costs then
        fail.usage('%s: has a unit, and the costs are F=1,I=1,W=1 without, want units in both, as in --costs F=2ms,I=2ms,W=2ms', said.by)
    end
    if values.bytes then
        costs.bytes = units.size(values.bytes)
        if not costs.bytes then fail.usage('--bytes: is %s, want a size, as in 4MB', values.bytes) end
    end
    return costs, said.timed or false
end

-- Refuses lists of another length than there are stages. text: what --costs says.
function text_of.need_stages(text, costs, stages)
    if is_file(text or '') then return end
    for _, key in ipairs { 'f', 'i', 'w' } do
        local list = costs[key]
        if type(list) == 'table' and #list ~= stages then
            local name = key ~= 'f' and text:find('[Bb]%s*=') and 'B' or key:upper()
            fail.usage('--costs: %s has %d costs, want %d, one a stage', name, #list, stages)
        end
    end
end

-- Refuses a bandwidth for a schedule without a model, where nobody says how much crosses.
function text_of.need_bytes(costs)
    if costs.bytes then return end
    for option, link in pairs { ['--link'] = costs, ['--link-between'] = costs.between } do
        if link.bandwidth then fail.usage('%s: bandwidth without the size of a message, want --bytes too, as in --bytes 4MB', option) end
    end
end

return text_of
