-- ppl/init.lua - the library a script requires: `local ppl = require 'ppl'`.
local ppl = {}

local config = require 'ppl.config'
local eager = require 'ppl.eager'
local schedule = require 'ppl.schedule'

-- ppl.config { group = { key = default } } -> the settings in force.
ppl.config = config.declare
-- Layers.
ppl.nn = require 'ppl.nn'
-- Eager tensors: ppl.tensor { { 1, 2 }, { 3, 4 } }, ppl.zeros { 2, 3 }, ppl.randn { 2, 3 }, ppl.concat({ a, b }, dim).
ppl.tensor, ppl.zeros, ppl.randn = eager.tensor, eager.zeros, eager.randn
ppl.concat = require 'ppl.tensor'.concat
-- ppl.schedule { name, rank = function(s) ... end }, ppl.schedule.greedy { name, priority, memory }.
ppl.schedule = schedule
schedule.greedy = require 'ppl.greedy'.new
-- ppl.schedule.weights('pipedream'): 'sync', 'stash' or '2bw', of whatever a trainer takes as its schedule.
schedule.weights = require 'ppl.schedules'.weights
-- Sources of data: ppl.data.text, ppl.data.table, ppl.data.iterator.
ppl.data = require 'ppl.data'
-- Optimizers.
local optim = require 'ppl.optim'
ppl.adamw, ppl.sgd = optim.adamw, optim.sgd
-- ppl.trainer { model, loss, data, pipeline, optimizer, steps, ... }.
ppl.trainer = require 'ppl.trainer'.new
-- Which of the processes started by mpirun this is, from 0, and how many there are: every one runs the whole script.
ppl.process = function() return require 'ppl.capi'.lib.host_process() end
ppl.processes = function() return require 'ppl.capi'.lib.host_processes() end
-- Seconds of a clock that only goes forward, for measuring.
ppl.clock = function() return require 'ppl.capi'.lib.clock() end

return ppl
