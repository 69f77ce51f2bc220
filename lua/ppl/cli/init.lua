-- cli/init.lua - the command line: a script, a subcommand, or the prompt. Before: boot.lua. After: the other files of this
-- folder, one a subcommand. Gives the exit status: 0, 1 for a failure, 2 for wrong usage (thrown).
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'

local cli = {}

local VERSION = '0.1.0'

local COMMANDS = { plan = 'ppl.cli.plan', report = 'ppl.cli.report', devices = 'ppl.cli.devices' }

local HELP = [[
ppl - trains neural networks through a pipeline

usage: ppl SCRIPT.lua [options]        run a script; if it returns a trainer, train it
       ppl -i SCRIPT.lua [options]     the same, then a prompt with the trainer as `run`
       ppl                             a prompt
       ppl plan WHAT [options]         compile and prove a schedule (a script, .lua, .csv or a name); draw or compare it
       ppl report RUN_DIR [RUN_DIR]    one HTML page of a run, or of two side by side
       ppl devices [options]           what this machine offers
       mpirun -n 4 ppl SCRIPT.lua      the same over four processes, each with a share of the ranks (built by make MPI=1)

  --help       this text; after a script or a subcommand, its own
  --version    the version

An argument that ends in .lua is a script, anything else in first place is a subcommand. Exit status: 0, 1 for a failure,
2 for wrong usage; of lines from a pipe, 1 if one failed. NO_COLOR is obeyed.]]

local function script_run(arguments, interactive)
    return require 'ppl.cli.script'.run(arguments, interactive)
end

function cli.main(arguments)
    local first = arguments[1]
    if first == nil then return require 'ppl.cli.prompt'.run(nil) end
    if first == '--help' or first == '-h' then
        print(HELP)
        return 0
    end
    if first == '--version' then
        print('ppl ' .. VERSION)
        return 0
    end
    if first == '-i' then
        table.remove(arguments, 1)
        if not arguments[1] then return require 'ppl.cli.prompt'.run(nil) end
        return script_run(arguments, true)
    end
    if first:match('%.lua$') then return script_run(arguments, false) end
    if COMMANDS[first] then
        if not require 'ppl.capi'.leads() then return 0 end -- one process is enough
        table.remove(arguments, 1)
        return require(COMMANDS[first]).run(arguments)
    end
    if first:sub(1, 1) == '-' then
        return fail.usage('%s: unknown option%s; ppl --help lists them', first, nearest.hint(first, { '--help', '--version', '-i' }))
    end
    return fail.usage('%s: unknown command%s, want a script (.lua) or one of %s', first,
        nearest.hint(first, nearest.keys(COMMANDS)), table.concat(nearest.keys(COMMANDS), ', '))
end

return cli
