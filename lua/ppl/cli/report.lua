-- report.lua - `ppl report RUN_DIR [RUN_DIR]`: one HTML page of a run, or of two side by side. What it shows is read in
-- report/run.lua and put together in report/page.lua.
local capi = require 'ppl.capi'
local fail = require 'ppl.fail'
local json = require 'ppl.json'
local options = require 'ppl.cli.options'
local count = require 'ppl.count'

local report = {}

local SPEC = {
    { name = '--output', short = '-o', value = 'FILE', help = 'the page (default RUN_DIR/report.html)' },
    { name = '--json', help = 'print one JSON object: what was written' },
    { name = '--quiet', short = '-q', help = 'print nothing' },
    { name = '--help', short = '-h', help = 'this text' },
}

local HELP = [[
usage: ppl report RUN_DIR [options]
       ppl report RUN_DIR RUN_DIR [options]

Writes one HTML page that needs no network: loss and throughput, the timeline of the newest steps with idle time and its
cause, where the time went, stages side by side, the bubble in theory and measured, memory, the settings. With two runs,
both side by side. RUN_DIR is what training wrote (runs/NAME). Charts are drawn by d3: the Debian package node-d3.

%s

  ppl report runs/train_gpt
  ppl report runs/train_gpt runs/train_gpt-2 --output compared.html

Exit status: 0, 1 for a failure, 2 for wrong usage.]]

function report.run(arguments)
    local values, rest = options.parse('ppl report', SPEC, arguments)
    if values.help then
        print(HELP:format(options.help(SPEC)))
        return 0
    end
    if not rest[1] then fail.usage('ppl report: has no run directory, want ppl report RUN_DIR') end
    if rest[3] then fail.usage('%s: is one argument too many, want one run directory or two', rest[3]) end
    local runs, names, whole = {}, {}, true
    for i, path in ipairs(rest) do
        local said
        runs[i], said = require 'ppl.report.run'.read(path)
        names[i] = said.name
        if not said.whole then
            whole = false
            io.stderr:write(('ppl: %s: the run has not ended, or was ended from outside: the page shows its %s\n'):format(
                path, count(said.steps, 'step')))
        end
    end
    local text = require 'ppl.report.page'.text(runs, names)
    local path = values.output or rest[1]:gsub('(.)/+$', '%1') .. '/report.html'
    capi.lib.write_file(path, text, #text)
    if values.json then
        print(json.text({ page = path, bytes = #text, runs = json.list(rest), whole = whole }, { 'page', 'bytes' }))
    elseif not values.quiet then
        print(('written to %s (%s)'):format(path, require 'ppl.table'.bytes(#text)))
    end
    return 0
end

return report
