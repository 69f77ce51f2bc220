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

json() {
    "$ppl" devices --json >"$here/out" && PPL_EMU_PROBE=35 "$ppl" devices --json >"$here/none" || return 1
    cat >"$here/read.lua" <<'LUA'
local yaml = require 'ppl.yaml'
local function told(path) return yaml.value(yaml.parse('devices', assert(io.open(path)):read '*a')) end
local all, none = told(os.getenv 'TOLD'), told(os.getenv 'NONE')
assert(#all.gpus == 2 and all.gpus[2].bus == '0000:02:00.0' and #all.links == 2 and all.links[1].peer and all.versions.nccl)
assert(#none.gpus == 0 and none.no_gpu:find 'driver' and #none.devices == 3)
LUA
    TOLD=$here/out NONE=$here/none "$ppl" "$here/read.lua"
}
check 'all of it as JSON' json

trains() { # the same words from training; and on the CPU the same program trains
    local tiny="--set model.layers=1 --set model.dim=16 --set model.heads=1 --set train.steps=2 --set train.batch=4 --set sample.tokens=1"
    PPL_EMU_PROBE=35 "$ppl" scripts/train_gpt.lua --run "$here/a" --set device=cuda $tiny >"$here/out" 2>&1
    [ $? = 1 ] && grep -q 'there is no GPU: no NVIDIA driver is loaded, want one for CUDA' "$here/out" || { cat "$here/out"; return 1; }
    PPL_EMU_CAPABILITY=75 "$ppl" scripts/train_gpt.lua --run "$here/b" --set device=cuda $tiny >"$here/out" 2>&1
    [ $? = 1 ] && grep -q 'compute capability 7.5, want 8.0 or later' "$here/out" || { cat "$here/out"; return 1; }
    PPL_EMU_PROBE=35 "$ppl" scripts/train_gpt.lua --run "$here/c" $tiny >"$here/out" 2>&1 || { cat "$here/out"; return 1; }
}
check 'training says so too, and goes on the CPU' trains
total
