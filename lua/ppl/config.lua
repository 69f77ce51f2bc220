-- config.lua - a script's settings: the defaults it declares, overridden by --config FILE.yaml, --set a.b=v and options of
-- the script (--steps 20) in the order of the command line. An unknown key is an error that names its place and the
-- nearest known one; a value must be of its default's type.
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local nearest = require 'ppl.nearest'
local yaml = require 'ppl.yaml'

local config = {}

-- The group of a run's config.yaml that says what the trainer made of the settings; passed over when read.
config.IN_FORCE = 'in_force'
-- Overrides that the command line left for the script: { kind = 'file', path } | { kind = 'set', text } |
-- { kind = 'option', name, value }.
config.pending = {}
-- The values in force, once a script has called ppl.config.
config.current = nil
-- Names of the settings that were overridden, as keys.
config.overridden = {}

local function is_list(value) return type(value) == 'table' and (value[1] ~= nil or next(value) == nil) end

local function type_name(value)
    if is_list(value) then return 'a list' end
    return ({ number = 'a number', string = 'a text', boolean = 'true or false', table = 'a group of settings' })[type(value)]
end

-- ---- defaults

local function copy(where, defaults)
    local result = {}
    for key, value in pairs(defaults) do
        local name = where == '' and tostring(key) or where .. '.' .. tostring(key)
        if type(key) ~= 'string' then fail('ppl.config: %s: a list stands among named settings, want names', name) end
        if is_list(value) then
            result[key] = { unpack(value) }
        elseif type(value) == 'table' then
            result[key] = copy(name, value)
        elseif type(value) == 'number' or type(value) == 'string' or type(value) == 'boolean' then
            result[key] = value
        else
            fail('ppl.config: %s: its default is a %s, want a number, text, boolean, list or group', name, type(value))
        end
    end
    return result
end

