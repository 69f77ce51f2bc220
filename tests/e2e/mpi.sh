#!/bin/bash
# mpi.sh - training over several processes that mpirun starts: bit-equal to one process, over shared memory and over TCP
# between network namespaces; what goes wrong in one process ends all with its words. Needs the program built with MPI
# (build/release/ppl-mpi). Prints one line a case, last `N passed, N failed, N skipped`.
ppl=$(readlink -f "${PPL:-./ppl}")
several=$(readlink -f "${PPL_MPI:-build/release/ppl-mpi}")
here=$(mktemp -d)
. tests/e2e/lib/check.sh
. tests/e2e/lib/several.sh

check '1f1b over 2 and 4 processes' same '2 4'
check 'gpipe, clipped after the update' same 2 --schedule gpipe --clip after --norm 0.5
check 'zb-h1, clipped after the update' same 2 --schedule zb-h1 --clip after --norm 0.5
check 'interleaved, two stages a rank' same 2 --schedule interleaved
check 'zb-v: the tied embedding in one process' same 2 --schedule zb-v --dtype bf16

# What is printed is what one process prints, times aside, and by process 0 alone.
printed() {
    over 2 || { cat "$here/err"; return 1; }
    [ "$(grep -c 'written to' "$here/out")" -eq 1 ] || { cat "$here/out"; return 1; }
    grep -q '^rank 3  |.*F' "$here/out" || { echo 'no timeline of all ranks'; return 1; }
    "$ppl" "$here/train.lua" --run "$here/alone" >"$here/alone.out" 2>&1 || return 1
    diff <(sed -n '/^sample/,/^$/p' "$here/out") <(sed -n '/^sample/,/^$/p' "$here/alone.out") || return 1
    grep -q 'trace.json' <(ls "$here/several") && grep -c '"tid"' "$here/several/trace.json" >/dev/null
}
check 'tables, timeline and sample of all ranks, once' printed

by_hand() {
    over 3 --by_hand 3 --quiet || { cat "$here/err"; return 1; }
    [ "$(grep -c '^process' "$here/out")" -eq 1 ] || { cat "$here/out"; return 1; }
    "$ppl" "$here/train.lua" --run "$here/hand" --by_hand 3 --quiet >"$here/hand.out" || return 1
    [ "$(sed 's/.*, loss/loss/' "$here/out")" = "$(sed 's/.*, loss/loss/' "$here/hand.out")" ] || { cat "$here/out" "$here/hand.out"; return 1; }
    cmp "$here/hand/checkpoints/step-6.safetensors" "$here/several/checkpoints/step-6.safetensors"
}
check 'a script that steps, reads weights and changes the schedule' by_hand

prompt() {
    printf 'run:step(2).step\nrun:tensor("embed.token.weight").shape\nrun:load("/nowhere")\nrun:step().step\n' >"$here/lines"
    timeout 120 mpirun -q -n 2 "$several" -i "$here/train.lua" --run "$here/prompted" --quiet <"$here/lines" >"$here/out" 2>"$here/err"
    grep -q '^7$' "$here/out" && grep -q '^8$' "$here/out" && [ "$(grep -c nowhere "$here/err")" -eq 1 ] || { cat "$here/out" "$here/err"; return 1; }
}
check 'a prompt whose lines run in every process' prompt

# ---- what goes wrong

check 'more processes than ranks' refused 'run: 5 processes and 4 ranks: a process holds one rank at least' 5
check 'a setting that differs' refused 'process 1 differs from process 0 in its plan, settings or data' 2 --differ 1e-4
check 'a script that fails in one process' refused 'process 1: only in this one' 2 --lone 1
check 'a failing rank in another process' refused 'rank 3, step 0, 3.*fails, as asked for' 2 --device emulated --fault fail --rank 3
check 'a stalling rank in another process' refused 'want one within 1 s: rank 3 at step 0' 4 --device emulated --fault stall --rank 3 --stall 1
check 'a loss that is not finite' refused 'the loss is' 2 --lr 1e30 --clip none --steps 50

check 'a process that is killed' killed
stopped() {
    rm -rf "$here/several"
    over 2 --quiet --steps 1000000 --stall 2 &
    local job=$! process
    begun || return 1
    process=$(processes | tail -n 1)
    kill -STOP "$process"
    wait $job && { echo 'status 0'; return 1; }
    grep -q 'which holds ranks from . on, has not been heard of for 2 s' "$here/err" || { cat "$here/err"; return 1; }
}
check 'a process that is stopped' stopped
interrupted() {
    local -x OMPI_MCA_odls_base_sigkill_timeout=5 # to save; mpirun waits so long after any failure too
    rm -rf "$here/several"
    over 2 --quiet --steps 1000000 &
    local job=$!
    begun || return 1
    kill "-$1" "$(processes mpirun | tail -n 1)"
    wait $job && { echo 'status 0'; return 1; }
    [ "$(grep -c 'interrupted after' "$here/err")" -eq 1 ] || { cat "$here/err"; return 1; }
    ls "$here"/several/checkpoints/*.safetensors >/dev/null
}
check 'Ctrl-C to mpirun: a checkpoint is left' interrupted INT
check 'SIGUSR1 to mpirun: a checkpoint is left' interrupted USR1

without() {
    timeout 60 mpirun -q -n 2 build/release/ppl "$here/train.lua" --run "$here/without" >"$here/out" 2>&1 && return 1
    [ "$(grep -c 'mpirun has started 2 processes, this ppl is built for one, want one built by make MPI=1' "$here/out")" -eq 1 ] || { cat "$here/out"; return 1; }
    one && "$several" "$here/train.lua" --run "$here/lonely" --quiet && cmp "$here/one/checkpoints/step-6.safetensors" "$here/lonely/checkpoints/step-6.safetensors"
}
[ -x build/release/ppl ] && check 'a program without MPI says so, one with MPI works alone' without

if ! command -v ip >/dev/null || ! spaces 4 >"$here/out" 2>&1; then
    skip 'network namespaces' "not permitted here ($(tail -n 1 "$here/out"))"
else
    check '2 processes, each in its own network namespace' apart node0:1,node1:1
    check '4 processes, each in its own network namespace' apart node0:1,node1:1,node2:1,node3:1
fi

total
