-- progress.lua - how training goes: one line that is rewritten on a terminal, plain lines now and then elsewhere.
local capi = require 'ppl.capi'
local tables = require 'ppl.table'
local terminal = require 'ppl.terminal'

local progress = {}
local Progress = {}
Progress.__index = Progress

local PLAIN_SECONDS = 10 -- between two plain lines, at least
local PLAIN_LINES = 20   -- plain lines of a whole run, about

-- options: steps (in all), first (the step to begin with), quiet.
function progress.new(options)
    return setmetatable({
        steps = options.steps, first = options.first, quiet = options.quiet, live = terminal.is_terminal(1),
        begin = capi.lib.clock(), printed_at = -1e9, next_plain = options.first,
    }, Progress)
end

local function figures(x) return x >= 1e4 and ('%.0f'):format(x) or ('%.4g'):format(x) end

-- "12/200 steps  loss 2.3105  12,345 tokens/s  left 0:34  bubble 23 %  lr 3.00e-04  norm 0.81": what matters most stands
-- first, narrow terminals cut the rest.
function Progress:text(record)
    local done = record.step + 1 - self.first
    local left = (capi.lib.clock() - self.begin) / done * (self.steps - record.step - 1)
    return ('%d/%d steps  loss %.4f  %s tokens/s  left %s  bubble %.0f %%  lr %.2e  norm %s'):format(record.step + 1, self.steps,
        record.loss, tables.thousands(math.floor(record.tokens_per_s)), tables.clock(left), record.bubble * 100, record.lr,
        figures(record.grad_norm))
end

-- The newest step's record.
function Progress:update(record)
    if self.quiet then return end
    local last = record.step + 1 >= self.steps
    if self.live then
        local text = self:text(record):sub(1, terminal.width() - 1)
        io.stdout:write('\r\27[K', text)
        io.stdout:flush()
        self.open_line = true
        return
    end
    local now = capi.lib.clock()
    if record.step >= self.next_plain or now - self.printed_at >= PLAIN_SECONDS or last then
        print(self:text(record))
        io.stdout:flush()
        self.printed_at = now
        self.next_plain = record.step + math.max(1, math.floor((self.steps - self.first) / PLAIN_LINES))
    end
end

-- A line of its own between updates.
function Progress:say(text)
    if self.quiet then return end
    if self.open_line then io.stdout:write('\r\27[K') end
    self.open_line = false
    print(text)
    io.stdout:flush()
end

-- Ends the live line.
function Progress:close()
    if self.open_line then io.stdout:write('\n') end
    self.open_line = false
end

return progress
