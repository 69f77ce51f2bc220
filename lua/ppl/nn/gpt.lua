-- gpt.lua - GPT-2's shape (Radford et al. 2019): learned positions, layer norms first, gelu by tanh, head tied to the token
-- embedding. Weights start as GPT-2's: normal 0.02, the projections that end a residual branch by 1 / sqrt(2 layers).
local attention = require 'ppl.nn.attention'.attention
local block = require 'ppl.nn.block'.block
local check = require 'ppl.check'
local embedding = require 'ppl.nn.embedding'
local layer = require 'ppl.nn.layer'
local layernorm = require 'ppl.nn.layernorm'.layernorm
local linear = require 'ppl.nn.linear'.linear
local mlp = require 'ppl.nn.mlp'.mlp
local sequential = require 'ppl.nn.sequential'.sequential

local keys = check.set('layers', 'dim', 'heads', 'context', 'vocabulary', 'dropout', 'std', 'tied')

local function embed(self, ids) return self.position(self.token(ids)):dropout(self.dropout) end
local function head(self, x) return self.head(self.norm(x)) end

-- nn.gpt { layers, dim, heads, context, vocabulary = 256, dropout = 0, std = 0.02, tied = true }: tokens i32 (B, T) -> logits
-- (B, T, vocabulary). Layers for cuts: embed, blocks.0 .. , head. tied: the head's weights are the token embedding's, which
-- asynchronous schedules cannot train on two stages.
local function gpt(options)
    check.keys('nn.gpt', options, keys)
    local layers = check.integer('nn.gpt: layers', options.layers, 1, 1024)
    local dim = check.integer('nn.gpt: dim', options.dim, 1)
    local vocabulary = check.integer('nn.gpt: vocabulary', options.vocabulary, 1, nil, 256)
    local context = check.integer('nn.gpt: context', options.context, 1)
    local p = check.number('nn.gpt: dropout', options.dropout, 0, 1, 0)
    local std = check.number('nn.gpt: std', options.std, 0, nil, 0.02)
    local tied = check.boolean('nn.gpt: tied', options.tied, true)
    local out_std = std / math.sqrt(2 * layers)
    local items = { layer.new {
        name = 'embed', weight = 0, forward = embed, dropout = p,
        token = embedding.embedding { vocabulary = vocabulary, dim = dim, std = std },
        position = embedding.position { context = context, dim = dim, std = std },
    } }
    for i = 0, layers - 1 do
        items[#items + 1] = block {
            name = 'blocks.' .. i, norm1 = layernorm(dim), norm2 = layernorm(dim),
            attn = attention { dim = dim, heads = options.heads, std = std, out_std = out_std, dropout = p },
            mlp = mlp { dim = dim, std = std, out_std = out_std, dropout = p },
        }
    end
    items[#items + 1] = layer.new {
        name = 'head', flat = true, weight = 0, forward = head, norm = layernorm(dim),
        head = linear { inputs = dim, outputs = vocabulary, bias = false, std = std,
            tie = tied and 'embed.token.weight' or nil },
    }
    local model = sequential(items)
    model.context, model.vocabulary = context, vocabulary
    return model
end

return { gpt = gpt }
