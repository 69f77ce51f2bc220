#!/bin/bash
# scripts.sh - the scripts people start from, each for a few steps: they end well, leave a whole run directory, and Ctrl-C
# leaves one too. Prints one line a case, last `N passed, N failed, N skipped`.
ppl=$(readlink -f "${PPL:-./ppl}")
top=$(pwd)
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
. tests/e2e/lib/check.sh
small='--layers 2 --dim 48 --context 32 --batch 4'


# The run directory is complete and has so many lines of metrics.
whole() {
    local run=$1 steps=$2 f
    for f in config.yaml metrics.jsonl ${plan-plan.csv} costs.json summary.json trace.json; do [ -s "$run/$f" ] || { echo "$f is missing or empty"; return 1; }; done
    [ "$(wc -l <"$run/metrics.jsonl")" -eq "$steps" ] || { echo "$(wc -l <"$run/metrics.jsonl") lines of metrics, want $steps"; return 1; }
    grep -q '"peak_bytes"' "$run/metrics.jsonl" || { echo 'metrics lack peak_bytes'; return 1; }
    [ -s "$run/checkpoints/step-$steps.safetensors" ] || { echo 'no checkpoint'; return 1; }
    [ -z "$(find "$run" -name '*.tmp*' -o -name '*~')" ] || { echo 'half-written files'; return 1; }
}

trains() { # NAME STEPS OPTIONS...
    local name=$1 steps=$2
    shift 2
    timeout 120 "$ppl" "$top/scripts/$name.lua" --steps "$steps" --run "$here/$name" "$@" >"$here/out" 2>&1 || { cat "$here/out"; return 1; }
    grep -q 'bubble ratio' "$here/out" || { echo 'no table'; return 1; }
    grep -q '^rank 1  |.*F' "$here/out" || { echo 'no timeline'; return 1; }
    whole "$here/$name" "$steps"
}

again() {
    rm -rf "$here/again"
    timeout 120 "$ppl" "$top/scripts/train_gpt.lua" --config "$here/train_gpt/config.yaml" --run "$here/again" --quiet || return 1
    cut -d, -f1,2 "$here/train_gpt/metrics.jsonl" >"$here/a"
    cut -d, -f1,2 "$here/again/metrics.jsonl" | cmp - "$here/a"
}
check 'train_gpt' trains train_gpt 6 $small --tokens 8
check 'a run repeated from its config.yaml has the same losses' again
for schedule in pipedream pipedream-2bw; do
    apart() {
        rm -rf "$here/train_gpt"
        plan='' trains train_gpt 30 $small --tokens 8 --set "pipeline.schedule=$1" || return 1
        [ ! -e "$here/train_gpt/plan.csv" ] || { echo 'a plan.csv that cannot say the schedule'; return 1; }
        again
    }
    check "train_gpt, $schedule, twice" apart "$schedule"
done
check 'train_llama' trains train_llama 6 $small --tokens 8
check 'custom_schedule' trains custom_schedule 6 --dim 32
check 'custom_layer' trains custom_layer 6
for name in train_gpt custom_layer custom_schedule; do
    planned() { "$ppl" plan "$top/scripts/$1.lua" >"$here/out" 2>&1 && grep -q 'free of deadlock' "$here/out" && grep -q 'workspace' "$here/out" || { cat "$here/out"; return 1; }; }
    check "plan of $name" planned "$name"
done

json() {
    timeout 120 "$ppl" "$top/scripts/train_gpt.lua" $small --steps 3 --tokens 4 --run "$here/json" --json >"$here/out" || return 1
    [ "$(wc -l <"$here/out")" -eq 1 ] || { echo 'want one line'; return 1; }
    for key in loss bubble_ratio bubble_overhead iteration_ms peak_activations sample; do
        grep -q "\"$key\": " "$here/out" || { echo "lacks $key"; return 1; }
    done
}
check 'one JSON object' json
quiet() { timeout 120 "$ppl" "$top/scripts/custom_layer.lua" --steps 2 --run "$here/quiet" --quiet >"$here/out" 2>&1 && [ ! -s "$here/out" ] || { cat "$here/out"; return 1; }; }
check 'quiet' quiet
taken() { "$ppl" "$top/scripts/custom_layer.lua" --steps 2 --run "$here/quiet" >"$here/out" 2>&1; [ $? -eq 1 ] && grep -q 'holds a run already' "$here/out" || { cat "$here/out"; return 1; }; }
check 'a directory that holds a run is refused' taken

interrupted() {
    timeout -s KILL 120 bash -c 'echo $$ >"$0"; exec "$@"' "$here/pid" \
        "$ppl" "$top/scripts/custom_layer.lua" --steps 1000000 --run "$here/int" >"$here/out" 2>"$here/err" &
    local job=$! pid status n
    for n in $(seq 300); do [ -s "$here/int/metrics.jsonl" ] && break; sleep 0.1; done
    pid=$(cat "$here/pid")
    kill -INT "$pid"
    wait $job
    status=$?
    [ $status -eq 1 ] || { echo "exit status $status, want 1"; cat "$here/err"; return 1; }
    grep -q "interrupted after $(wc -l <"$here/int/metrics.jsonl") of 1000000 steps" "$here/err" || { echo 'not said'; cat "$here/err"; return 1; }
    grep -q '^rank 1' "$here/out" || { echo 'no timeline'; return 1; }
    whole "$here/int" "$(wc -l <"$here/int/metrics.jsonl")"
}
check 'Ctrl-C finishes the step, saves and says so' interrupted

total
