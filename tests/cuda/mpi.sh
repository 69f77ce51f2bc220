#!/bin/bash
# mpi.sh - training over several processes with GPUs, over the emulated NCCL: bit-equal to one process, whether each rank has a
# GPU or some share one, in network namespaces too; what goes wrong in one process ends all with its words. PPL_TEST_FULL=1: all
# schedules here. Prints one line a case, last `N passed, N failed, N skipped`.
cd "$(dirname "$0")/../.." || exit 1
ppl=$(readlink -f build/release-emulation/ppl)
several=$(readlink -f build/release-emulation/ppl-mpi)
here=$(mktemp -d)
usual=(--device cuda --steps 3 --model.dim 16 --model.context 16)
export PPL_EMU_DEVICES=4
unset CUDA_VISIBLE_DEVICES NCCL_LAUNCH_ORDER_IMPLICIT
. tests/e2e/lib/check.sh
. tests/e2e/lib/several.sh
last=step-3

check 'a GPU a rank, two of four in each process' same 2
shared() { # two ranks of each process on one GPU
    local -x PPL_EMU_DEVICES=2
    same 2 --schedule zb-h1 --clip after --norm 0.5
}
check 'two ranks on each GPU, clipped after the update' shared
if [ "$PPL_TEST_FULL" = 1 ]; then
    for schedule in naive gpipe zb-h2; do
        check "$schedule in bf16 over 2 and 4 processes" same '2 4' --schedule $schedule --dtype bf16
    done
    for schedule in interleaved zb-v looped-bfs; do # two stages a rank
        check "$schedule in bf16 over 2 processes" same 2 --schedule $schedule --dtype bf16
    done
    check 'pipedream over 2 processes' same 2 --schedule pipedream --clip stage --model.tied false
fi

by_hand() {
    over 2 --by_hand 2 --quiet || { cat "$here/err"; return 1; }
    "$ppl" "$here/train.lua" --run "$here/hand" --by_hand 2 "${usual[@]}" --quiet >"$here/hand.out" || return 1
    [ "$(sed 's/.*, loss/loss/' "$here/out")" = "$(sed 's/.*, loss/loss/' "$here/hand.out")" ] || { cat "$here/out" "$here/hand.out"; return 1; }
    cmp "$here/hand/checkpoints/$last.safetensors" "$here/several/checkpoints/$last.safetensors"
}
check 'a script that steps, reads weights and changes the schedule' by_hand

one_gpu() {
    local -x PPL_EMU_DEVICES=1
    refused 'nccl: processes 0 and 1 both use GPU .*, want a GPU for each process' 2
}
check 'fewer GPUs than processes' one_gpu
none() {
    local -x PPL_EMU_PROBE=35
    refused 'no NVIDIA driver is loaded' 2
}
check 'no GPU' none
fault() { # WHAT WORDS: planted in every process
    local -x PPL_EMU_FAULT=$1
    refused "$2" 2 --stall 10
}
check 'a transfer that fails' fault async:30 'a planted asynchronous error'
check 'a transfer that is refused' fault nccl:30 'internal error: a planted error'
check 'a rank that is lost' fault peer:30 'is lost'
check 'a communicator that cannot be made' fault init:1 'nccl: joining all GPUs: unhandled system error'
one_fails() { # the other process hears of it at once
    local status begin=$SECONDS
    rm -rf "$here/several"
    timeout 100 mpirun -q -n 1 "$several" "$here/train.lua" --run "$here/several" "${usual[@]}" --quiet : \
        -n 1 -x PPL_EMU_FAULT=init:1 "$several" "$here/train.lua" --run "$here/several" "${usual[@]}" --quiet >"$here/out" 2>"$here/err" </dev/null
    status=$?
    [ $status -eq 1 ] && [ $((SECONDS - begin)) -lt 60 ] && grep -q 'process 1: nccl: joining all GPUs: unhandled system error' "$here/err" ||
        { echo "status $status after $((SECONDS - begin)) s"; cat "$here/err"; return 1; }
}
check 'a communicator that cannot be made in one process' one_fails
check 'a kernel that dies' fault launch:200 'unspecified launch failure'
check 'a process that is killed' killed

if ! command -v ip >/dev/null || ! spaces 4 >"$here/out" 2>&1; then
    skip 'network namespaces' "not permitted here ($(tail -n 1 "$here/out"))"
else
    check '2 processes, each in its own network namespace' apart node0:1,node1:1
    [ "$PPL_TEST_FULL" = 1 ] && check '4 processes, each in its own network namespace' apart node0:1,node1:1,node2:1,node3:1
fi
total
