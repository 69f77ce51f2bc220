-- devices.lua - `ppl devices`: what this machine offers.
local capi = require 'ppl.capi'
local json = require 'ppl.json'
local options = require 'ppl.cli.options'
local tables = require 'ppl.table'

local devices = {}

local SPEC = {
    { name = '--json', help = 'print one JSON object' },
    { name = '--help', short = '-h', help = 'this text' },
}

local columns = { { key = 'device', title = 'device' }, { key = 'what', title = 'what it is' }, { key = 'ranks', title = 'ranks at once' } }

-- "model name" of /proc/cpuinfo.
local function cpu_name()
    local file = io.open('/proc/cpuinfo')
    if not file then return 'CPU' end
    local name = file:read('*a'):match('model name%s*:%s*([^\n]+)')
    file:close()
    return name or 'CPU'
end

-- Adds a row for each GPU; where there is none, the reason.
local function gpu_rows(rows)
    local count = capi.new('int32_t[1]')
    local ok, why = capi.try.gpu_count(count)
    if not ok then return why end
    for i = 0, count[0] - 1 do
        local gpu = capi.new('ppl_gpu')
        capi.lib.gpu_get(i, gpu)
        rows[#rows + 1] = { device = 'cuda', ranks = 'any', what = ('GPU %d: %s, %.0f GiB, %d processors, compute capability %d.%d')
            :format(i, capi.string(gpu.name), tonumber(gpu.memory) / 2 ^ 30, gpu.processors, gpu.major, gpu.minor) }
    end
end

function devices.run(arguments)
    local values, rest = options.parse('ppl devices', SPEC, arguments)
    if values.help then
        print('usage: ppl devices [options]\n\n' .. options.help(SPEC))
        return 0
    end
    if rest[1] then require 'ppl.fail'.usage('%s: is one argument too many, want ppl devices [options]', rest[1]) end
    local cores, bf16 = capi.lib.cpu_cores(), capi.lib.cpu_bf16() ~= 0
    local rows = {
        { device = 'cpu', what = ('%s, bf16 %s'):format(cpu_name(), bf16 and 'in hardware' or 'widened to f32'), ranks = cores },
        { device = 'reference', what = 'plain loops, f64 where asked for: what the others are judged by', ranks = cores },
        { device = 'emulated', what = 'no arithmetic: tasks take the time a cost table gives', ranks = 'any' },
    }
    local why = gpu_rows(rows)
    local result = tables.new(columns, rows, { why })
    if values.json then
        print(('{"cores": %d, "bf16": %s, "no_gpu": %s, "devices": %s}'):format(cores, tostring(bf16),
            why and json.text(why) or 'null', result:json()))
    else
        print(result)
    end
    return 0
end

return devices
