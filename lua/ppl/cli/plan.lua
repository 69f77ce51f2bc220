-- plan.lua - `ppl plan WHAT`: compiles a schedule, proves it, simulates it, and draws its timeline and each rank's memory.
-- WHAT is a training script, a schedule's .lua or .csv file, or a built-in's name, with options: interleaved:chunks=3. Trains
-- nothing. What it shows is made in plan_figures.lua, plan_text.lua, plan_svg.lua and plan_compare.lua.
local capi = require 'ppl.capi'
local compare = require 'ppl.plan_compare'
local costs_of = require 'ppl.costs'
local costs_text = require 'ppl.costs_text'
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'
local options = require 'ppl.cli.options'
local plan_figures = require 'ppl.plan_figures'
local plan_text = require 'ppl.plan_text'
local schedule = require 'ppl.schedule'
local schedules = require 'ppl.schedules'

local plan = {}

local FORMATS = { 'table', 'csv', 'json', 'svg' }

local SPEC = {
    { name = '--ranks', short = '-p', value = 'P', help = 'ranks (default 4)' },
    { name = '--microbatches', short = '-m', value = 'M', help = 'microbatches (default 8)' },
    { name = '--costs', value = 'COSTS', help = 'F=1,I=1,W=1[,B=2][,update=0][,jitter=0,seed=0] of every stage, one value a stage ' ..
        'as in F=1:2:1:1, or a run\'s costs.json' },
    { name = '--link', value = 'LINK', help = 'latency=5us,bandwidth=300GB/s: of the link from a rank to another, each direction of ' ..
        'its own (default 0, no limit)' },
    { name = '--link-between', value = 'LINK', help = 'the same of links between ranks on different nodes' },
    { name = '--node-ranks', value = 'K', help = 'ranks of a node: the first K are on the first one' },
    { name = '--bytes', value = 'SIZE', help = 'of a message, as in 4MB: what bandwidth needs where no model says it' },
    { name = '--steps', value = 'N', help = 'steps simulated, chained without a barrier; the last is drawn (default 1)' },
    { name = '--compare', value = 'A,B,C', help = 'one table of several schedules, each as WHAT is' },
    { name = '--format', value = 'FORMAT', help = 'table (default), csv (compute order in PyTorch\'s form), json, svg (a picture)' },
    { name = '--output', short = '-o', value = 'FILE', help = 'write that to a file, whole or not at all' },
    { name = '--csv', value = 'FILE', help = 'besides, write the compute order in PyTorch\'s form' },
    { name = '--messages', help = 'with --csv or --format csv: sends and receives too' },
    { name = '--trace', value = 'FILE', help = 'besides, write the simulated steps for Chrome\'s or Perfetto\'s trace viewer' },
    { name = '--tasks', help = 'print each rank\'s task list' },
    { name = '--config', value = 'FILE', help = 'of a training script' },
    { name = '--set', value = 'A.B=V', help = 'of a training script' },
    { name = '--json', help = 'as --format json: print one JSON object' },
    { name = '--help', short = '-h', help = 'this text' },
}

local HELP = [[
usage: ppl plan WHAT [options]
       ppl plan --compare WHAT,WHAT,... [options]

Compiles a schedule, proves that it is complete, in order and free of deadlock, simulates a step and shows where each rank
works and idles and what it holds. Trains nothing. WHAT is a built-in's name (1f1b, interleaved:chunks=3), a schedule's .lua
file, a .csv file of compute order, or a training script.

%s

Times have a unit everywhere (s, ms, us, ns; bandwidths B/s, kB/s to TB/s, Gbit/s) or nowhere; then they are multiples of
F=1 and a bandwidth is bytes in one of them. A costs.json has seconds, its links included; --link replaces those. A message
takes its link for bytes / bandwidth, after the ones sent before it, and is there a latency later. Jitter: each F, I, W and
message takes up to this part more or less, by the seed. With --compare, a cost of one number is that
of all layers of a rank: a schedule with several stages a rank shares it among them. A refused schedule stands under the table
with its reason.

  ppl plan 1f1b -p 8 -m 32                          the picture of one step, as text
  ppl plan zb-v --format svg --output zb-v.svg      the same as an SVG file
  ppl plan 1f1b --costs F=2:2:6:2,I=1,W=1           a slow stage
  ppl plan --compare gpipe,1f1b,zb-h1,zb-v --link latency=0.1
  ppl plan 1f1b -p 16 -m 32 --costs F=4ms,B=8ms --bytes 32MB --link latency=5us,bandwidth=300GB/s \
      --node-ranks 8 --link-between latency=20us,bandwidth=25GB/s
  ppl plan mine.lua --format csv > mine.csv         for PyTorch's pipelining; --messages: with sends and receives

Exit status: 0, 1 for a failure (with --compare: if every schedule is refused), 2 for wrong usage.

built-in schedules, with their options' defaults:
%s]]

