-- sequential.lua - layers one after the other: the place where cuts may lie. What a layer returns, a tensor or a table of
-- tensors, the next one takes.
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local layer = require 'ppl.nn.layer'

-- Scopes of the items: an item's own name if no other has it, else name.0, name.1, ...
local function item_names(items)
    local total, seen, names = {}, {}, {}
    for _, item in ipairs(items) do total[item.name] = (total[item.name] or 0) + 1 end
    for i, item in ipairs(items) do
        local nth = seen[item.name] or 0
        seen[item.name] = nth + 1
        names[i] = total[item.name] == 1 and item.name or ('%s.%d'):format(item.name, nth)
    end
    return names
end

local function forward(self, x, ctx)
    local spine = ctx.spine
    for i, item in ipairs(self.items) do
        local nested = item.items ~= nil
        if spine and not nested then ctx:begin_layer(ctx:path(self.item_names[i]), item.weight) end
        ctx.spine = spine and nested
        x = ctx:run(not item.flat and self.item_names[i] or nil, item, x)
    end
    ctx.spine = spine
    return x
end

-- nn.sequential { layer, layer, ..., name = 'sequential' }. A sequential inside of one takes part in cutting, layers inside
-- any other layer do not.
local function sequential(options)
    check.table('nn.sequential', options)
    local items = {}
    for i, item in ipairs(options) do
        if not layer.is(item) then fail('nn.sequential: item %d is %s, want a layer', i - 1, check.show(item)) end
        items[i] = item
    end
    if #items == 0 then fail('nn.sequential: has no layers, want at least 1') end
    for key in pairs(options) do
        if type(key) ~= 'number' and key ~= 'name' then fail('nn.sequential: unknown option %s, want layers and name', check.show(key)) end
    end
    local weight = 0
    for _, item in ipairs(items) do weight = weight + item.weight end
    return layer.new { name = options.name or 'sequential', weight = weight, forward = forward, items = items,
        item_names = item_names(items) }
end

return { sequential = sequential }
