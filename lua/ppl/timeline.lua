-- timeline.lua - a step as text: one row a rank, time from left to right, each task by its letter. Two sources: events with
-- times (of a run or a simulation), and the positions of a schedule that was refused, with the place marked.
local terminal = require 'ppl.terminal'

local timeline = {}

-- What fills a task beyond its label, so that kinds differ without colour. Idle is '.', or with causes what WAIT says.
local FILL = { F = '>', B = '<', I = '(', W = '~', U = '^' }
local LEGEND = { { 'F', 'forward' }, { 'B', 'backward' }, { 'I', 'input gradient' }, { 'W', 'weight gradient' }, { 'U', 'update' } }
timeline.fill = FILL
local WAIT = { value = '.', buffer = ',', norm = '-' }

-- The text of a task of `width` columns: "F3>>" , or the letter and fill where its number has no room.
local function label(task, width, with_stage)
    local number = task.microbatch and task.microbatch >= 0 and tostring(task.microbatch) or ''
    local text = (with_stage and task.stage or '') .. task.kind .. number
    if #text > width then text = task.kind .. number end
    if #text > width then text = task.kind end
    return text .. FILL[task.kind]:rep(width - #text)
end

local function paint(kind, text, options) return options.plain and text or terminal.paint(kind, text) end

-- The columns from + 1 .. to of idle time. With causes: by what was waited for, ' ' where nothing was; the rank waited for
-- stands inside where it has room.
local function draw_idle(waits, first, scale, from, to, options)
    if to <= from then return '' end
    if not options.causes then return ('.'):rep(to - from) end
    local cells = {}
    for c = from + 1, to do cells[c] = ' ' end
    for _, wait in ipairs(waits) do
        local a = math.max(from, math.floor((wait.begin - first) * scale + 0.5))
        local b = math.min(to, math.floor((wait.finish - first) * scale + 0.5))
        for c = a + 1, b do cells[c] = WAIT[wait.cause] end
        local number = wait.rank and tostring(wait.rank) or ''
        for i = 1, #number + 2 <= b - a and #number or 0 do cells[a + 1 + i] = number:sub(i, i) end
    end
    return table.concat(cells, '', from + 1, to)
end

-- Columns of a row: a task covers those whose middle lies in it, and at least one if its column is free. Tasks that took no
-- time (updates that cost nothing) are left out.
local function draw_row(tasks, first, scale, width, options)
    local cells, at = {}, 0
    for _, task in ipairs(tasks) do
        local from = math.max(at, math.floor((task.begin - first) * scale + 0.5))
        local to = math.min(width, math.max(from + 1, math.floor((task.finish - first) * scale + 0.5)))
        if to > from and task.finish > task.begin then
            cells[#cells + 1] = draw_idle(tasks.waits, first, scale, at, from, options)
            cells[#cells + 1] = paint(task.kind, label(task, to - from, options.with_stage), options)
            at = to
        end
    end
    cells[#cells + 1] = draw_idle(tasks.waits, first, scale, at, width, options)
    return table.concat(cells)
end

local function legend(kinds, options)
    local parts = {}
    for _, entry in ipairs(LEGEND) do
        if kinds[entry[1]] then parts[#parts + 1] = paint(entry[1], entry[1] .. FILL[entry[1]], options) .. ' ' .. entry[2] end
    end
    parts[#parts + 1] = '. idle'
    if not options.causes then return { '        ' .. table.concat(parts, '   ') } end
    parts[#parts] = nil
    return { '        ' .. table.concat(parts, '   '), '        .1. waits for a value of rank 1   ,1, for a free buffer of rank 1' ..
        '   - for the norm of all   blank: for nothing' }
end

-- ranks: list (from rank 0) of lists of { kind, stage, microbatch, begin, finish } in order of time, seconds. options:
-- width (columns of time), unit ('ms' or '' for units), with_stage (labels name the stage too), causes (idle time is drawn by
-- what was waited for: each list's waits), plain (no colour, whatever the terminal).
-- Gives lines of text.
function timeline.lines(ranks, options)
    options = options or {}
    local first, last, kinds = math.huge, -math.huge, {}
    for _, tasks in ipairs(ranks) do
        for _, task in ipairs(tasks) do
            first, last = math.min(first, task.begin), math.max(last, task.finish)
            if task.finish > task.begin then kinds[task.kind] = true end
        end
    end
    if first >= last then return { 'rank 0  (no tasks)' } end
    local width = options.width or math.max(40, math.min(terminal.width(), 200) - 9)
    local scale = width / (last - first)
    if scale >= 1 and options.unit == '' then -- unit costs: whole columns a unit keep equal tasks equal
        scale = math.floor(scale)
        width = math.ceil((last - first) * scale - 1e-9)
    end
    local lines = {}
    for r, tasks in ipairs(ranks) do
        lines[#lines + 1] = ('rank %-2d |%s'):format(r - 1, draw_row(tasks, first, scale, width, options))
    end
    local span = options.unit == '' and ('%g'):format(last - first) or ('%.2f ms'):format((last - first) * 1e3)
    lines[#lines + 1] = '        0' .. (' '):rep(math.max(1, width - 1 - #span)) .. span
    for _, line in ipairs(legend(kinds, options)) do lines[#lines + 1] = line end
    return lines
end

local CELL_ROWS = 16 -- ranks and positions that a grid shows at most
local AROUND = 6

-- The rows and positions of a refused schedule near a place. cells: list (rank 0 first) of lists of texts ("2F5").
function timeline.grid(cells, rank, at)
    local longest, width = 0, 3
    for _, row in ipairs(cells) do longest = math.max(longest, #row) end
    local from = math.max(0, (at >= 0 and at or 0) - AROUND)
    local to = math.min(longest, from + 2 * AROUND + 1)
    for _, row in ipairs(cells) do
        for i = from + 1, math.min(to, #row) do width = math.max(width, #row[i]) end
    end
    local first_rank = math.max(0, math.min(rank - CELL_ROWS / 2, #cells - CELL_ROWS))
    local lines, head = {}, {}
    for position = from, to - 1 do head[#head + 1] = (' %-' .. width .. 's '):format(position) end
    lines[1] = ('position    ' .. table.concat(head)):gsub('%s+$', '')
    for r = first_rank, math.min(#cells, first_rank + CELL_ROWS) - 1 do
        local parts = {}
        for position = from, to - 1 do
            local text = ('%-' .. width .. 's'):format(cells[r + 1][position + 1] or '')
            local marked = r == rank and position == at
            parts[#parts + 1] = marked and '[' .. text .. ']' or ' ' .. text .. ' '
        end
        lines[#lines + 1] = (('%s rank %-3d%s%s'):format(r == rank and '>' or ' ', r, from > 0 and '..' or '  ',
            table.concat(parts)):gsub('%s+$', ''))
    end
    return lines
end

return timeline
