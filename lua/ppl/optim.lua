-- optim.lua - optimizers and how the learning rate goes: descriptions for ppl.trainer. After: ppl_optimizer_options.
local capi = require 'ppl.capi'
local check = require 'ppl.check'
local fail = require 'ppl.fail'

local optim = {}
local Optimizer = {}
Optimizer.__index = Optimizer

function optim.is(value) return getmetatable(value) == Optimizer end

local decays = { constant = 'PPL_LR_CONSTANT', cosine = 'PPL_LR_COSINE', linear = 'PPL_LR_LINEAR' }
local clips = { none = 'PPL_CLIP_NONE', before = 'PPL_CLIP_BEFORE', after = 'PPL_CLIP_AFTER', stage = 'PPL_CLIP_STAGE' }

-- A clip: a norm (checked before the update), or { mode = 'before' | 'after' | 'stage' | 'none', norm }.
function optim.check_clip(where, clip)
    if clip == nil or clip == false then return { mode = 'none', norm = 0 } end
    if type(clip) == 'number' then clip = { norm = clip } end
    check.keys(where, clip, check.set('mode', 'norm'))
    local mode = check.name(where .. ': mode', clip.mode, clips, 'before')
    local norm = check.number(where .. ': norm', clip.norm, 0, nil, mode == 'none' and 0 or 1)
    if mode ~= 'none' and norm == 0 then fail('%s: norm is 0, want more', where) end
    return { mode = mode, norm = norm }
end

local common = { 'lr', 'min_lr', 'warmup', 'decay', 'weight_decay', 'clip' }

local function build(where, kind, options, own)
    local known = check.set(unpack(common))
    for _, name in ipairs(own) do known[name] = true end
    check.keys(where, options, known)
    return setmetatable({
        kind = kind, lr = check.number(where .. ': lr', options.lr, 0),
        min_lr = check.number(where .. ': min_lr', options.min_lr, 0, nil, 0),
        warmup = check.integer(where .. ': warmup', options.warmup, 0, nil, 0),
        decay = check.name(where .. ': decay', options.decay, decays, 'constant'),
        clip = optim.check_clip(where .. ': clip', options.clip),
    }, Optimizer)
end

-- ppl.adamw { lr, betas = { 0.9, 0.95 }, eps = 1e-8, weight_decay = 0.1, warmup = 0 steps, decay = 'constant' | 'cosine' |
-- 'linear' (to min_lr = 0 at the trainer's last step), clip }: the optimizer AdamW. Loshchilov and Hutter 2019. Weight decay
-- applies to matrices.
function optim.adamw(options)
    local self = build('ppl.adamw', 'PPL_ADAMW', options, { 'betas', 'eps' })
    local betas = check.table('ppl.adamw: betas', options.betas, { 0.9, 0.95 })
    self.beta1 = check.number('ppl.adamw: the first beta', betas[1], 0, 1)
    self.beta2 = check.number('ppl.adamw: the second beta', betas[2], 0, 1)
    self.eps = check.number('ppl.adamw: eps', options.eps, 0, nil, 1e-8)
    self.weight_decay = check.number('ppl.adamw: weight_decay', options.weight_decay, 0, nil, 0.1)
    return self
end

-- ppl.sgd { lr, momentum = 0, weight_decay = 0, warmup, decay, min_lr, clip }: stochastic gradient descent.
function optim.sgd(options)
    local self = build('ppl.sgd', 'PPL_SGD', options, { 'momentum' })
    self.momentum = check.number('ppl.sgd: momentum', options.momentum, 0, 1, 0)
    self.weight_decay = check.number('ppl.sgd: weight_decay', options.weight_decay, 0, nil, 0)
    return self
end

-- The optimizer with a warm-up that ends before a decay to `steps` does.
function optim.clamped(self, steps)
    if self.decay == 'constant' or self.warmup < steps then return self end
    local result = {}
    for key, value in pairs(self) do result[key] = value end
    result.warmup = steps - 1
    return setmetatable(result, Optimizer)
end

-- Fills a ppl_optimizer_options for a run of `steps` steps; clip overrides the optimizer's own.
function optim.fill(raw, self, steps, clip)
    clip = clip or self.clip
    raw.kind, raw.decay = capi.const[self.kind], capi.const[decays[self.decay]]
    raw.lr, raw.min_lr, raw.warmup, raw.steps = self.lr, self.min_lr, self.warmup, steps
    raw.beta1, raw.beta2, raw.eps = self.beta1 or 0.9, self.beta2 or 0.999, self.eps or 1e-8
    raw.weight_decay, raw.momentum = self.weight_decay, self.momentum or 0
    raw.clip, raw.clip_norm = capi.const[clips[clip.mode]], clip.norm
end

return optim
