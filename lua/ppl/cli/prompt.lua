-- prompt.lua - a prompt: expressions print their value, statements run, `run` is the trainer. On a terminal lines are edited,
-- completed and remembered; from a pipe they are read plainly, without prompts. Globals may be set here.
local capi = require 'ppl.capi'
local complete = require 'ppl.complete'
local fail = require 'ppl.fail'
local help = require 'ppl.help'
local host = require 'ppl.host'
local show = require 'ppl.show'
local strict = require 'ppl.strict'
local terminal = require 'ppl.terminal'

local prompt = {}

-- The function of a line, first as an expression; more: the line is the beginning of a longer statement.
local function compile(text)
    local chunk, unlike_expression = loadstring('return ' .. text, '=prompt')
    if chunk then return chunk end
    local words
    chunk, words = loadstring(text, '=prompt')
    if chunk then return chunk end
    local ends = "near '?<eof>'?"
    return nil, words, words:match(ends) ~= nil or unlike_expression:match(ends) ~= nil
end

-- ---- errors

-- The frames of a traceback that are the user's: the library's only where the fault is its own, nothing of the prompt.
local function user_frames(trace, own_fault)
    local kept = {}
    for line in trace:gmatch('[^\n]+') do
        if line:find("in function 'guard'", 1, true) then break end
        local inside = line:find('<ppl>/', 1, true) or line:find('[C]:', 1, true) or line:find('[builtin', 1, true)
        if line:sub(1, 1) == '\t' and (own_fault or not inside) then kept[#kept + 1] = line end
    end
    return kept
end

-- The words of an error with its place in the user's code; of an interrupt the word alone.
function prompt.words(err)
    local words = fail.keep_stack(err) -- which gives an error without words its place
    if type(words) == 'table' then words = tostring(rawget(words, 'message') or words) end
    if words == 'interrupted' or words:find('\nstack traceback:', 1, true) then return words end
    local frames = user_frames(debug.traceback('', 2), words:sub(1, 6) == '<ppl>/')
    if not frames[1] then return words end
    return words .. '\nstack traceback:\n' .. table.concat(frames, '\n')
end

-- ---- history

-- The file of earlier lines: $PPL_HISTORY ('' keeps none), else ppl/history where the state of programs lies (XDG base
-- directories). nil where there is no place for it.
function prompt.history_path()
    local path = os.getenv 'PPL_HISTORY'
    if path then return path ~= '' and path or nil end
    local state, home = os.getenv 'XDG_STATE_HOME', os.getenv 'HOME'
    if not state or state:sub(1, 1) ~= '/' then
        if not home or home == '' then return nil end
        state = home .. '/.local/state'
    end
    return capi.try.make_directory(state .. '/ppl') and state .. '/ppl/history' or nil
end

-- ---- lines

local Session = {}
Session.__index = Session

-- nil at the end of input, false for a line that was given up.
function Session:read(prefix)
    if self.edits then return host.read_line(prefix, complete.tab) end
    if self.terminal then
        io.stdout:write(prefix)
        io.stdout:flush()
    end
    local line = nil
    if capi.leads() then line = io.read '*l' end
    return capi.same_text('a line of the prompt', line) -- every process runs what is written in the first
end

function Session:fault(words)
    self.failed = true
    io.stdout:flush()
    if not capi.leads() then return end
    io.stderr:write(words, '\n')
    io.stderr:flush()
end

-- Runs a chunk and prints what it gives; printing is guarded too.
function Session:evaluate(chunk)
    local results = { host.guard(prompt.words, chunk) }
    local ok, words, n = results[1], results[2], table.maxn(results)
    if ok then
        ok, words = host.guard(prompt.words, function()
            for i = 2, n do
                local text = (results[i] ~= nil or n > 2) and show.text(results[i])
                if text then print(terminal.is_terminal(1) and show.printable(text) or text) end
            end
        end)
    end
    if not ok then self:fault(words or 'an error without words') end
end

-- One line; what is begun and not ended stays in self.text.
function Session:line(line)
    local text = self.text and self.text .. '\n' .. line or line
    local chunk, words, more = compile(text)
    self.text = more and text or nil
    if self.edits then host.remember(line) end
    if chunk then
        self:evaluate(chunk)
    elseif not more then
        self:fault(words)
    end
end

local function banner(trainer)
    if not trainer then return 'ppl prompt: `ppl` is the library; help says what there is, exit or Ctrl-D leaves' end
    return tostring(trainer) .. '\n`run` is the trainer; help says what there is, exit or Ctrl-D leaves'
end

-- Reads and runs lines to the end of input or `exit`. trainer: what `run` is, nil at a bare prompt. failed: something before
-- the prompt has. Gives the exit status: 1 where a line of a pipe failed.
function prompt.run(trainer, failed)
    strict.allow_globals(true)
    rawset(_G, 'ppl', require 'ppl')
    rawset(_G, 'help', help.object)
    if trainer then rawset(_G, 'run', trainer) end
    local self = setmetatable({ terminal = terminal.is_terminal(0) and terminal.is_terminal(1), failed = failed }, Session)
    self.edits = self.terminal and os.getenv 'TERM' ~= 'dumb' and host.open_line(prompt.history_path())
    if self.terminal and not require 'ppl.trainer'.command.quiet then print(banner(trainer)) end
    while true do
        local line = self:read(self.text and ' >> ' or 'ppl> ')
        if line == nil then break end
        if line == false then
            self.text = nil
        elseif not self.text and (line:match '^%s*exit%s*$' or line:match '^%s*quit%s*$') then
            self.left = true
            break
        else
            self:line(line)
        end
    end
    if self.text then self:fault('prompt: the input ends inside a statement') end
    if self.terminal and not self.left then print() end
    if trainer then trainer:close() end
    return self.failed and not terminal.is_terminal(0) and 1 or 0
end

return prompt
