-- torch_test.lua - a tiny GPT and a tiny Llama train like PyTorch's: same weights (from a safetensors file), same tokens,
-- clipping, weight decay, warm-up, tied embeddings. tests/reference/losses.json holds PyTorch's losses, and
-- tests/reference/reference.py made them; `number` and `token` below are its formulas.
local ppl = require 'ppl'
local yaml = require 'ppl.yaml'

local function key(name)
    local h = 0
    for i = 1, #name do h = (h * 31 + name:byte(i)) % 65521 end
    return h
end

local function number(name, i, scale)
    return ((i * 40503 + key(name) * 2531 + math.floor(i / 8) * 977) % 65536 - 32768) / 32768 * scale
end

local function token(i) return (i * 7 + math.floor(i / 5) * 3 + i * i % 3) % 29 end

-- An f32 that is exact, as its four bytes.
local function f32(x)
    if x == 0 then return '\0\0\0\0' end
    local mantissa, exponent = math.frexp(math.abs(x))
    local bits = (mantissa * 2 - 1) * 2 ^ 23
    local top = (x < 0 and 256 or 0) + exponent + 126 -- sign and exponent, 9 bits
    return string.char(bits % 256, math.floor(bits / 256) % 256, top % 2 * 128 + math.floor(bits / 65536), math.floor(top / 2))
end

local function element(name, shape, i)
    if name:find('bias$') then return 0 end
    if #shape == 1 then return 1 end
    return number(name, i, 0.125)
end

-- Writes the initial weights of all parameters of a run.
local function write_weights(path, parameters)
    local entries, bytes, at = {}, {}, 0
    for _, p in ipairs(parameters) do
        local n = 1
        for _, d in ipairs(p.shape) do n = n * d end
        for i = 0, n - 1 do bytes[#bytes + 1] = f32(element(p.name, p.shape, i)) end
        entries[#entries + 1] = ('"%s":{"dtype":"F32","shape":[%s],"data_offsets":[%d,%d]}'):format(p.name,
            table.concat(p.shape, ','), at, at + 4 * n)
        at = at + 4 * n
    end
    local header = '{' .. table.concat(entries, ',') .. '}'
    local length = #header
    local file = assert(io.open(path, 'wb'))
    for _ = 1, 8 do
        file:write(string.char(length % 256))
        length = math.floor(length / 256)
    end
    file:write(header, table.concat(bytes))
    file:close()
end

local function stream(want)
    local context = want.context
    return ppl.data.iterator {
        inputs = { { name = 'tokens', dtype = 'i32', shape = { context } }, { name = 'targets', dtype = 'i32', shape = { context } } },
        next = function(step, batch)
            local tokens, targets = {}, {}
            for b = 1, batch do
                local from = (step * batch + b - 1) * context
                tokens[b], targets[b] = {}, {}
                for t = 1, context do
                    tokens[b][t], targets[b][t] = token(from + t - 1), token(from + t)
                end
            end
            return { tokens = tokens, targets = targets }
        end,
    }
end

local function models(want)
    local common = { layers = want.layers, dim = want.dim, heads = want.heads, context = want.context, vocabulary = want.vocab }
    local llama = { kv_heads = want.kv_heads, hidden = want.hidden }
    for name, value in pairs(common) do llama[name] = value end
    return { gpt = ppl.nn.gpt(common), llama = ppl.nn.llama(llama) }
end

local function trainer(want, model, dtype, stages, clip)
    local o = want.optimizer
    return ppl.trainer {
        model = model, loss = ppl.nn.cross_entropy(), data = stream(want), batch = want.batch, dtype = dtype, steps = want.steps,
        pipeline = { stages = stages, microbatches = 4, schedule = '1f1b', threads = 1 },
        optimizer = ppl.adamw { lr = o.lr, min_lr = o.min_lr, warmup = o.warmup, decay = 'cosine', betas = { o.beta1, o.beta2 },
            eps = o.eps, weight_decay = o.weight_decay, clip = { mode = clip, norm = o.clip } },
    }
end

return function(T)
    local want = yaml.value(yaml.open('tests/reference/losses.json'))
    local function close(got, wanted, tolerance, what, step)
        local apart = math.abs(got - wanted) / math.abs(wanted)
        T.truthy(apart <= tolerance, ('step %d: %s %.9g, PyTorch %.9g: %.2g apart'):format(step, what, got, wanted, apart))
    end
    for _, name in ipairs { 'gpt', 'llama' } do
        for _, dtype in ipairs { 'f32', 'bf16' } do
            for _, stages in ipairs { 1, 4 } do
                T.case(('torch: %s in %s on %d stages trains like PyTorch'):format(name, dtype, stages), function()
                    local run = trainer(want, models(want)[name], dtype, stages, stages == 1 and 'before' or 'after')
                    local path = os.tmpname()
                    write_weights(path, run:parameter_list())
                    run:load(path)
                    os.remove(path)
                    local reference = want[name .. '_' .. dtype]
                    for step = 1, want.steps do
                        local record = run:step(1)
                        close(record.loss, reference.loss[step], dtype == 'f32' and 1e-5 or 1e-2, 'loss', step - 1)
                        if dtype == 'f32' then close(record.grad_norm, reference.grad_norm[step], 1e-3, 'gradient norm', step - 1) end
                    end
                    run:close()
                end)
            end
        end
    end
end
