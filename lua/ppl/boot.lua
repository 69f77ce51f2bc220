-- boot.lua - the first Lua that runs: makes `require` find the library under names of its own, binds the engine, and
-- hands the arguments to the command line. Before: engine/main.c. After: capi.lua, cli/init.lua.
local library, header, host_header, arguments, host = ...

-- Chunks of the library are called <ppl>/..., whatever folder they lie in: fail.lua tells a script's lines from the
-- library's by that, and so does main.c.
local function load_library(name)
    if name ~= 'ppl' and name:sub(1, 4) ~= 'ppl.' then return nil end
    local stem = name:gsub('%.', '/')
    for _, tail in ipairs { stem .. '.lua', stem .. '/init.lua' } do
        local file = io.open(library .. '/' .. tail, 'rb')
        if file then
            local text = file:read('*a')
            file:close()
            return assert(loadstring(text, '=<ppl>/' .. tail:sub(5)))
        end
    end
    return '\n\tno file of the library for ' .. name
end
table.insert(package.loaders, 2, load_library)
host.library = library
package.loaded['ppl.host'] = host -- functions of main.c that need the interpreter itself

require('ppl.strict').on()
require('ppl.capi').bind(header, host_header)
return require('ppl.cli').main(arguments)
