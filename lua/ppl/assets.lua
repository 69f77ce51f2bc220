-- assets.lua - files of the library that are not Lua, and files that a Debian package holds.
local fail = require 'ppl.fail'
local host = require 'ppl.host'

local assets = {}

-- The text of a file, or nil and why it cannot be read.
function assets.file(path)
    local file, words = io.open(path, 'rb')
    if not file then return nil, words end
    local text
    text, words = file:read('*a') -- nil for a directory
    file:close()
    return text, words
end

-- The text of a file of the library: assets.read 'report/style.css'.
function assets.read(name)
    local text, words = assets.file(host.library .. '/ppl/' .. name)
    return text or fail('%s, want the library whole: make install', words)
end

return assets
