-- plan_svg.lua - a step as a picture: one self-contained SVG file without script, font or link, with a row a rank, an axis of
-- time and a legend, in light or dark as its reader prefers. Before: plan_figures.lua, plan_text.lua. After: cli/plan.lua.
local plan_text = require 'ppl.plan_text'
local tables = require 'ppl.table'

local svg = {}

-- Pixels.
local LEFT, RIGHT, TOP, ROW, BAR = 64, 28, 62, 30, 24
local LEAST_WIDTH, MOST_WIDTH, TASK_WIDTH = 560, 8000, 30 -- of the time axis, and what a task of middle length should have
local CHARACTER = 6.3                                     -- of a label, about
local TICK_GAP = 80

local KINDS = { { 'F', 'forward' }, { 'B', 'backward' }, { 'I', 'input gradient' }, { 'W', 'weight gradient' }, { 'U', 'update' } }

-- Light, then what dark replaces. Labels keep a contrast of 4.5 or more on their fill.
local STYLE = [[
text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1c2128}
.t{font-weight:600;font-size:14px}.s{fill:#57606a}.n{font-size:10.5px;text-anchor:middle}.m{text-anchor:middle}.e{text-anchor:end}
.page{fill:#ffffff}.grid{stroke:#d0d7de}.idle{fill:#f3f4f6}.hatch{stroke:#c3c9d0;stroke-width:2}
.F{fill:#a8c7fa}.B{fill:#8fd6a4}.I{fill:#7fd8d4}.W{fill:#f6d365}.U{fill:#e0b4f0}
.F,.B,.I,.W,.U{stroke:#ffffff;stroke-width:.75}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}.s{fill:#9aa4af}.page{fill:#0d1117}.grid{stroke:#30363d}.idle{fill:#161b22}.hatch{stroke:#343c46}
.F{fill:#1f4f9c}.B{fill:#1d6b38}.I{fill:#0f6462}.W{fill:#7a5a06}.U{fill:#6d3585}
.F,.B,.I,.W,.U{stroke:#0d1117}
}]]

local function escape(text)
    return (text:gsub('[%z\1-\31\127]', ' '):gsub('[&<>"]', { ['&'] = '&amp;', ['<'] = '&lt;', ['>'] = '&gt;', ['"'] = '&quot;' }))
end

-- A length in pixels without needless digits.
local function px(x) return (('%.2f'):format(x):gsub('%.?0+$', '')) end

-- First and last time, kinds and the middle length of the tasks that take time.
local function extent(rows)
    local first, last, kinds, lengths = math.huge, -math.huge, {}, {}
    for _, tasks in ipairs(rows) do
        for _, task in ipairs(tasks) do
            first, last = math.min(first, task.begin), math.max(last, task.finish)
            if task.finish > task.begin then
                kinds[task.kind] = true
                lengths[#lengths + 1] = task.finish - task.begin
            end
        end
    end
    table.sort(lengths)
    return first, last, kinds, lengths[math.ceil(#lengths / 2)]
end

-- The distance of ticks: 1, 2 or 5 times a power of ten, at least `least`.
local function tick_step(least)
    local power = 10 ^ math.floor(math.log10(least))
    for _, factor in ipairs { 1, 2, 5 } do
        if factor * power >= least * (1 - 1e-9) then return factor * power end
    end
    return 10 * power
end

local function add_axis(out, picture, rows)
    local bottom, span, shown = TOP + rows * ROW, picture.span, picture.timed and 1e3 or 1
    local step = tick_step(span * shown * TICK_GAP / picture.width)
    for i = 0, math.floor(span * shown / step + 1e-9) do
        local x = px(LEFT + i * step / shown * picture.scale)
        out[#out + 1] = ('<line class="grid" x1="%s" x2="%s" y1="%d" y2="%d"/>'):format(x, x, TOP - 6, bottom + 4)
        out[#out + 1] = ('<text class="s m" x="%s" y="%d">%s</text>'):format(x, bottom + 18, ('%.12g'):format(i * step))
    end
    out[#out + 1] = ('<text class="s e" x="%d" y="%d">%s</text>'):format(LEFT - 10, bottom + 18, picture.timed and 'ms' or 'time')
end

-- One task: its box, its label where that fits, and its times when pointed at.
local function add_task(out, picture, task, y)
    local x, width = LEFT + (task.begin - picture.first) * picture.scale, (task.finish - task.begin) * picture.scale
    local name = ('%d%s%s'):format(task.stage, task.kind, task.microbatch or '')
    out[#out + 1] = ('<rect class="%s" x="%s" y="%d" width="%s" height="%d" rx="2"><title>%s: %s to %s</title></rect>'):format(
        task.kind, px(x), y, px(width), BAR, name, picture.time(task.begin - picture.first), picture.time(task.finish - picture.first))
    if #name * CHARACTER + 3 <= width then
        out[#out + 1] = ('<text class="n" x="%s" y="%d">%s</text>'):format(px(x + width / 2), y + 16, name)
    end
end

local function add_ranks(out, picture, rows)
    for r, tasks in ipairs(rows) do
        local y = TOP + (r - 1) * ROW
        out[#out + 1] = ('<text class="e" x="%d" y="%d">rank %d</text>'):format(LEFT - 10, y + 16, r - 1)
        for _, class in ipairs { 'class="idle"', 'fill="url(#idle)"' } do
            out[#out + 1] = ('<rect %s x="%d" y="%d" width="%s" height="%d"/>'):format(class, LEFT, y, px(picture.width), BAR)
        end
        for _, task in ipairs(tasks) do
            if task.finish > task.begin then add_task(out, picture, task, y) end
        end
    end
end

local function add_legend(out, kinds, y)
    local x, box = LEFT, '<path class="%s" d="M%d %dh16v12h-16z"/>'
    local function entry(boxes, words)
        out[#out + 1] = boxes .. ('<text x="%d" y="%d">%s</text>'):format(x + 22, y + 10, words)
        x = x + 46 + #words * 6.5
    end
    for _, kind in ipairs(KINDS) do
        if kinds[kind[1]] then entry(box:format(kind[1], x, y), kind[1] .. ' ' .. kind[2]) end
    end
    entry(box:format('idle', x, y) .. ('<path fill="url(#idle)" d="M%d %dh16v12h-16z"/>'):format(x, y), 'idle')
end

local function summary(figures, time)
    local sim, steps = figures.sim, figures.steps
    local what = steps == 1 and 'makespan ' .. time(sim.makespan)
        or ('iteration %s, the last of %d chained steps'):format(time(sim.iteration), steps)
    return ('%s, bubble ratio %s (idle / iteration), bubble overhead %s (idle / ideal)'):format(what,
        tables.percent(sim.bubble_ratio), tables.percent(sim.bubble_overhead))
end

-- The picture of a compiled schedule's simulated step. figures: of plan_figures. options: timed (costs were measured).
function svg.text(compiled, figures, options)
    local sim, time = figures.sim, plan_text.time(options.timed)
    local first, last, kinds, middle = extent(sim.rows)
    local span = last > first and last - first or 1
    local width = math.max(LEAST_WIDTH, math.min(MOST_WIDTH, span / (middle or span) * TASK_WIDTH))
    local picture = { first = first, span = span, width = width, scale = width / span, timed = options.timed, time = time }
    local full, high, title = math.ceil(LEFT + width + RIGHT), TOP + #sim.rows * ROW + 62, escape(plan_text.title(compiled))
    local out = {
        ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">'):format(full, high, full, high),
        '<title>' .. title .. '</title>', '<style>' .. STYLE .. '</style>',
        '<defs><pattern id="idle" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">' ..
            '<line class="hatch" x1="1" x2="1" y1="0" y2="7"/></pattern></defs>',
        ('<rect class="page" width="%d" height="%d"/>'):format(full, high),
        ('<text class="t" x="16" y="24">%s</text>'):format(title),
        '<text class="s" x="16" y="44">' .. summary(figures, time) .. '</text>',
    }
    add_axis(out, picture, #sim.rows)
    add_ranks(out, picture, sim.rows)
    add_legend(out, kinds, TOP + #sim.rows * ROW + 36)
    out[#out + 1] = '</svg>'
    return table.concat(out, '\n')
end

return svg
