-- looped-bfs.lua - breadth first over looping stages: Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism", arXiv
-- 2211.05953. A chunk runs all microbatches before the next chunk begins, so that its weights are needed once a direction.
local ppl = require 'ppl'

return ppl.schedule {
    name = 'looped-bfs',
    paper = 'Lamy-Poirier 2023, arXiv 2211.05953',
    doc = 'GPipe over several chunks a rank, chunk after chunk: interleaving\'s bubble with all activations kept',
    options = { chunks = 2 },
    placement = 'loop',
    rank = function(s)
        for chunk = 0, s.chunks - 1 do
            for mb = 0, s.microbatches - 1 do s.F(mb, chunk) end
        end
        for chunk = s.chunks - 1, 0, -1 do
            for mb = 0, s.microbatches - 1 do s.B(mb, chunk) end
        end
    end,
    -- A microbatch comes round to rank 0 after p stages: with fewer than p, each further chunk waits for it.
    bubble = function(p, m, c, o) return (p - 1 + (o.chunks - 1) * math.max(0, p - m)) * (c.f + c.i + c.w) end,
    memory = function(_, m, _, o) return m * o.chunks end,
}
