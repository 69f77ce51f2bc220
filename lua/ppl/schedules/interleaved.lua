-- interleaved.lua - interleaved 1F1B: Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on GPU Clusters
-- Using Megatron-LM", SC21, arXiv 2104.04473. A rank owns several chunks and takes them in turn, a group of microbatches at
-- a time.
--
-- The paper's groups are of p microbatches and m is a multiple of p. Here m / p groups, rounded down, share the
-- microbatches as evenly as they can, so that any m will do; a group has p or more, and the pipeline stays full.
local ppl = require 'ppl'

local function groups(p, m) return math.max(1, math.floor(m / p)) end

return ppl.schedule {
    name = 'interleaved',
    paper = 'Narayanan et al. 2021, arXiv 2104.04473',
    doc = '1F1B over several chunks a rank: the bubble divided by the chunks, for more messages and some more memory',
    options = { chunks = 2 },
    placement = 'loop',
    rank = function(s)
        local p, v, m = s.ranks, s.chunks, s.microbatches
        local forwards, backwards, n = {}, {}, groups(p, m)
        for group = 0, n - 1 do
            for chunk = 0, v - 1 do
                for mb = math.floor(group * m / n), math.floor((group + 1) * m / n) - 1 do
                    table.insert(forwards, { mb, chunk })
                    table.insert(backwards, { mb, v - 1 - chunk })
                end
            end
        end
        local function F(k) s.F(unpack(forwards[k])) end
        local function B(k) s.B(unpack(backwards[k])) end

        local warmup = math.min(m * v, 2 * (p - s.rank - 1) + (v - 1) * math.ceil(m / n))
        for k = 1, warmup do F(k) end
        for k = warmup + 1, m * v do
            F(k)
            B(k - warmup)
        end
        for k = m * v - warmup + 1, m * v do B(k) end
    end,
    -- A microbatch comes round to rank 0 after p stages: with fewer than p, each further chunk waits for it.
    bubble = function(p, m, c, o) return (p - 1 + (o.chunks - 1) * math.max(0, p - m)) * (c.f + c.i + c.w) end,
    memory = function(p, m, rank, o)
        return math.min(m * o.chunks, 2 * (p - rank - 1) + (o.chunks - 1) * math.ceil(m / groups(p, m)) + 1)
    end,
    max_live = function(p, m, o)
        return math.min(m * o.chunks, 2 * (p - 1) + (o.chunks - 1) * math.ceil(m / groups(p, m)) + 1)
    end,
}
