-- embedding.lua - rows of a table by id, and GPT's sum of token and position embeddings.
local check = require 'ppl.check'
local fail = require 'ppl.fail'
local layer = require 'ppl.nn.layer'

local keys = check.set('name', 'vocabulary', 'dim', 'std', 'weight')

local function lookup(self, ids)
    return ids:embedding(self:param('weight', { self.vocabulary, self.dim }, { std = self.std }))
end

-- nn.embedding { vocabulary, dim, std = 0.02 }: ids i32 (...) -> (..., dim). weight (vocabulary, dim). Its share in even
-- cuts is 0.
local function embedding(options)
    check.keys('nn.embedding', options, keys)
    return layer.new {
        name = options.name or 'embedding', weight = options.weight or 0, forward = lookup,
        vocabulary = check.integer('nn.embedding: vocabulary', options.vocabulary, 1),
        dim = check.integer('nn.embedding: dim', options.dim, 1),
        std = check.number('nn.embedding: std', options.std, 0, nil, 0.02),
    }
end

-- The first T rows of weight (context, dim), added to x (B, T, dim).
local function add_position(self, x)
    local length = x.shape[2]
    if length > self.context then fail('nn.position: %d positions, want %d at most', length, self.context) end
    local w = self:param('weight', { self.context, self.dim }, { std = self.std })
    if length < self.context then w = w:slice(0, 0, length) end
    return x + w
end

-- nn.position { context, dim, std = 0.02 }: learned positions, x (B, T, dim) -> x + weight[0 .. T - 1].
local function position(options)
    check.keys('nn.position', options, check.set('name', 'context', 'dim', 'std', 'weight'))
    return layer.new {
        name = options.name or 'position', weight = options.weight or 0, forward = add_position,
        context = check.integer('nn.position: context', options.context, 1),
        dim = check.integer('nn.position: dim', options.dim, 1),
        std = check.number('nn.position: std', options.std, 0, nil, 0.02),
    }
end

return { embedding = embedding, position = position }
