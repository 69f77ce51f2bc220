-- dualpipe-v.lua - DualPipeV: DualPipe of DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", arXiv 2412.19437, cut in half: one
-- V of 2p stages instead of two pipelines in opposite directions. All through the middle a forward runs beside a backward of
-- the other chunk, so that the communication of one hides behind the computing of the other.
--
-- A rank's list is that of 2p microbatches or more; of fewer, the others' turns are left out.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'dualpipe-v',
    paper = 'DeepSeek-AI 2024, arXiv 2412.19437',
    doc = 'a forward beside a backward of the other chunk, in a V of 2p stages',
    chunks = 2,
    placement = 'v',
    rank = function(s)
        local turns = math.max(s.microbatches, 2 * s.ranks)
        local after = s.ranks - s.rank - 1                      -- ranks behind this one
        local f, b, waiting = { [0] = 0, 0 }, { [0] = 0, 0 }, {} -- next of each chunk; W put off, oldest first
        local function F(chunk)
            f[chunk] = f[chunk] + 1
            return f[chunk] <= s.microbatches and s.F(f[chunk] - 1, chunk)
        end
        local function B(chunk)
            b[chunk] = b[chunk] + 1
            return b[chunk] <= s.microbatches and s.B(b[chunk] - 1, chunk)
        end
        local function both(forward, backward) -- of these chunks
            local first, second = F(forward), B(backward)
            if first and second then s.overlap(first, second) end
        end
        local function I(chunk)
            if b[chunk] < s.microbatches then s.I(b[chunk], chunk) end
            table.insert(waiting, { b[chunk], chunk })
            b[chunk] = b[chunk] + 1
        end
        local function W()
            local mb, chunk = unpack(table.remove(waiting, 1))
            if mb < s.microbatches then s.W(mb, chunk) end
        end

        for _ = 1, 2 * after do F(0) end
        for _ = 0, s.rank do F(0) F(1) end
        for _ = 1, after do I(1) W() F(1) end
        for turn = 1, turns - 2 * s.ranks + s.rank + 1 do
            -- The last rank's first backward of chunk 1 need not wait for a forward.
            if turn == 1 and after == 0 then F(0) B(1) else both(0, 1) end
            both(1, 0)
        end
        for _ = 1, after do B(1) both(1, 0) end
        -- From the middle of these on, W is put off.
        local split = 0
        for _ = 0, s.rank do
            for chunk = 1, 0, -1 do
                if split > s.rank then I(chunk) else B(chunk) end
                split = split + 1
            end
        end
        for _ = 1, after do W() I(0) end
        while waiting[1] do W() end
    end,
    -- With the forward and the backward of a pair one after the other, as a CPU rank runs them, the next rank has what the
    -- first of them gives before the second is done.
    bubble = function(p, m, c)
        if m < 2 * p or c.f ~= c.i or c.i ~= c.w then return nil end
        return (p - 1) * c.f
    end,
    memory = function(p, m) return math.min(2 * p + 1, 2 * m), m < 2 * p + 1 and 'at most' or nil end,
    max_live = function(p, m) return math.min(2 * p + 1, 2 * m) end,
}
