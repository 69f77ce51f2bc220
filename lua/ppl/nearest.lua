-- nearest.lua - the known name that a misspelt one most likely meant.
local nearest = {}

-- Edit distance of two texts: insertions, deletions, replacements and exchanges of neighbours count 1.
function nearest.distance(a, b)
    local before, row = {}, {}
    for j = 0, #b do row[j] = j end
    for i = 1, #a do
        local former = row
        row = { [0] = i }
        for j = 1, #b do
            local same = a:byte(i) == b:byte(j)
            local best = math.min(former[j] + 1, row[j - 1] + 1, former[j - 1] + (same and 0 or 1))
            if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
                best = math.min(best, before[j - 2] + 1)
            end
            row[j] = best
        end
        before = former
    end
    return row[#b]
end

-- The closest of `names`, the first in the alphabet among equals; nil if none is close enough to be meant: a third of the
-- longer one's letters (one at least, not all) may differ, or one is the beginning of the other.
function nearest.find(name, names)
    local sorted = {}
    for i, n in ipairs(names) do sorted[i] = n end
    table.sort(sorted)
    local best, best_distance
    for _, candidate in ipairs(sorted) do
        local distance = nearest.distance(name:lower(), candidate:lower())
        if not best_distance or distance < best_distance then best, best_distance = candidate, distance end
    end
    local longer = best and math.max(#best, #name)
    if best and best_distance <= math.max(1, math.floor(longer / 3)) and best_distance < longer then
        return best
    end
    for _, candidate in ipairs(sorted) do
        if #name >= 3 and (candidate:sub(1, #name) == name or name:sub(1, #candidate) == candidate) then return candidate end
    end
    return nil
end

-- " (nearest: lr)", or ''.
function nearest.hint(name, names)
    local found = nearest.find(name, names)
    return found and (' (nearest: %s)'):format(found) or ''
end

-- The keys of a table, sorted.
function nearest.keys(t)
    local list = {}
    for key in pairs(t) do list[#list + 1] = tostring(key) end
    table.sort(list)
    return list
end

return nearest
