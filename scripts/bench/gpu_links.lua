-- gpu_links.lua - what a value takes between ranks in a chain, one on each GPU that is visible. Prints rows for scripts/gpu_check.
local ppl = require 'ppl'
local links = require 'ppl.cli.links'

local cfg = ppl.config { ranks = 2, megabytes = 64, seconds = 60 }
local bytes = cfg.megabytes * 2 ^ 20
local rows = links.rows('cuda', links.chain(cfg.ranks, bytes), bytes, cfg.seconds)
local failed, told = false, {}
for _, row in ipairs(rows) do
    local what = ('GPU %s by %s (%s)'):format(row.gpus, row.way, row.path)
    if not told[what] then
        told[what] = true
        local figure = row.latency and ('%.1f us%s'):format(row.latency * 1e6, row.bandwidth and
            (', %.1f GB/s'):format(row.bandwidth / 1e9) or '') or ''
        print(('#row\tlinks\t%s\t%s\t%s'):format(what, figure, row.error and 'WRONG: ' .. row.error or 'ok'))
        failed = failed or row.error
    end
end
for _, line in ipairs(links.warnings(rows)) do print(('#row\tlinks\tslow path\t\twarning: %s'):format(line)) end
return failed and 1 or 0
