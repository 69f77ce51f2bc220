-- yaml.lua - YAML (and with it JSON) files as Lua tables that remember their lines, and tables as YAML text. Reading is
-- libyaml's through the engine.
local capi = require 'ppl.capi'
local json = require 'ppl.json'

local lib = capi.lib
local yaml = {}

-- Nodes as a tree: { kind = 'scalar' | 'mapping' | 'sequence', line, key, text, quoted, children }.
local KINDS = { [0] = 'scalar', 'mapping', 'sequence' }

local function tree(document)
    local nodes = {}
    local raw = capi.new('ppl_yaml_node')
    for i = 0, lib.yaml_nodes(document) - 1 do
        lib.yaml_get(document, i, raw)
        local node = {
            kind = KINDS[raw.kind], line = raw.line, key = capi.string(raw.key), text = capi.string(raw.text),
            quoted = raw.quoted ~= 0, children = {},
        }
        nodes[i] = node
        if raw.parent >= 0 then table.insert(nodes[raw.parent].children, node) end
    end
    return nodes[0]
end

-- The root node of a file; nil where the file is empty.
function yaml.open(path)
    local out = capi.new('ppl_yaml *[1]')
    lib.yaml_open(path, out)
    local handle = capi.handle('yaml', out[0], 'yaml_close')
    local root = tree(handle:get())
    handle:close()
    return root
end

-- The root node of a text; name: what errors call it.
function yaml.parse(name, text)
    local out = capi.new('ppl_yaml *[1]')
    lib.yaml_parse(name, text, #text, out)
    local handle = capi.handle('yaml', out[0], 'yaml_close')
    local root = tree(handle:get())
    handle:close()
    return root
end

-- A node as plain Lua values: numbers and booleans where a scalar is unquoted and reads as one.
function yaml.value(node)
    if not node then return nil end
    if node.kind == 'scalar' then
        if node.quoted then return node.text end
        if node.text == 'true' or node.text == 'false' then return node.text == 'true' end
        if node.text == 'null' or node.text == '~' or node.text == '' then return nil end
        return tonumber(node.text) or node.text
    end
    local result = {}
    for i, child in ipairs(node.children) do result[child.key or i] = yaml.value(child) end
    return result
end

-- ---- writing

local function scalar(value)
    if type(value) ~= 'string' then
        if type(value) == 'number' then return json.number(value) end
        return tostring(value)
    end
    local plain = value:match('^[%a_][%w_%-./]*$') and not ({ ['true'] = 1, ['false'] = 1, ['null'] = 1, yes = 1, no = 1,
        on = 1, off = 1, y = 1, n = 1 })[value:lower()]
    if plain then return value end
    local escaped = value:gsub('[%z\1-\31\127"\\]', function(c)
        return c == '"' and '\\"' or c == '\\' and '\\\\' or ('\\x%02x'):format(c:byte())
    end)
    return '"' .. escaped .. '"'
end

local function write(lines, indent, value)
    local keys = {}
    for key in pairs(value) do keys[#keys + 1] = key end
    table.sort(keys)
    for _, key in ipairs(keys) do
        local item = value[key]
        if type(item) ~= 'table' then
            lines[#lines + 1] = ('%s%s: %s'):format(indent, key, scalar(item))
        elseif item[1] ~= nil or next(item) == nil then
            local list = {}
            for i, element in ipairs(item) do list[i] = scalar(element) end
            lines[#lines + 1] = ('%s%s: [%s]'):format(indent, key, table.concat(list, ', '))
        else
            lines[#lines + 1] = ('%s%s:'):format(indent, key)
            write(lines, indent .. '  ', item)
        end
    end
end

-- A table of tables, lists and scalars as YAML, keys in order.
function yaml.text(value)
    local lines = {}
    write(lines, '', value)
    return table.concat(lines, '\n') .. '\n'
end

return yaml
