#!/bin/bash
# devices.sh - `ppl devices` of a program built over the emulation: GPUs, the paths between them, why one cannot be used.
# Prints one line a case, last `N passed, N failed, N skipped`. Run by make cuda-test, from the top of the tree.
ppl=${PPL:-build/release-emulation/ppl}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
. tests/e2e/lib/check.sh
export PPL_NVML=${PPL_NVML_LIBRARY:-${ppl%/*}/tests/cuda/libnvml.so} PPL_SYS_CLASS=$here/class PPL_EMU_DEVICES=2
unset CUDA_VISIBLE_DEVICES

says() { # WORDS [SETTING...]: of `ppl devices` under these settings
    local words=$1
    shift
    env "$@" "$ppl" devices >"$here/out" 2>&1 || { echo "exit status $?"; cat "$here/out"; return 1; }
    grep -qF -- "$words" "$here/out" || { echo "does not say '$words':"; cat "$here/out"; return 1; }
}
every() { # a GPU's facts
    says 'GPU 1: Emulated GPU, 0.5 of 0.5 GiB free, 132 processors, compute capability 9.0, bus 0000:02:00.0' PPL_EMU_MEMORY=536870912 &&
        says 'built for CUDA 13' && says 'driver 999.00 for CUDA 13' && says 'NCCL 2.'
}
check 'each GPU with its memory, processors and versions' every

paths() {
    says 'NVLink x 18  reached directly' PPL_EMU_NVLINKS=18 && says ' 360' PPL_EMU_NVLINKS=18 &&
        says 'NVLink x 2  ' PPL_EMU_NVLINKS=4 PPL_EMU_NVLINKS_DIRECT=1 &&
        says 'PCIe host bridge  reached directly' && says 'PCIe, two CPUs  through the host' PPL_EMU_ANCESTOR=50 PPL_EMU_PEERS=0 &&
        says ' 16' PPL_EMU_LANES=8 && says 'not known  reached directly' PPL_NVML=/nowhere
}
check 'paths between GPUs: NVLink, the bus, and what is not known' paths

networks() {
    mkdir -p "$here/class/infiniband/mlx5_0/ports/1"
    (cd "$here/class/infiniband/mlx5_0/ports/1" && echo InfiniBand >link_layer && echo '400 Gb/sec' >rate && echo '4: ACTIVE' >state)
    says 'mlx5_0             InfiniBand  up                   50.0'
}
check 'networks' networks

reasons() {
    says 'GPU 0 has compute capability 7.5, want 8.0 or later' PPL_EMU_CAPABILITY=75 &&
        says 'compute mode Prohibited, want Default' PPL_EMU_MODE=2 &&
        says 'want no other process on the GPU' PPL_EMU_MODE=3 &&
        says 'no NVIDIA driver is loaded' PPL_EMU_PROBE=35 && says 'trains on the CPU' PPL_EMU_PROBE=35 &&
        says 'the NVIDIA driver is for CUDA 12.4, want one for 13' PPL_EMU_DRIVER=12040 &&
        says 'CUDA_VISIBLE_DEVICES is "", want it to name some' CUDA_VISIBLE_DEVICES= &&
        says 'want the service nvidia-fabricmanager' PPL_EMU_PROBE=802
}
check 'why a GPU cannot be used, and what to do' reasons

activity() { # whether a GPU's counters can be read
    says 'GPU 0, 1: activity can be read: run:timings() tells' && says 'GPU 1: its activity cannot be read: it is divided (MIG)' PPL_EMU_MIG=1 &&
        says 'compute capability 9.0 (Hopper) or later' PPL_EMU_GPM=0 && says 'Insufficient Permissions (NVML 4), want' PPL_EMU_SAMPLE=4 &&
        says '/nowhere cannot be loaded, want the driver' PPL_NVML=/nowhere && says 'Driver Not Loaded (NVML 9), want a driver' PPL_EMU_INIT=9 || return 1
    "${CC:-cc}" -std=c11 -DPPL_EMU_OLD -shared -fPIC -o "$here/old.so" tests/cuda/nvml.c || return 1
    says 'the driver'"'"'s library has no nvmlGpmQueryDeviceSupport, want a driver of 525' PPL_NVML="$here/old.so" &&
        PPL_EMU_CAPABILITY=75 "$ppl" devices >"$here/out" && ! grep -q activity "$here/out" || { cat "$here/out"; return 1; }
}
check 'whether the activity of a GPU can be read, and why not' activity

busy() { # as training tells it: in the table and as JSON, by rank
    local tiny="--set device=cuda --set model.layers=2 --set model.dim=16 --set model.heads=2 --set train.batch=8 --set sample.tokens=1"
    echo 'while not run:timings().ranks[1].activity_seconds do run:step(8) end print(run:timings())' |
        "$ppl" -i scripts/train_gpt.lua --run "$here/f" $tiny --set train.steps=2 --quiet >"$here/out" 2>&1 || { cat "$here/out"; return 1; }
    grep -q 'GPU  SMs active   warps  tensor cores  memory bandwidth$' "$here/out" && grep -q ' 1 *42.0 % *22.0 % *32.0 % *12.0 %$' "$here/out" &&
        grep -q 'GPUs by their own counters, .* over [0-9.]* s' "$here/out" || { cat "$here/out"; return 1; }
    PPL_EMU_GPM=0 "$ppl" scripts/train_gpt.lua --run "$here/g" $tiny --set train.steps=2 --json >"$here/out" || { cat "$here/out"; return 1; }
    grep -q '"activity_reason": "GPU 1: its activity cannot be read' "$here/out" && ! grep -q sm_active "$here/out" || { cat "$here/out"; return 1; }
    PPL_EMU_GPM=0 "$ppl" scripts/train_gpt.lua --run "$here/h" $tiny --set train.steps=2 >"$here/out" || { cat "$here/out"; return 1; }
    ! grep -q 'SMs active' "$here/out" || { cat "$here/out"; return 1; }
}
check 'how busy GPUs are while they train' busy

json() {
    "$ppl" devices --json >"$here/out" && PPL_EMU_PROBE=35 "$ppl" devices --json >"$here/none" || return 1
    cat >"$here/read.lua" <<'LUA'
local yaml = require 'ppl.yaml'
local function told(path) return yaml.value(yaml.parse('devices', assert(io.open(path)):read '*a')) end
local all, none = told(os.getenv 'TOLD'), told(os.getenv 'NONE')
assert(#all.gpus == 2 and all.gpus[2].bus == '0000:02:00.0' and #all.links == 2 and all.links[1].peer and all.versions.nccl and all.gpus[1].activity)
assert(#none.gpus == 0 and none.no_gpu:find 'driver' and #none.devices == 3)
LUA
    TOLD=$here/out NONE=$here/none "$ppl" "$here/read.lua"
}
check 'all of it as JSON' json

links() { # the table's form, edges of a plan, and an edge that does not work
    "$ppl" devices --links --bytes 100kB --ranks 3 >"$here/out" 2>&1 || { cat "$here/out"; return 1; }
    grep -q '^ *0 *1  0 -> 1  PCIe host bridge  97.7 KiB  NCCL  ' "$here/out" && grep -q '^ *2 *1  0 -> 1 .* a copy ' "$here/out" &&
        grep -q 'for ppl plan: --link latency=[0-9.]*us,bandwidth=[0-9.]*GB/s' "$here/out" || { cat "$here/out"; return 1; }
    [ "$(grep -c 'GPU 0 to GPU 1: PCIe host bridge is made for' "$here/out")" -le 1 ] || { echo 'warned twice'; return 1; }
    PPL_EMU_PEERS=0 "$ppl" devices --links --bytes 1kB >"$here/out" && grep -q 'warning: GPU 0 to GPU 1: neither reaches' "$here/out" || return 1
    PPL_EMU_DEVICES=1 "$ppl" devices --links --json >"$here/out" && grep -q '"errors": \[\]' "$here/out" &&
        grep -q '"way": "an event"' "$here/out" || { cat "$here/out"; return 1; }
    PPL_EMU_NCCL=21803 "$ppl" devices --links --bytes 1kB >"$here/out" && { echo 'too old an NCCL is no failure'; return 1; }
    grep -q 'failed: link nccl: the library is 2.18.3' "$here/out" && grep -q '^ *0 .* a copy  *[0-9]' "$here/out" || { cat "$here/out"; return 1; }
    PPL_EMU_PROBE=35 "$ppl" devices --links --device cuda >"$here/out" 2>&1
    [ $? = 1 ] && grep -q 'no NVIDIA driver' "$here/out" || { cat "$here/out"; return 1; }
}
check 'links measured, with warnings and failures' links

script_links() { # of a training script, on the GPU that its ranks share
    PPL_EMU_DEVICES=1 "$ppl" devices --links scripts/train_gpt.lua --set device=cuda --set model.layers=1 --set model.dim=16 \
        --set model.heads=1 --set train.batch=4 >"$here/out" 2>&1 || { cat "$here/out"; return 1; }
    grep -q 'links of scripts/train_gpt.lua, device cuda' "$here/out" && grep -q '^ *1 *0  0 -> 0  the same GPU .* an event ' "$here/out" || { cat "$here/out"; return 1; }
}
check 'links of a training script' script_links

attention() { # who serves it: told, explained, refused
    local tiny="--set model.layers=1 --set model.dim=24 --set model.heads=2 --set train.steps=2 --set train.batch=4 --set sample.tokens=1"
    says 'attention: own kernels' PPL_CUDA_ATTENTION=own && says "PPL_CUDA_ATTENTION is 'x', want own, cudnn or" PPL_CUDA_ATTENTION=x || return 1
    PPL_CUDA_ATTENTION=x "$ppl" scripts/train_gpt.lua --run "$here/d" --set device=cuda $tiny >"$here/out" 2>&1
    [ $? = 1 ] && grep -q "PPL_CUDA_ATTENTION is 'x', want own" "$here/out" || { cat "$here/out"; return 1; }
    scripts/cudnn_include >/dev/null 2>&1 || return 0
    says 'attention: cuDNN 9.' || return 1
    echo 'print(run:explain { measure = false })' |
        "$ppl" -i scripts/train_gpt.lua --run "$here/e" --set device=cuda --set train.dtype=bf16 $tiny >"$here/out" 2>&1
    grep -q '2 heads of 12: own kernels: cuDNN .* takes heads of a multiple of 8' "$here/out" || { cat "$here/out"; return 1; }
}
check 'attention: by cuDNN or own kernels, and why' attention

trains() { # the same words from training; and on the CPU the same program trains
    local tiny="--set model.layers=1 --set model.dim=16 --set model.heads=1 --set train.steps=2 --set train.batch=4 --set sample.tokens=1"
    PPL_EMU_PROBE=35 "$ppl" scripts/train_gpt.lua --run "$here/a" --set device=cuda $tiny >"$here/out" 2>&1
    [ $? = 1 ] && grep -q 'there is no GPU: no NVIDIA driver is loaded, want one for CUDA' "$here/out" || { cat "$here/out"; return 1; }
    PPL_EMU_CAPABILITY=75 "$ppl" scripts/train_gpt.lua --run "$here/b" --set device=cuda $tiny >"$here/out" 2>&1
    [ $? = 1 ] && grep -q 'compute capability 7.5, want 8.0 or later' "$here/out" || { cat "$here/out"; return 1; }
    PPL_EMU_PROBE=35 "$ppl" scripts/train_gpt.lua --run "$here/c" $tiny >"$here/out" 2>&1 || { cat "$here/out"; return 1; }
}
check 'training says so too, and goes on the CPU' trains

refuses() { # what the device cannot do, and memory that is too small, in words with the remedy
    local tiny="--run $here/d --set device=cuda --set model.layers=2 --set train.steps=1 --set train.batch=4 --set sample.tokens=1"
    said() { # WORDS SETTING... COMMAND...
        local words=$1
        shift
        env "$@" >"$here/out" 2>&1
        [ $? = 1 ] && grep -qE -- "$words" "$here/out" || { echo "does not say '$words':"; cat "$here/out"; return 1; }
    }
    said 'attention: heads of 300 numbers, want 256 at most' "$ppl" scripts/train_gpt.lua $tiny --set model.dim=300 --set model.heads=1 &&
        said 'f64 on device cuda, want' "$ppl" scripts/train_gpt.lua $tiny --set train.dtype=f64 &&
        said 'rank [01] asks .* MiB of device cuda 0, the 2 ranks on it .* together, and .* are free, want smaller' PPL_EMU_DEVICES=1 \
            PPL_EMU_MEMORY=209715200 "$ppl" scripts/train_gpt.lua $tiny --set model.dim=512 --set model.heads=4 &&
        said 'rank 0 asks GPU 0 for .* MiB more .* are free, want smaller' PPL_EMU_DEVICES=1 PPL_EMU_FAULT=malloc:1 "$ppl" scripts/train_gpt.lua $tiny
}
check 'what cannot be done on the device is refused with what to do' refuses
total
