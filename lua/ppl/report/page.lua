-- report/page.lua - one self-contained HTML page: the skeleton with style, d3, the scripts of this folder and the data in
-- it. It loads nothing. Before: run.lua. After: cli/report.lua writes it.
local assets = require 'ppl.assets'
local fail = require 'ppl.fail'
local json = require 'ppl.json'

local page = {}

local SCRIPTS = { 'base', 'curves', 'lanes', 'timeline', 'pointer', 'shares', 'stages', 'bubble', 'memory', 'overview', 'main' }

-- Where Debian's node-d3 puts the library, and the licence that goes with it.
page.d3 = '/usr/share/nodejs/d3/dist/d3.min.js'
local LICENCE = '/usr/share/doc/node-d3/copyright'

-- The library with its licence. Text that would end a script element or a comment cannot stand in either.
local function d3_text()
    local text = assets.file(page.d3)
    if not text then
        fail('%s: is missing, want the Debian package node-d3, which draws the charts: apt-get install node-d3', page.d3)
    end
    if text:lower():find('</script', 1, true) then fail('%s: holds </script, want the d3 of the Debian package node-d3', page.d3) end
    local licence = (assets.file(LICENCE) or 'd3: Copyright 2010-2020 Mike Bostock, BSD-3-Clause'):gsub('%*/', '* /'):gsub('</', '< /')
    return '/*\n' .. licence .. '*/\n' .. text
end

local function scripts()
    local parts = {}
    for i, name in ipairs(SCRIPTS) do parts[i] = assets.read('report/' .. name .. '.js') end
    return table.concat(parts, '\n')
end

local function escape_html(text) return (text:gsub('[&<>"]', { ['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', ['"'] = '&quot;' })) end

-- runs: texts of run.read, one or two. names: of the runs.
function page.text(runs, names)
    local parts = {
        title = escape_html(table.concat(names, ' and ')), style = assets.read 'report/style.css', d3 = d3_text(),
        script = scripts(),
        -- "<" in JSON stands in texts alone, where an escape means the same
        data = ('{"runs": [%s], "names": %s}'):format(table.concat(runs, ',\n'), json.text(names)):gsub('<', '\\u003c'),
    }
    return (assets.read('report/page.html'):gsub('{{(%l%w*)}}', parts))
end

return page
