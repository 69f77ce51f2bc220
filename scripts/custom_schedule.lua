-- custom_schedule.lua - a schedule of one's own, in a training script: GPipe in groups, "all forwards, all backwards" for a
-- group of microbatches at a time, which bounds memory by the group. `ppl plan scripts/custom_schedule.lua` draws it.
local ppl = require 'ppl'
local nn = ppl.nn

local cfg = ppl.config {
    group = 4,
    model = { layers = 4, dim = 64, heads = 4, context = 64 },
    pipeline = { stages = 2, microbatches = 8 },
    train = { steps = 60, batch = 16, lr = 2e-3 },
}

local grouped = ppl.schedule {
    name = 'grouped-gpipe',
    doc = 'GPipe over groups of microbatches, one group after the other',
    max_live = cfg.group,
    rank = function(s) -- called once for each rank; s.rank, s.ranks, s.microbatches
        for first = 0, s.microbatches - 1, cfg.group do
            local last = math.min(first + cfg.group, s.microbatches) - 1
            for mb = first, last do s.F(mb) end
            for mb = first, last do s.B(mb) end
        end
    end,
}

return ppl.trainer {
    model = nn.gpt(cfg.model),
    loss = nn.cross_entropy(),
    data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = cfg.model.context },
    pipeline = { stages = cfg.pipeline.stages, microbatches = cfg.pipeline.microbatches, schedule = grouped },
    optimizer = ppl.adamw { lr = cfg.train.lr },
    steps = cfg.train.steps, batch = cfg.train.batch,
}
