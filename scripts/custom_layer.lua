-- custom_layer.lua - a layer of one's own, and data from a Lua function: a gated network learns a product. The
-- engine differentiates the layer; its cuts lie between the layers of the sequential.
local ppl = require 'ppl'
local nn = ppl.nn

local cfg = ppl.config {
    model = { dim = 32, layers = 4 },
    pipeline = { stages = 2, microbatches = 4, schedule = '1f1b' },
    train = { steps = 300, batch = 64, lr = 5e-3, seed = 1 },
}

-- x + down(up(x) * silu(gate(x))): sublayers are fields, their parameters get the fields' names; a parameter of the layer's
-- own is asked for where it is used.
local function gated(dim)
    return nn.layer {
        name = 'gated',
        up = nn.linear(dim, 2 * dim), gate = nn.linear(dim, 2 * dim),
        forward = function(self, x)
            local h = self.up(x) * self.gate(x):silu()
            local down = self:param('down', { 2 * dim, dim }, { std = 0.1 })
            return x + h:matmul(down)
        end,
    }
end

local layers = { nn.linear { inputs = 2, outputs = cfg.model.dim, std = 0.5 } }
for _ = 1, cfg.model.layers do layers[#layers + 1] = gated(cfg.model.dim) end
layers[#layers + 1] = nn.linear { inputs = cfg.model.dim, outputs = 1, std = 0.1 }

-- Points in a square; the target is x * y.
local state = cfg.train.seed
local function random()
    state = state * 16807 % 2147483647
    return 2 * state / 2147483647 - 1
end

return ppl.trainer {
    model = nn.sequential(layers),
    loss = nn.mse(),
    data = ppl.data.iterator {
        inputs = { { name = 'x', shape = { 2 } }, { name = 'targets', shape = { 1 } } },
        next = function(_, batch)
            local x, y = {}, {}
            for i = 1, batch do
                x[i] = { random(), random() }
                y[i] = x[i][1] * x[i][2]
            end
            return { x = x, targets = y }
        end,
    },
    pipeline = cfg.pipeline,
    optimizer = ppl.adamw { lr = cfg.train.lr, weight_decay = 0 },
    steps = cfg.train.steps, batch = cfg.train.batch, seed = cfg.train.seed, dtype = 'f32',
}
