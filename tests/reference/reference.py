"""Losses of a tiny GPT and a tiny Llama, trained for 20 steps by PyTorch: the values tests/e2e holds ppl against.

    python3 tests/reference/reference.py > tests/reference/losses.json      (needs torch; written with the version it prints)

Weights and tokens come from integer formulas that both sides evaluate exactly, so no binary file has to be kept: see
`number` and `token`. f32 runs in f32; bf16 keeps f32 masters, computes on bf16 copies and gives the loss in f32.
"""
import json
import math
import sys

import torch
import torch.nn.functional as F

STEPS, BATCH, CONTEXT, VOCAB = 20, 8, 16, 64
DIM, LAYERS, HEADS = 32, 4, 4
KV_HEADS, HIDDEN = 2, 88  # of the Llama
OPTIMIZER = dict(lr=0.01, min_lr=0.001, warmup=4, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.1, clip=0.5)


def key(name):
    h = 0
    for c in name.encode():
        h = (h * 31 + c) % 65521
    return h


def number(name, i, scale):
    """Element i of a parameter: a multiple of 2^-15 in [-1, 1) times a power of two, exact in f32."""
    return (((i * 40503 + key(name) * 2531 + (i >> 3) * 977) % 65536) - 32768) / 32768.0 * scale


def token(i):
    """The i-th token of the training text: learnable, but not at once."""
    return (i * 7 + i // 5 * 3 + i * i % 3) % 29


def parameter(name, shape, decays=True):
    n = math.prod(shape)
    if name.endswith("bias"):
        values = [0.0] * n
    elif len(shape) == 1:
        values = [1.0] * n
    else:
        values = [number(name, i, 0.125) for i in range(n)]
    return torch.tensor(values, dtype=torch.float32).reshape(shape).requires_grad_(True)


def shapes_gpt():
    s = {"embed.token.weight": (VOCAB, DIM), "embed.position.weight": (CONTEXT, DIM)}
    for k in range(LAYERS):
        b = f"blocks.{k}."
        for norm in ("norm1", "norm2"):
            s[b + norm + ".weight"] = (DIM,)
            s[b + norm + ".bias"] = (DIM,)
        for name, out, into in (("attn.qkv", 3 * DIM, DIM), ("attn.out", DIM, DIM), ("mlp.up", 4 * DIM, DIM), ("mlp.down", DIM, 4 * DIM)):
            s[b + name + ".weight"] = (out, into)
            s[b + name + ".bias"] = (out,)
    s["norm.weight"] = (DIM,)
    s["norm.bias"] = (DIM,)
    return s


def shapes_llama():
    head = DIM // HEADS
    s = {"embed.token.weight": (VOCAB, DIM)}
    for k in range(LAYERS):
        b = f"blocks.{k}."
        s[b + "norm1.weight"] = (DIM,)
        s[b + "attn.qkv.weight"] = ((HEADS + 2 * KV_HEADS) * head, DIM)
        s[b + "attn.out.weight"] = (DIM, DIM)
        s[b + "norm2.weight"] = (DIM,)
        s[b + "mlp.gate.weight"] = (HIDDEN, DIM)
        s[b + "mlp.up.weight"] = (HIDDEN, DIM)
        s[b + "mlp.down.weight"] = (DIM, HIDDEN)
    s["norm.weight"] = (DIM,)
    s["head.weight"] = (VOCAB, DIM)
    return s


def attention(qkv, heads, kv_heads, rope):
    b, t, _ = qkv.shape
    d = DIM // heads
    q, k, v = qkv.split([heads * d, kv_heads * d, kv_heads * d], dim=2)
    q = q.view(b, t, heads, d).transpose(1, 2)
    k = k.view(b, t, kv_heads, d).transpose(1, 2)
    v = v.view(b, t, kv_heads, d).transpose(1, 2)
    if rope:
        q, k = rotate(q), rotate(k)
    k = k.repeat_interleave(heads // kv_heads, dim=1)
    v = v.repeat_interleave(heads // kv_heads, dim=1)
    o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return o.transpose(1, 2).reshape(b, t, heads * d)


def rotate(x, theta=10000.0):
    t, d = x.shape[-2], x.shape[-1]
    inverse = theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angle = torch.outer(torch.arange(t, dtype=torch.float64), inverse)
    c, s = angle.cos().float(), angle.sin().float()
    a, b = x[..., : d // 2].float(), x[..., d // 2 :].float()
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1).to(x.dtype)


def rms(x, w, eps=1e-5):
    f = x.float()
    return (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + eps) * w.float()).to(x.dtype)


def gpt(p, tokens):
    x = F.embedding(tokens, p["embed.token.weight"]) + p["embed.position.weight"]
    for k in range(LAYERS):
        g = lambda name: p[f"blocks.{k}.{name}"]
        h = F.layer_norm(x, (DIM,), g("norm1.weight"), g("norm1.bias"), 1e-5)
        h = attention(F.linear(h, g("attn.qkv.weight"), g("attn.qkv.bias")), HEADS, HEADS, rope=False)
        x = x + F.linear(h, g("attn.out.weight"), g("attn.out.bias"))
        h = F.layer_norm(x, (DIM,), g("norm2.weight"), g("norm2.bias"), 1e-5)
        h = F.gelu(F.linear(h, g("mlp.up.weight"), g("mlp.up.bias")), approximate="tanh")
        x = x + F.linear(h, g("mlp.down.weight"), g("mlp.down.bias"))
    x = F.layer_norm(x, (DIM,), p["norm.weight"], p["norm.bias"], 1e-5)
    return F.linear(x, p["embed.token.weight"])


def llama(p, tokens):
    x = F.embedding(tokens, p["embed.token.weight"])
    for k in range(LAYERS):
        g = lambda name: p[f"blocks.{k}.{name}"]
        h = attention(F.linear(rms(x, g("norm1.weight")), g("attn.qkv.weight")), HEADS, KV_HEADS, rope=True)
        x = x + F.linear(h, g("attn.out.weight"))
        h = rms(x, g("norm2.weight"))
        x = x + F.linear(F.silu(F.linear(h, g("mlp.gate.weight"))) * F.linear(h, g("mlp.up.weight")), g("mlp.down.weight"))
    return F.linear(rms(x, p["norm.weight"]), p["head.weight"])


def learning_rate(step):
    o = OPTIMIZER
    if step < o["warmup"]:
        return o["lr"] * (step + 1) / o["warmup"]
    along = min(1.0, (step - o["warmup"]) / (STEPS - o["warmup"]))
    return o["min_lr"] + (o["lr"] - o["min_lr"]) * 0.5 * (1 + math.cos(math.pi * along))


def batch(step):
    rows = [[token((step * BATCH + b) * CONTEXT + t) for t in range(CONTEXT + 1)] for b in range(BATCH)]
    x = torch.tensor(rows)
    return x[:, :-1], x[:, 1:]


def train(shapes, model, dtype):
    p = {name: parameter(name, shape) for name, shape in shapes.items()}
    o = OPTIMIZER
    decays = [w for w in p.values() if w.dim() >= 2]
    others = [w for w in p.values() if w.dim() < 2]
    adam = torch.optim.AdamW(
        [dict(params=decays, weight_decay=o["weight_decay"]), dict(params=others, weight_decay=0.0)],
        lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"])
    losses, norms = [], []
    for step in range(STEPS):
        tokens, targets = batch(step)
        for group in adam.param_groups:
            group["lr"] = learning_rate(step)
        logits = model({name: w.to(dtype) for name, w in p.items()}, tokens)
        loss = F.cross_entropy(logits.float().reshape(-1, VOCAB), targets.reshape(-1))
        adam.zero_grad()
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(list(p.values()), o["clip"])))
        adam.step()
        losses.append(float(loss.detach()))
    return dict(loss=losses, grad_norm=norms)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    out = dict(made_by="tests/reference/reference.py", torch=torch.__version__, steps=STEPS, batch=BATCH, context=CONTEXT, vocab=VOCAB,
               dim=DIM, layers=LAYERS, heads=HEADS, kv_heads=KV_HEADS, hidden=HIDDEN, optimizer=OPTIMIZER)
    for name, shapes, model in (("gpt", shapes_gpt(), gpt), ("llama", shapes_llama(), llama)):
        for dtype in (torch.float32, torch.bfloat16):
            out[f"{name}_{'f32' if dtype == torch.float32 else 'bf16'}"] = train(shapes, model, dtype)
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
