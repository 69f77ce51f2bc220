-- run.lua - all Lua tests: `ppl tests/lua/run.lua`, or with --only config, or --collect true. One line a case; the
-- last line is `N passed, N failed, N skipped`; exit status 1 if any failed.
local ppl = require 'ppl'
local support = require 'support'

local FILES = {
    'names', 'config', 'output', 'tensor', 'trace',
    'schedule', 'library', 'greedy', 'broken', 'csv', 'plan', 'links', 'snippets',
    'data', 'trainer', 'chained', 'tell', 'prompt', 'cli', 'devices', 'report',
    'torch', 'learn', 'equal', 'grid', 'mutate',
}

local cfg = ppl.config { only = '', collect = false }
if cfg.collect then -- an aggressive collector: what is not held is gone at once
    collectgarbage('setpause', 0)
    collectgarbage('setstepmul', 10000)
end
for _, name in ipairs(FILES) do
    if cfg.only == '' or cfg.only == name then require(name .. '_test')(support) end
end
support.clean()
print(('%d passed, %d failed, %d skipped'):format(support.passed, support.failed, support.skipped))
return support.failed > 0 and 1 or 0
