-- prompt.lua - a prompt: expressions print their value, statements run, `run` is the trainer. Globals may be set here.
local capi = require 'ppl.capi'
local fail = require 'ppl.fail'
local strict = require 'ppl.strict'
local terminal = require 'ppl.terminal'

local prompt = {}

-- The function of a line, first as an expression; more: the line is the beginning of a longer statement.
local function compile(text)
    local chunk = loadstring('return ' .. text, '=prompt')
    if chunk then return chunk end
    local words
    chunk, words = loadstring(text, '=prompt')
    if chunk then return chunk end
    return nil, words, words:match("near '?<eof>'?") ~= nil
end

local function show(ok, ...)
    if not ok then
        io.stdout:flush()
        io.stderr:write(tostring((...)), '\n')
        return
    end
    for i = 1, select('#', ...) do
        local value = select(i, ...)
        if value ~= nil or select('#', ...) > 1 then print(tostring(value)) end
    end
end

local function read(text)
    io.stdout:write(terminal.is_terminal(0) and (text and '>> ' or 'ppl> ') or '')
    io.stdout:flush()
    return io.read '*l'
end

-- Reads and runs lines to the end of input or `exit`. trainer: what `run` is, nil at a bare prompt.
function prompt.run(trainer)
    strict.allow_globals(true)
    rawset(_G, 'ppl', require 'ppl')
    if trainer then rawset(_G, 'run', trainer) end
    if terminal.is_terminal(0) then
        print(trainer and tostring(trainer) .. '\n`run` is the trainer; exit or Ctrl-D leaves'
            or 'ppl prompt: `ppl` is the library; exit or Ctrl-D leaves')
    end
    local text
    while true do
        local line = read(text)
        if not line or (not text and line:match '^%s*exit%s*$') then break end
        text = text and text .. '\n' .. line or line
        local chunk, words, more = compile(text)
        if chunk then
            show(xpcall(chunk, fail.keep_stack))
            capi.lib.host_interrupted()
            text = nil
        elseif not more then
            io.stderr:write(words, '\n')
            text = nil
        end
    end
    if terminal.is_terminal(0) then print() end
    if trainer then trainer:close() end
    return 0
end

return prompt