-- "a.b" names of all settings below a group, sorted.
local function leaf_names(values, prefix, names)
    names = names or {}
    for key, value in pairs(values) do
        if type(value) == 'table' and not is_list(value) then
            leaf_names(value, prefix .. key .. '.', names)
        else
            names[#names + 1] = prefix .. key
        end
    end
    table.sort(names)
    return names
end

-- ---- values from text

-- A scalar's text as a value of the default's type; nil if it is none.
local function convert(text, quoted, default)
    if type(default) == 'string' then return text end
    if quoted then return nil end
    if type(default) == 'number' then
        local number = tonumber(text)
        return number and number == number and number or nil
    end
    if text == 'true' then return true end
    if text == 'false' then return false end
    return nil
end

local function want(raise, where, name, text, default)
    raise('%s: %s is %s, want %s', where, name, check.show(text), type_name(default))
end

local function list_of(raise, where, name, texts, default)
    local result = {}
    for i, item in ipairs(texts) do
        local kind = default[1] == nil and '' or default[1]
        result[i] = convert(item.text, item.quoted, kind)
        if result[i] == nil then want(raise, where, name, item.text, kind) end
    end
    return result
end

local function from_text(where, name, text, default)
    if is_list(default) then
        local items = {}
        for item in text:gmatch('[^,]+') do items[#items + 1] = { text = item } end
        return list_of(fail.usage, where, name, items, default)
    end
    local value = convert(text, false, default)
    if value == nil then want(fail.usage, where, name, text, default) end
    return value
end

-- ---- overrides

local apply_node

-- Sets one key of a group to a node of a file.
local function apply_key(path, node, name, values)
    local where = ('%s:%d'):format(path, node.line)
    local default = values[node.key]
    if default == nil then
        fail('%s: unknown key %s%s, want one of %s', where, name, nearest.hint(node.key, nearest.keys(values)),
            table.concat(nearest.keys(values), ', '))
    elseif is_list(default) then
        if node.kind ~= 'sequence' then want(fail, where, name, node.text or node.kind, default) end
        for _, item in ipairs(node.children) do
            if item.kind ~= 'scalar' then want(fail, where, name, item.kind, default[1] or '') end
        end
        values[node.key] = list_of(fail, where, name, node.children, default)
        config.overridden[name] = true
    elseif type(default) == 'table' then
        if node.kind ~= 'mapping' then want(fail, where, name, node.text or node.kind, default) end
        apply_node(path, node, default, name .. '.')
    else
        local value
        if node.kind == 'scalar' then value = convert(node.text, node.quoted, default) end
        if value == nil then want(fail, where, name, node.text or node.kind, default) end
        values[node.key] = value
        config.overridden[name] = true
    end
end

function apply_node(path, node, values, prefix)
    for _, child in ipairs(node.children) do
        local name = prefix .. child.key
        if name ~= config.IN_FORCE or values[name] ~= nil then apply_key(path, child, name, values) end
    end
end

local function apply_file(path, values)
    local root = yaml.open(path)
    if not root then return end
    if root.kind ~= 'mapping' then fail('%s:%d: is a %s, want a mapping of settings', path, root.line, root.kind) end
    apply_node(path, root, values, '')
end

-- Sets "a.b" to a text.
local function apply_set(where, name, text, values)
    local group, last = values, nil
    for part in name:gmatch('[^.]+') do
        if last then group = group[last] end
        if type(group) ~= 'table' or is_list(group) or group[part] == nil then
            fail.usage('%s: unknown key %s%s', where, name, nearest.hint(name, leaf_names(values, '')))
        end
        last = part
    end
    if not last then fail.usage('%s: has no key, want a.b=value', where) end
    if type(group[last]) == 'table' and not is_list(group[last]) then
        fail.usage('%s: %s is a group, want one of its settings: %s', where, name, table.concat(nearest.keys(group[last]), ', '))
    end
    group[last] = from_text(where, name, text, group[last])
    config.overridden[name] = true
end

-- The full name of a script option: 'steps' is train.steps if no other setting ends so.
local function full_name(option, values)
    local names, found = leaf_names(values, ''), {}
    for _, name in ipairs(names) do
        if name == option then return name end
        if name:match('[^.]+$') == option then found[#found + 1] = name end
    end
    if #found == 1 then return found[1] end
    if #found > 1 then fail.usage('--%s: could be %s, want one of them', option, table.concat(found, ' or ')) end
    local known = {}
    for i, name in ipairs(names) do known[i] = name:match('[^.]+$') end
    for _, name in ipairs(config.command_options or {}) do known[#known + 1] = name end
    local close = nearest.find(option, known)
    return fail.usage('--%s: unknown option%s; --help lists them', option, close and (' (nearest: --%s)'):format(close) or '')
end

-- The setting of a script option and its default, for the command line: does it take a value?
config.full_name = full_name

local function apply_option(override, values)
    local name = full_name(override.name, values)
    if override.value == nil then fail.usage('--%s: has no value, want --%s VALUE', override.name, override.name) end
    apply_set('--' .. override.name, name, override.value, values)
end

-- ppl.config { group = { key = default } }: the settings with all overrides in force.
function config.declare(defaults)
    check.table('ppl.config', defaults)
    local values = copy('', defaults)
    config.defaults = copy('', defaults)
    config.overridden = {}
    if config.on_declare then config.on_declare(values) end
    for _, override in ipairs(config.pending) do
        if override.kind == 'file' then
            apply_file(override.path, values)
        elseif override.kind == 'set' then
            local name, text = override.text:match('^([^=]+)=(.*)$')
            if not name then
                fail.usage('--set %s: has no %s, want a.b=value', override.text, override.text:sub(1, 1) == '=' and 'key' or '=')
            end
            apply_set('--set', name, text, values)
        else
            apply_option(override, values)
        end
    end
    config.pending = {}
    config.current = values
    return values
end

local function value_of(values, name)
    for part in name:gmatch('[^.]+') do values = values[part] end
    return values
end

-- Whether a setting whose name ends in `last` was overridden; value: by that number, less than its default.
function config.is_overridden(last, value)
    for name in pairs(config.overridden) do
        if name:match('[^.]+$') == last then
            if not value then return true end
            local now, default = value_of(config.current, name), value_of(config.defaults, name)
            if now == value and type(default) == 'number' and now < default then return true end
        end
    end
    return false
end

-- Lines "train.steps  200" of the settings, for --help.
function config.lines(values)
    local lines = {}
    for _, name in ipairs(leaf_names(values, '')) do
        local value = values
        for part in name:gmatch('[^.]+') do value = value[part] end
        if is_list(value) then value = table.concat(value, ',') end
        lines[#lines + 1] = { name, tostring(value) }
    end
    return lines
end

return config
