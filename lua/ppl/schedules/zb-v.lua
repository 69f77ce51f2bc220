-- zb-v.lua - ZB-V: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 6. Two chunks a rank in a
-- V, so that the first rank has the last stage too and its backwards begin early: no bubble within a rank at 1F1B's memory.
--
-- A rank's list is that of 2p microbatches or more; of fewer, the others' turns are left out.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'zb-v',
    paper = 'Qi et al. 2024, arXiv 2401.10241',
    doc = 'no idle time between a rank\'s first and last action with equal F, I and W, at 1F1B\'s memory, for twice the messages',
    chunks = 2,
    placement = 'v',
    rank = function(s)
        local turns = math.max(s.microbatches, 2 * s.ranks)
        local after = s.ranks - s.rank - 1                      -- ranks behind this one
        local f, i, waiting = { [0] = 0, 0 }, { [0] = 0, 0 }, {} -- next of each chunk; W put off, oldest first
        local function F(chunk)
            if f[chunk] < s.microbatches then s.F(f[chunk], chunk) end
            f[chunk] = f[chunk] + 1
        end
        local function I(chunk)
            if i[chunk] < s.microbatches then s.I(i[chunk], chunk) end
            table.insert(waiting, { i[chunk], chunk })
            i[chunk] = i[chunk] + 1
        end
        local function W()
            local mb, chunk = unpack(table.remove(waiting, 1))
            if mb < s.microbatches then s.W(mb, chunk) end
        end

        -- Forwards until all 2p activations are held.
        for _ = 1, 2 * after do F(0) end
        for _ = 0, s.rank do F(0) F(1) end
        -- From here on each forward has the room that a W has just made.
        for _ = 1, after do I(1) W() F(1) end
        for _ = 1, turns - 2 * s.ranks + s.rank + 1 do I(1) W() F(0) I(0) W() F(1) end
        for _ = 1, after do I(1) W() I(0) W() F(1) end
        -- No forwards are left: what others wait for comes first, W fills the time until the next I.
        for _ = 0, s.rank do I(1) I(0) end
        for _ = 1, after do W() I(0) end
        while waiting[1] do W() end
    end,
    bubble = function(p, m, c)
        if m < 2 * p or c.f ~= c.i or c.i ~= c.w then return nil end
        return (p - 1) * c.f
    end,
    span = function(p, m, c)
        if m < 2 * p or c.f ~= c.i or c.i ~= c.w then return nil end
        return 0
    end,
    memory = function(p, m) return 2 * math.min(p, m), m < 2 * p and 'at most' or nil end,
    max_live = function(p, m) return 2 * math.min(p, m) end,
}
