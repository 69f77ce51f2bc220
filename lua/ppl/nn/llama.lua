-- llama.lua - Llama's shape (Touvron et al. 2023): rms norms first, rotary positions, grouped queries, swiglu, a head of
-- its own, no biases. Weights start as GPT-2's do (gpt.lua).
local attention = require 'ppl.nn.attention'.attention
local block = require 'ppl.nn.block'.block
local check = require 'ppl.check'
local embedding = require 'ppl.nn.embedding'
local layer = require 'ppl.nn.layer'
local linear = require 'ppl.nn.linear'.linear
local rmsnorm = require 'ppl.nn.rmsnorm'.rmsnorm
local sequential = require 'ppl.nn.sequential'.sequential
local swiglu = require 'ppl.nn.swiglu'.swiglu

local keys = check.set('layers', 'dim', 'heads', 'kv_heads', 'hidden', 'context', 'vocabulary', 'theta', 'dropout', 'std')

local function embed(self, ids) return self.token(ids) end
local function head(self, x) return self.head(self.norm(x)) end

-- nn.llama { layers, dim, heads, kv_heads = heads, hidden = 8/3 dim rounded up to 32, context, vocabulary = 256,
-- theta = 10000, dropout = 0, std = 0.02 }: tokens i32 (B, T) -> logits (B, T, vocabulary).
local function llama(options)
    check.keys('nn.llama', options, keys)
    local layers = check.integer('nn.llama: layers', options.layers, 1, 1024)
    local dim = check.integer('nn.llama: dim', options.dim, 1)
    local vocabulary = check.integer('nn.llama: vocabulary', options.vocabulary, 1, nil, 256)
    local hidden = check.integer('nn.llama: hidden', options.hidden, 1, nil, math.ceil(dim * 8 / 3 / 32) * 32)
    local p = check.number('nn.llama: dropout', options.dropout, 0, 1, 0)
    local std = check.number('nn.llama: std', options.std, 0, nil, 0.02)
    local out_std = std / math.sqrt(2 * layers)
    local theta = check.number('nn.llama: theta', options.theta, 1, nil, 10000)
    local items = { layer.new {
        name = 'embed', weight = 0, forward = embed,
        token = embedding.embedding { vocabulary = vocabulary, dim = dim, std = std },
    } }
    for i = 0, layers - 1 do
        items[#items + 1] = block {
            name = 'blocks.' .. i, norm1 = rmsnorm(dim), norm2 = rmsnorm(dim),
            attn = attention { dim = dim, heads = options.heads, kv_heads = options.kv_heads, bias = false,
                rope = theta, std = std, out_std = out_std, dropout = p },
            mlp = swiglu { dim = dim, hidden = hidden, std = std, out_std = out_std, dropout = p },
        }
    end
    items[#items + 1] = layer.new {
        name = 'head', flat = true, weight = 0, forward = head, norm = rmsnorm(dim),
        head = linear { inputs = dim, outputs = vocabulary, bias = false, std = std },
    }
    local model = sequential(items)
    model.context, model.vocabulary = check.integer('nn.llama: context', options.context, 1), vocabulary
    return model
end

return { llama = llama }
