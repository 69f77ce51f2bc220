"""Training throughput of ppl against PyTorch on the same GPT, alternated in one run, as ratios (above 1: ppl is faster).

    compare.py [--rounds N] [--bf16]

The machine may be shared and noisy: both programs stay loaded and take turns, and the ratio is the median over rounds.
"""
import argparse
import os
import statistics
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
top = os.path.dirname(os.path.dirname(here))


class Side:
    def __init__(self, command):
        self.process = subprocess.Popen(command, cwd=top, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=dict(os.environ, OMP_NUM_THREADS="1"))
        line = self.process.stdout.readline().strip()
        if line != "ready":
            sys.exit(f"compare: {' '.join(command)} said '{line}', want 'ready'")

    def seconds(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(stages, microbatches, dtype, rounds):
    torch = Side([sys.executable, os.path.join(here, "torch_gpt.py"), "--stages", str(stages), "--dtype", dtype,
                  "--microbatches", str(microbatches)])
    ppl = Side([os.path.join(top, "ppl"), os.path.join(here, "gpt.lua"), "--set", f"pipeline.stages={stages}",
                "--set", f"pipeline.microbatches={microbatches}", "--set", f"train.dtype={dtype}"])
    ratios = []
    for _ in range(rounds):
        t, p = torch.seconds(1), ppl.seconds(1)
        ratios.append(t / p)
    torch.close()
    ppl.close()
    name = f"{dtype}, {stages} stage{'s' if stages > 1 else ''}, {microbatches} microbatch{'es' if microbatches > 1 else ''}"
    print(f"{name:34s} PyTorch's time / ppl's: median {statistics.median(ratios):5.2f}  (lowest {min(ratios):.2f}, highest {max(ratios):.2f})", flush=True)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--rounds", type=int, default=7)
    a.add_argument("--bf16", action="store_true", help="bf16 too: slow for PyTorch on CPUs without bf16 instructions")
    a = a.parse_args()
    for dtype in ("f32", "bf16") if a.bf16 else ("f32",):
        rounds = a.rounds if dtype == "f32" else 2
        compare(1, 1, dtype, rounds)
        compare(2, 4, dtype, rounds)


if __name__ == "__main__":
    main()
