"""PyTorch's side of the throughput comparison: the GPT of scripts/bench/gpt.lua, in one process or in two stages.

    torch_gpt.py --stages 1|2 --dtype f32|bf16 [--microbatches M]

Reads step counts from standard input, one a line, and answers each with the seconds those steps took, so that the caller
can alternate between the two programs. Two stages run as two processes of one thread each over gloo, by PyTorch's own
pipelining and its Schedule1F1B.
"""
import argparse
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, CONTEXT, DIM, HEADS, LAYERS, BATCH = 256, 256, 384, 6, 6, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (h.view(b, t, HEADS, DIM // HEADS).transpose(1, 2) for h in self.qkv(self.norm1(x)).split(DIM, dim=2))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, DIM)
        x = x + self.out(a)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCAB, DIM), nn.Parameter(torch.zeros(CONTEXT, DIM))
        nn.init.normal_(self.token.weight, std=0.02)
        nn.init.normal_(self.position, std=0.02)

    def forward(self, tokens):
        return self.token(tokens) + self.position


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, x):
        return self.linear(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().reshape(-1, VOCAB), targets.reshape(-1))


def cast(module, dtype):
    """bf16 with f32 masters, as ppl trains: autocast is PyTorch's way to it."""
    if dtype == torch.float32:
        return module

    class Cast(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = module

        def forward(self, *args):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.inner(*args)

    return Cast()


def optimizer_of(module):
    return torch.optim.AdamW(module.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)


def serve(step):
    for _ in range(2):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        n, begin = int(line), time.perf_counter()
        for _ in range(n):
            step()
        print(time.perf_counter() - begin, flush=True)


def one_process(dtype, microbatches):
    model = cast(nn.Sequential(Embed(), *[Block() for _ in range(LAYERS)], Head()), dtype)
    adam = optimizer_of(model)
    tokens = torch.randint(0, VOCAB, (BATCH, CONTEXT + 1))

    def step():
        adam.zero_grad()
        for part in tokens.chunk(microbatches):
            (loss_of(model(part[:, :-1]), part[:, 1:]) / microbatches).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()

    serve(step)


def stage_process(rank, dtype, microbatches):
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=2)
    half = LAYERS // 2
    parts = [Embed(), *[Block() for _ in range(half)]] if rank == 0 else [*[Block() for _ in range(LAYERS - half)], Head()]
    module = cast(nn.Sequential(*parts), dtype)
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, microbatches, loss_fn=loss_of)
    adam = optimizer_of(module)
    tokens = torch.randint(0, VOCAB, (BATCH, CONTEXT + 1))

    def step():
        adam.zero_grad()
        if rank == 0:
            schedule.step(tokens[:, :-1])
        else:
            schedule.step(target=tokens[:, 1:], losses=[])
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        adam.step()

    if rank == 0:
        def told_step():
            dist.broadcast(torch.ones(1), 0)
            step()
        serve(told_step)
        dist.broadcast(torch.zeros(1), 0)
    else:
        go = torch.zeros(1)
        while True:
            dist.broadcast(go, 0)
            if go.item() == 0:
                break
            step()
    dist.destroy_process_group()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--stages", type=int, default=1)
    a.add_argument("--dtype", default="f32")
    a.add_argument("--microbatches", type=int, default=1)
    a = a.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dtype = dict(f32=torch.float32, bf16=torch.bfloat16)[a.dtype]
    if a.stages == 1:
        return one_process(dtype, a.microbatches)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "29571"), OMP_NUM_THREADS="1")
    peer = torch.multiprocessing.get_context("spawn").Process(target=stage_process, args=(1, dtype, a.microbatches))
    peer.start()
    stage_process(0, dtype, a.microbatches)
    peer.join()


if __name__ == "__main__":
    main()