-- Runs a .lua file: gives a schedule's description or a trainer.
local function load_lua(path)
    local result = require 'ppl.cli.script'.load(path, { quiet = true })
    if schedule.is(result) or require 'ppl.trainer'.is(result) then return result end
    return fail('%s: returns %s, want a trainer or ppl.schedule { ... }', path, type(result))
end

local function unknown(name)
    local known = {}
    for i, option in ipairs(SPEC) do known[i] = option.name end
    fail.usage('%s: unknown option of ppl plan%s; ppl plan --help lists them; a schedule\'s own stand behind its name, as in ' ..
        'interleaved:chunks=3', name, nearest.hint(name, known))
end

-- The command line; unknown options are settings where a script is named, and wrong usage elsewhere.
local function parse(arguments)
    local is_script = false
    for _, word in ipairs(arguments) do
        if word:match('^%-%-compare') then return options.parse('ppl plan', SPEC, arguments, unknown) end
        is_script = is_script or word:match('^[^-].*%.lua$') ~= nil
    end
    return options.parse('ppl plan', SPEC, arguments, is_script and options.pend or unknown)
end

-- The values of --ranks and --microbatches, nil where they are not given.
local function sizes(values)
    return values.ranks and options.integer('--ranks', values.ranks, 1, 4096),
        values.microbatches and options.integer('--microbatches', values.microbatches, 1, 65536)
end

-- The compiled schedule of WHAT, and the trainer if it is one's.
local function compile(what, values)
    local p, m = sizes(values)
    local thing = what
    if what:match('%.lua$') then
        thing = load_lua(what)
    elseif values.config or values.set then
        fail.usage('--%s: is for a training script, want a .lua file', values.config and 'config' or 'set')
    end
    if require 'ppl.trainer'.is(thing) then
        if p or m then
            fail.usage('%s: is a training script, want --set pipeline.stages=P and --set pipeline.microbatches=M', what)
        end
        return thing.schedule, thing
    end
    if thing == what and not what:match('%.csv$') then -- a name: one that is none is wrong usage
        local ok, words = pcall(schedules.find, what)
        if not ok then fail.usage('%s', words) end
    end
    if what:match('%.csv$') then return schedules.compile(what, { ranks = p, microbatches = m }) end
    return schedules.compile(thing, { ranks = p or 4, microbatches = m or 8 })
end

-- A training script knows what its messages hold, whether a norm joins its ranks, and on the emulated device what things take.
local function costs_of_trainer(trainer, what, costs, values)
    if costs.bytes then fail.usage('--bytes: is for a schedule without a model, and %s has one', what) end
    if trainer.emulated_costs and not values.costs then
        for _, name in ipairs { 'link', 'link-between' } do
            if values[name] then fail.usage('--%s: %s has costs of its own, want --costs too', name, what) end
        end
        return trainer.emulated_costs, true
    end
    costs.barrier = trainer:waits_for_norms()
    return costs
end

-- --format, or --json's.
local function format_of(values)
    local format = values.format or values.json and 'json' or 'table'
    for _, known in ipairs(FORMATS) do
        if format == known then
            if values.json and format ~= 'json' then fail.usage('--format: is %s beside --json, want one of them', format) end
            return format
        end
    end
    fail.usage('--format: is %s, want one of %s%s', format, table.concat(FORMATS, ', '), nearest.hint(format, FORMATS))
end

