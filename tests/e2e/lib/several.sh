# several.sh - what tests of several processes share: a small script that trains, mpirun, what must be equal, namespaces. Sourced
# from the top of the tree with $ppl (one process), $several (built with MPI), $here (a folder to work in) and, where other
# settings are to hold, `usual` (an array of options).
usual=("${usual[@]}")
last=step-6 # the checkpoint at the end
bridge=pplbr$$
leave() {
    for ((i = 0; i < 4; i++)); do ip netns del "ppl$$-$i"; done 2>/dev/null
    ip link del $bridge 2>/dev/null
    rm -rf "$here"
}
trap leave EXIT
if ! command -v mpirun >/dev/null || [ ! -x "$several" ]; then
    echo 'skipped: mpi: want mpirun and a program built with MPI=1'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
# As root, with more processes than cores, without ssh: as in a container.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_plm_rsh_agent=false

cat >"$here/train.lua" <<'LUA'
local ppl = require 'ppl'
local nn = ppl.nn
local cfg = ppl.config {
    model = { layers = 4, dim = 32, context = 32, dropout = 0.1, tied = true }, schedule = '1f1b', stages = 4, clip = 'before', norm = 1.0,
    dtype = 'f32', steps = 6, lr = 3e-3, differ = 0, device = 'cpu', fault = '', rank = 0, stall = 30, lone = -1, by_hand = 0,
}
local me = ppl.process()
if me == cfg.lone then error('only in this one', 0) end
local run = ppl.trainer {
    model = nn.gpt { layers = cfg.model.layers, dim = cfg.model.dim, heads = 4, context = cfg.model.context,
        dropout = cfg.model.dropout, tied = cfg.model.tied },
    loss = nn.cross_entropy(),
    data = ppl.data.text { files = { '/usr/share/common-licenses/GPL-3' }, context = cfg.model.context },
    pipeline = { stages = cfg.stages, microbatches = 4, schedule = cfg.schedule, threads = 1 },
    optimizer = ppl.adamw { lr = cfg.lr + (me == 1 and cfg.differ or 0) }, clip = { mode = cfg.clip, norm = cfg.norm },
    steps = cfg.steps, batch = 8, dtype = cfg.dtype, device = cfg.device, stall_seconds = cfg.stall,
    costs = cfg.device == 'emulated' and { f = 1e-3, i = 1e-3, w = 1e-3 } or nil,
    faults = cfg.fault ~= '' and { [cfg.fault] = { rank = cfg.rank, task = 9 } } or {},
    sample = { prompt = 'The ', tokens = 8 },
}
if cfg.by_hand > 0 then -- the same from a script that drives the run itself
    local loss = run:step(cfg.by_hand).loss
    local w = run:tensor 'embed.token.weight'
    print(('process %d of %d, loss %.17g, weight %.17g'):format(ppl.process(), ppl.processes(), loss, w:numbers()[1]))
    run:use_schedule('gpipe')
end
return run
LUA


over() { # N OPTIONS...: trains over N processes into $here/several
    local n=$1
    shift
    rm -rf "$here/several"
    timeout 120 mpirun -q -n "$n" "$several" "$here/train.lua" --run "$here/several" "${usual[@]}" "$@" >"$here/out" 2>"$here/err" </dev/null
}
figures() { sed -E 's/.*"loss": ([^,]*),.*"grad_norm": ([^,]*),.*/\1 \2/' "$1/metrics.jsonl"; }
equal() { # of $here/one and $here/several
    [ "$(figures "$here/one")" = "$(figures "$here/several")" ] || { echo 'losses or norms differ'; return 1; }
    cmp "$here/one/checkpoints/$last.safetensors" "$here/several/checkpoints/$last.safetensors" || return 1
    for f in config.yaml costs.json trace.json; do [ -s "$here/several/$f" ] || { echo "no $f"; return 1; }; done
    [ ! -e "$here/one/plan.csv" ] || cmp "$here/one/plan.csv" "$here/several/plan.csv" # asynchronous plans have none
}
one() {
    rm -rf "$here/one"
    timeout 120 "$ppl" "$here/train.lua" --run "$here/one" --quiet "${usual[@]}" "$@" >"$here/out" 2>&1 || { cat "$here/out"; return 1; }
}
same() { # "2 4" OPTIONS...
    local counts=$1 n
    shift
    one "$@" || return 1
    for n in $counts; do
        over "$n" --quiet "$@" || { echo "over $n processes:" && cat "$here/out" "$here/err"; return 1; }
        equal || return 1
    done
}


# ---- what goes wrong

processes() { # the numbers of the processes that run here, in order of starting; mpirun's with `processes mpirun`
    local want=${1:-$several} f
    for f in /proc/[0-9]*; do
        [ "$(readlink "$f/exe")" = "$(readlink -f "$(command -v "$want")")" ] || continue
        grep -q "$here" "$f/cmdline" && echo "${f#/proc/}"
    done 2>/dev/null | sort -n
}
refused() { # WORDS N OPTIONS...: ends with status 1 and these words, said once
    local words=$1 status
    shift
    over "$@" --quiet
    status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] || { echo "ended with status $status"; return 1; }
    [ "$(grep -c "^ppl: .*$words" "$here/err")" -eq 1 ] || { cat "$here/out" "$here/err"; return 1; }
    [ -z "$(processes)" ] || { echo 'processes are left'; return 1; }
}
begun() { # waits until metrics have been written
    for ((i = 0; i < 300; i++)); do [ -s "$here/several/metrics.jsonl" ] && return 0; sleep 0.1; done
    echo 'no step was done'
    return 1
}
killed() {
    rm -rf "$here/several"
    over 2 --quiet --steps 1000000 --stall 8 &
    local job=$! status
    begun || return 1
    kill -KILL "$(processes | tail -n 1)"
    wait $job
    status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] || { echo "status $status"; return 1; }
    [ -z "$(processes)" ] || { echo 'processes are left'; return 1; }
}

# ---- each process in a network namespace of its own: nothing but TCP between them

spaces() { # N: namespaces on a bridge, and an agent that mpirun takes for ssh
    local n=$1 i
    ip link add $bridge type bridge && ip addr add 10.213.7.1/24 dev $bridge && ip link set $bridge up || return 1
    for ((i = 0; i < n; i++)); do
        ip netns add "ppl$$-$i" && ip link add "v$$-$i" type veth peer name eth0 netns "ppl$$-$i" || return 1
        ip link set "v$$-$i" master $bridge up && ip -n "ppl$$-$i" addr add "10.213.7.$((i + 2))/24" dev eth0 || return 1
        ip -n "ppl$$-$i" link set eth0 up && ip -n "ppl$$-$i" link set lo up || return 1
    done
    cat >"$here/agent" <<AGENT
#!/bin/bash
host=\$1
shift
export PPL_EMU_HOST=\$host
exec ip netns exec "ppl$$-\${host#node}" unshare -u sh -c "hostname \$host; \$*"
AGENT
    chmod +x "$here/agent"
    ip netns exec "ppl$$-0" unshare -u hostname node0
}
apart() {
    one || return 1
    rm -rf "$here/several"
    timeout 120 mpirun -q --mca plm_rsh_agent "$here/agent" --mca plm_rsh_no_tree_spawn 1 --mca plm_rsh_assume_same_shell 1 \
        --mca oob_tcp_if_include 10.213.7.0/24 --mca btl self,tcp --mca btl_tcp_if_include eth0 --host "$1" \
        "$several" "$here/train.lua" --run "$here/several" "${usual[@]}" --quiet >"$here/out" 2>&1 </dev/null || { cat "$here/out"; return 1; }
    equal
}
