-- train_llama.lua - the same as train_gpt.lua with Llama's shape: rotary positions, grouped queries, swiglu, an untied head;
-- weight gradients are moved into the bubble (ZB-H1).
local ppl = require 'ppl'
local nn = ppl.nn

local cfg = ppl.config {
    device = 'cpu',
    model = { layers = 4, dim = 96, heads = 6, kv_heads = 2, context = 64, theta = 10000 },
    pipeline = { stages = 2, microbatches = 4, schedule = 'zb-h1', cut = 'even' },
    data = { files = { '/usr/share/common-licenses/GPL-3', '/usr/share/common-licenses/Apache-2.0' }, held_out = 0.05 },
    sample = { prompt = 'The ', tokens = 200 },
    train = { steps = 400, batch = 16, lr = 4e-3, clip = 1.0, dtype = 'auto', seed = 1 },
}

return ppl.trainer {
    model = nn.llama(cfg.model),
    loss = nn.cross_entropy(),
    data = ppl.data.text { files = cfg.data.files, held_out = cfg.data.held_out, context = cfg.model.context },
    pipeline = cfg.pipeline,
    optimizer = ppl.adamw { lr = cfg.train.lr, warmup = math.floor(cfg.train.steps / 20), decay = 'cosine', clip = cfg.train.clip },
    device = cfg.device, steps = cfg.train.steps, batch = cfg.train.batch, dtype = cfg.train.dtype, seed = cfg.train.seed,
    sample = cfg.sample,
}
