-- attention.lua - causal self-attention: one projection to q, k and v, rotary positions if wanted, one back.
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local layer = require 'ppl.nn.layer'
local linear = require 'ppl.nn.linear'.linear

local keys = check.set('name', 'dim', 'heads', 'kv_heads', 'bias', 'causal', 'rope', 'std', 'out_std', 'dropout')

local function forward(self, x)
    local qkv = self.qkv(x)
    if self.rope then
        qkv = qkv:rope { head_dim = self.head_dim, heads = self.heads + self.kv_heads, theta = self.rope }
    end
    local o = qkv:attention { heads = self.heads, kv_heads = self.kv_heads, causal = self.causal }
    return self.out(o):dropout(self.dropout)
end

-- nn.attention { dim, heads, kv_heads = heads, bias = true, causal = true, rope = theta or nil, dropout = 0,
-- std = 0.02, out_std = std }: x (B, T, dim) -> same. qkv.weight ((heads + 2 kv_heads) D, dim), out.weight (dim, dim).
local function attention(options)
    check.keys('nn.attention', options, keys)
    local dim = check.integer('nn.attention: dim', options.dim, 1)
    local heads = check.integer('nn.attention: heads', options.heads, 1)
    local kv = check.integer('nn.attention: kv_heads', options.kv_heads, 1, heads, heads)
    if dim % heads ~= 0 then fail('nn.attention: %d heads do not divide dim %d, want a divisor', heads, dim) end
    if heads % kv ~= 0 then fail('nn.attention: %d kv_heads do not divide %d heads, want a divisor', kv, heads) end
    local bias = check.boolean('nn.attention: bias', options.bias, true)
    local d = dim / heads
    return layer.new {
        name = options.name or 'attn', forward = forward, heads = heads, kv_heads = kv, head_dim = d,
        causal = check.boolean('nn.attention: causal', options.causal, true),
        rope = options.rope and check.number('nn.attention: rope', options.rope, 1),
        dropout = check.number('nn.attention: dropout', options.dropout, 0, 1, 0),
        qkv = linear { inputs = dim, outputs = (heads + 2 * kv) * d, bias = bias, std = options.std },
        out = linear { inputs = dim, outputs = dim, bias = bias, std = options.out_std or options.std },
    }
end

return { attention = attention }