-- The text goes to --output's file, which is then whole or as it was, or is printed.
local function deliver(values, text)
    if not values.output then return print(text) end
    capi.lib.write_file(values.output, text .. '\n', #text + 1)
end

-- A line for each built-in schedule: its name, its options with their defaults, and what it is.
local function list_schedules()
    local lines = {}
    for _, name in ipairs(schedules.names()) do
        local description = schedules.find(name)
        for option, default in pairs(description.defaults) do name = ('%s:%s=%d'):format(name, option, default) end
        lines[#lines + 1] = ('  %-24s %s'):format(name, description.doc)
    end
    return table.concat(lines, '\n')
end

local function text_of(format, compiled, figures, shown)
    if format == 'csv' then return plan_text.csv(compiled, shown.messages, shown.plan) end
    if format == 'json' then return plan_text.json(compiled, figures) end
    if format == 'svg' then return require 'ppl.plan_svg'.text(compiled, figures, shown) end
    local parts = { plan_text.table(compiled, figures, shown) }
    if shown.tasks then parts[2] = plan_text.tasks(compiled) end
    if shown.trainer then parts[#parts + 1] = '\nmemory of each rank:\n' .. tostring(shown.trainer:memory()) end
    return table.concat(parts, '\n')
end

-- Refuses files that would overwrite each other, files without a name, and task lists where no table is printed.
local function check_files(values, format)
    local said = {}
    for _, name in ipairs { 'output', 'csv', 'trace' } do
        local path = values[name]
        if path == '' then fail.usage('--%s: is empty, want the name of a file', name) end
        if path and said[path] then fail.usage('--%s: %s is the file of --%s, want another', name, path, said[path]) end
        if path then said[path] = name end
    end
    if values.tasks and format ~= 'table' then fail.usage('--tasks: is for --format table, and the format is %s', format) end
end

local function run_one(what, values, format, steps)
    if values.messages and not values.csv and format ~= 'csv' then
        fail.usage('--messages: is for CSV, want --format csv or --csv FILE beside it')
    end
    check_files(values, format)
    local costs, timed = costs_text.read(values)
    local compiled, trainer = compile(what, values)
    costs_text.need_stages(values.costs, costs, compiled.stages)
    local where, own = timed and values.costs or '--costs', nil
    if trainer then
        costs, own = costs_of_trainer(trainer, what, costs, values)
    else
        costs_text.need_bytes(costs)
    end
    timed = timed or own or false
    costs = costs_of.check(own and what .. ': costs' or where, costs, compiled.stages)
    local figures = plan_figures.of(compiled, costs, steps, trainer)
    if values.trace then capi.lib.plan_write_trace(figures.plan, values.trace) end
    local plan_of = values.messages and trainer and capi.lib.run_plan(trainer:open()) or nil
    if values.csv then compiled:write(values.csv, values.messages, plan_of) end
    deliver(values, text_of(format, compiled, figures, { timed = timed, plain = values.output ~= nil, tasks = values.tasks,
        trainer = trainer, messages = values.messages, plan = plan_of }))
    if trainer then trainer:close() else compiled:close() end
    return 0
end

local function run_compare(list, values, format, steps)
    if format ~= 'table' and format ~= 'json' then fail.usage('--compare: prints no %s, want --format table or json', format) end
    for _, name in ipairs { 'csv', 'messages', 'trace', 'tasks', 'config', 'set' } do
        if values[name] then fail.usage('--%s: is for one schedule, want none with --compare', name) end
    end
    check_files(values, 'table')
    if #list == 0 then fail.usage('--compare: names no schedule, want some, as in gpipe,1f1b,zb-h1') end
    local costs, timed = costs_text.read(values)
    costs_text.need_bytes(costs)
    local p, m = sizes(values)
    local shown = { ranks = p or 4, microbatches = m or 8, steps = steps, costs = costs, timed = timed }
    local rows, refused = compare.rows(list, shown)
    deliver(values, compare[format == 'json' and 'json' or 'text'](rows, refused, shown))
    return #rows > 0 and 0 or 1
end

function plan.run(arguments)
    local values, rest = parse(arguments)
    if values.help then
        print(HELP:format(options.help(SPEC), list_schedules()))
        return 0
    end
    local format = format_of(values)
    local steps = values.steps and options.integer('--steps', values.steps, 1, 10000) or 1
    if values.compare then
        local list = compare.split(values.compare)
        for at = #rest, 1, -1 do table.insert(list, 1, rest[at]) end
        return run_compare(list, values, format, steps)
    end
    if #rest ~= 1 then
        fail.usage('ppl plan: got %d arguments, want one: a script, a .lua or .csv file, or one of %s', #rest,
            table.concat(schedules.names(), ', '))
    end
    return run_one(rest[1], values, format, steps)
end

return plan
