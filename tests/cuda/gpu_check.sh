#!/bin/bash
# gpu_check.sh - scripts/gpu_check over the emulation: its table, wrong usage, and that a part that fails is told and stops no
# other. With PPL_TEST_FULL all parts. Prints one line a case, last `N passed, N failed, N skipped`.
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
. tests/e2e/lib/check.sh
export PPL_EMU_DEVICES=2
unset CUDA_VISIBLE_DEVICES PPL_NVML

checks() { # STATUS ARGUMENT...
    local want=$1
    shift
    scripts/gpu_check --emulation --no-build --logs "$here/logs" "$@" >"$here/out" 2>&1
    local status=$?
    [ $status = "$want" ] || { echo "exit status $status, want $want:"; cat "$here/out"; return 1; }
}
has() { # PATTERN...
    local pattern
    for pattern in "$@"; do grep -qE -- "$pattern" "$here/out" || { echo "no '$pattern' in"; cat "$here/out"; return 1; }; done
}
lacks() { ! grep -qE -- "$1" "$here/out" || { echo "there is '$1' in"; cat "$here/out"; return 1; }; }

some() {
    checks 0 --only devices,products,nccl,links && has '^gpu_check: .*2 x Emulated GPU' '^devices +GPU 1: Emulated GPU .*ok$' \
        '^products +bf16 dw 192 x 64 x 48 +[0-9.]+ TFLOP/s, error 0.00 of what is allowed +ok$' \
        '^products +f32 ' '^NCCL +one split off it +ok$' '^links +GPU 0 -> 1 by NCCL .* us, [0-9.]+ GB/s +ok$' ', 0 wrong, 0 skipped' &&
        lacks '^(kernels|training|attention)'
}
check 'the table of some parts' some

fails() { # products fail, what comes after them does not
    PPL_EMU_FAULT=matmul:5 checks 1 --only products,nccl && has '^device .*WRONG' '^NCCL +another after an abort +ok' ', 1 wrong, 0 skipped' || return 1
    PPL_EMU_FAULT=nccl:1 checks 1 --only nccl && has '^NCCL +1 MiB to itself.*WRONG: ' || return 1
    PPL_CHECK_SECONDS=1 checks 0 --only nccl && has '^nccl +skipped: the 1 seconds are over' || return 1
    PPL_EMU_CAPABILITY=75 checks 1 --only devices && has '^devices +GPU 0.*WRONG: cannot be used'
}
check 'a part that fails is told and stops no other' fails

usage() {
    checks 2 --nothing && has 'nothing: unknown option' && checks 2 --only foo && has 'foo: no such part, want some of build devices' &&
        PPL_EMU_PROBE=35 checks 1 --only nccl && has 'gpu_check: device cuda: there is no GPU: no NVIDIA driver is loaded' &&
        [ "$(scripts/gpu_check --list | wc -w)" = 12 ] && scripts/gpu_check --help | grep -q -- '--emulation '
}
check 'wrong usage, no GPU, help' usage

whole() {
    checks 0 && has '^kernels .* passed +ok$' '^attention +backward .*ok$' '^(cudnn +backward .*ok|cudnn .*skipped.*)$' '^training +1 stage beside the CPU' \
        '^training +2 stages, zb-h1, beside 1: the same bits' '^training +GPT of .* 4 stages on one GPU ' 'on one GPU: memory +.* planned +ok$' \
        '^training, 2 GPUs +2 stages, 1f1b, beside 1: the same bits' '^memcheck .*skipped' ', 0 wrong, [12] skipped'
}
if [ -n "$PPL_TEST_FULL" ]; then check 'all parts' whole; fi
total
