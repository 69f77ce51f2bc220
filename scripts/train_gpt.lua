-- train_gpt.lua - trains a small GPT over bytes on two stages and prints a sample. Any text will do: --files a.txt,b.txt.
-- More layers, stages or another schedule: --layers 8 --stages 4 --schedule zb-h1, or pipedream. All settings: --help.
local ppl = require 'ppl'
local nn = ppl.nn

local cfg = ppl.config {
    device = 'cpu',
    model = { layers = 4, dim = 96, heads = 3, context = 64, dropout = 0, tied = true },
    pipeline = { stages = 2, microbatches = 4, schedule = '1f1b', cut = 'even', threads = 0 },
    -- Every Debian system has the licences.
    data = { files = { '/usr/share/common-licenses/GPL-3', '/usr/share/common-licenses/Apache-2.0',
        '/usr/share/common-licenses/MPL-2.0', '/usr/share/common-licenses/GFDL-1.3' }, held_out = 0.05 },
    train = { steps = 800, batch = 16, lr = 4e-3, warmup = 20, decay = 'cosine', weight_decay = 0.1, clip = 1.0, dtype = 'auto',
        seed = 1, eval_every = 200, save_every = 0 },
    sample = { prompt = 'The ', tokens = 300, temperature = 0.7, top_k = 40 },
}
local train, model = cfg.train, cfg.model

-- An asynchronous schedule lets stages run apart, so that they can share neither weights (the head then has its own) nor a norm.
local apart = ppl.schedule.weights(cfg.pipeline.schedule) ~= 'sync'
local clip = train.clip > 0 and { mode = apart and 'stage' or 'before', norm = train.clip } or nil

return ppl.trainer {
    model = nn.gpt { layers = model.layers, dim = model.dim, heads = model.heads, context = model.context,
        dropout = model.dropout, tied = model.tied and not apart },
    loss = nn.cross_entropy(),
    data = ppl.data.text { files = cfg.data.files, held_out = cfg.data.held_out, context = cfg.model.context },
    pipeline = cfg.pipeline,
    optimizer = ppl.adamw { lr = train.lr, warmup = math.min(train.warmup, math.floor(train.steps / 10)), decay = train.decay,
        weight_decay = train.weight_decay, clip = clip },
    device = cfg.device, steps = train.steps, batch = train.batch, dtype = train.dtype, seed = train.seed,
    eval_every = train.eval_every, save_every = train.save_every,
    sample = cfg.sample,
}
