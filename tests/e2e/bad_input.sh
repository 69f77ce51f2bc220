#!/bin/bash
# bad_input.sh - what a user gets wrong, one process each: the exit status, words that name the place and what is wanted, and
# no file left behind. Prints one line a case, last `N passed, N failed, N skipped`.
ppl=$(readlink -f "${PPL:-./ppl}")
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here" || exit 1
passed=0 failed=0

# A training script with one thing wrong: fields override those of a small trainer.
#   script FILE [model] [data] [pipeline] [rest]
script() {
    local model=${2:-$gpt} data=${3:-$windows} pipeline=${4:-$two} rest=${5:-}
    cat >"$1" <<END
local ppl = require 'ppl'
local nn = ppl.nn
local cfg = ppl.config { model = { layers = 2, dim = 16 }, train = { steps = 2, lr = 1e-3 } }
return ppl.trainer {
    model = $model,
    loss = nn.cross_entropy(),
    data = $data,
    pipeline = $pipeline,
    optimizer = ppl.adamw { lr = cfg.train.lr }, steps = cfg.train.steps, batch = 4, dtype = 'f32', $rest
}
END
}
gpt='nn.gpt { layers = cfg.model.layers, dim = cfg.model.dim, heads = 2, context = 16 }'
windows="ppl.data.text { files = { 'text.txt' }, context = 16 }"
two='{ stages = 2, microbatches = 2 }'

# want NAME STATUS TEXT... -- COMMAND...: runs the command; its stderr holds every text and no traceback; nothing new lies in
# the folder.
want() {
    local name=$1 status=$2 texts=() text before got error bad=""
    shift 2
    while [ "$1" != -- ]; do texts+=("$1"); shift; done
    shift
    before=$(find . | sort)
    timeout 60 "$@" >out.log 2>error.log </dev/null
    got=$?
    error=$(cat error.log)
    [ $got -eq "$status" ] || bad="exit status $got, want $status"
    for text in "${texts[@]}"; do
        grep -qF -- "$text" error.log || bad="$bad; stderr lacks '$text'"
    done
    grep -qE 'stack traceback|<ppl>' error.log && bad="$bad; a traceback"
    rm -f out.log error.log
    [ "$(find . | sort)" = "$before" ] || bad="$bad; left behind: $(comm -13 <(echo "$before") <(find . | sort) | tr '\n' ' ')"
    if [ -z "$bad" ]; then
        echo "ok      $name"
        passed=$((passed + 1))
    else
        printf 'FAILED  %s: %s\n%s\n' "$name" "$bad" "$error"
        failed=$((failed + 1))
    fi
}

for i in $(seq 400); do echo "line $i of a text to learn"; done >text.txt
: >empty.txt
mkdir folder x.lua
echo 'print(1)' >plain.lua
script good.lua

# ---- the command line
want 'missing script' 1 'nowhere.lua' 'no such file' -- "$ppl" nowhere.lua
want 'unknown command' 2 'pln' 'nearest: plan' -- "$ppl" pln
want 'unknown option' 2 '--stpes' 'nearest: --steps' -- "$ppl" good.lua --stpes 3
want 'unknown option of plan' 2 '--microbatch' 'nearest: --microbatches' -- "$ppl" plan 1f1b --microbatch 3
want 'option without value' 2 '--run' 'has no value' -- "$ppl" good.lua --run
want 'script without settings' 2 '--steps' 'declares no settings' -- "$ppl" plain.lua --steps 3
echo 'local x = ' >syntax.lua
want 'Lua syntax error' 1 'syntax.lua:' -- "$ppl" syntax.lua
printf 'local x = 1\nlocal y = x + nil\n' >runtime.lua
want 'Lua error' 1 'runtime.lua:2' 'arithmetic' -- "$ppl" runtime.lua
printf 'local x = 1\nerror({})\n' >table.lua
want 'an error that is a table' 1 'table.lua:2: an error that is a table without words' -- "$ppl" table.lua
printf 'local function f(n)\nreturn 1 + f(n)\nend\nf(1)\n' >deep.lua
want 'recursion without end' 1 'deep.lua:2: stack overflow' -- "$ppl" deep.lua
echo 'print(undefined_name)' >global.lua
want 'unset global' 1 'global.lua:1' 'undefined_name' -- "$ppl" global.lua
want 'folder as script' 1 'x.lua' -- "$ppl" x.lua

# ---- settings
printf 'model:\n  layers: 2\n  dmi: 32\n' >unknown.yaml
want 'unknown key in a file' 1 'unknown.yaml:3' 'model.dmi' 'nearest: dim' -- "$ppl" good.lua --config unknown.yaml
want 'unknown key by --set' 2 '--set' 'model.layrs' 'nearest: model.layers' -- "$ppl" good.lua --set model.layrs=3
printf 'model:\n  layers: [1, 2\ntrain:\n' >broken.yaml
want 'broken YAML' 1 'broken.yaml' '3' -- "$ppl" good.lua --config broken.yaml
want 'missing YAML' 1 'none.yaml' -- "$ppl" good.lua --config none.yaml
printf 'train:\n  steps: many\n' >type.yaml
want 'wrong type in a file' 1 'type.yaml:2' 'train.steps is "many"' 'a number' -- "$ppl" good.lua --config type.yaml
want 'wrong type by --set' 2 'train.steps is "few"' 'a number' -- "$ppl" good.lua --set train.steps=few
want 'setting out of range' 1 'good.lua' 'steps: is 0' '1 or more' -- "$ppl" good.lua --steps 0

# ---- model
script shape.lua "nn.sequential { nn.embedding { vocabulary = 256, dim = 16 }, nn.layer { name = 'mine', forward = function(self, x)
        local y = x:matmul(self:param('w', { 15, 256 }))
        return y
    end } }"
want 'wrong shape in a custom layer' 1 'shape.lua:6' 'mine.matmul' 'want' -- "$ppl" shape.lua
script three.lua "nn.sequential { nn.embedding { vocabulary = 256, dim = 16 }, nn.layer { name = 'mine', forward = function() return 3 end } }"
want 'a layer that returns a number' 1 'layer mine' 'forward returns 3' 'want a tensor' -- "$ppl" three.lua
script heads.lua 'nn.gpt { layers = 2, dim = 16, heads = 3, context = 16 }'
want 'heads that do not divide' 1 'heads.lua' '3 heads' -- "$ppl" heads.lua
script option.lua 'nn.gpt { layers = 2, dim = 16, headz = 2, context = 16 }'
want 'unknown option of a layer' 1 'option.lua:5' 'nearest: heads' -- "$ppl" option.lua

# ---- data
script nodata.lua '' "ppl.data.text { files = { 'none.txt' }, context = 16 }"
want 'missing data file' 1 'nodata.lua:7' 'none.txt' -- "$ppl" nodata.lua
script emptydata.lua '' "ppl.data.text { files = { 'empty.txt' }, context = 16 }"
want 'empty data file' 1 'emptydata.lua:7' 'empty.txt' 'empty' -- "$ppl" emptydata.lua
script folderdata.lua '' "ppl.data.text { files = { 'folder' }, context = 16 }"
want 'a folder as data' 1 'folderdata.lua:7' 'folder' -- "$ppl" folderdata.lua
script ends.lua 'nn.sequential { nn.linear(1, 4), nn.linear(4, 1) }' "ppl.data.iterator {
        inputs = { { name = 'x', shape = { 1 } }, { name = 'targets', shape = { 1 } } }, next = function() end }"
sed -i 's/cross_entropy/mse/' ends.lua
want 'data that ends early' 1 'data' 'step 0' -- "$ppl" ends.lua --run d
rm -rf d

for id in 1.5 1e20 0/0; do
    script ids.lua 'nn.sequential { nn.embedding { vocabulary = 4, dim = 2 }, nn.linear(2, 4) }' "ppl.data.iterator {
        inputs = { { name = 'x', dtype = 'i32', shape = { 1 } }, { name = 'targets', dtype = 'i32', shape = { 1 } } },
        next = function() return { x = { { 1 }, { 2 }, { $id }, { 0 } }, targets = { { 1 }, { 2 }, { 3 }, { 0 } } } end }"
    want "the id $id" 1 'iterator, step 0: sample 2 of x, number 0: is' 'want a whole number' -- "$ppl" ids.lua --run d
    rm -rf d
done

# ---- cuts and microbatches
script cut.lua '' '' '{ stages = 2, microbatches = 2, cut = { 9 } }'
want 'cut out of range' 1 'layer 9 is out of range' '1 to 3' -- "$ppl" cut.lua
script name.lua '' '' "{ stages = 2, microbatches = 2, cut = { 'block.1' } }"
want 'cut at an unknown layer' 1 'block.1' 'nearest: blocks.1' -- "$ppl" name.lua
script stages.lua '' '' '{ stages = 9, microbatches = 2 }'
want 'more stages than layers' 1 '9 stages for 4 layers' -- "$ppl" stages.lua
script divide.lua '' '' '{ stages = 2, microbatches = 3 }'
want 'microbatches that do not divide' 1 '3 microbatches do not divide a batch of 4' '1, 2, 4' -- "$ppl" divide.lua

# ---- schedules
script unknown.lua '' '' "{ stages = 2, microbatches = 2, schedule = '1f1d' }"
want 'unknown schedule' 1 '1f1d' 'nearest: 1f1b' 'gpipe' -- "$ppl" unknown.lua
schedule() { echo "{ stages = 2, microbatches = 2, schedule = ppl.schedule { name = 'mine', rank = function(s) $1 end } }"; }
script missing.lua '' '' "$(schedule 's.F(0) s.F(1) s.B(0)')"
want 'missing backward' 1 'rank 0' '0B1 is missing' '> rank 0' -- "$ppl" missing.lua
script crossed.lua '' '' "$(schedule 'if s.rank == 0 then s.F(0) s.B(0) s.F(1) s.B(1) else s.F(0) s.F(1) s.B(0) s.B(1) end')"
want 'crossed order' 1 'waits for' 'rank 0' 'rank 1' 'position' -- "$ppl" crossed.lua
script endless.lua '' '' "$(schedule 'while true do s.F(0) end')"
want 'actions without end' 1 'mine' 'rank 0' 'does it end?' -- "$ppl" endless.lua
script loop.lua '' '' "$(schedule 'while true do end')"
want 'a loop without end' 1 'mine' 'rank 0' 'still running' -- "$ppl" loop.lua
echo '0F0,0F1,0B0' >half.csv
want 'a CSV that lacks an action' 1 '0B1 is missing' -- "$ppl" plan half.csv
echo '0F0junk' >junk.csv
want 'a CSV with junk' 1 'junk.csv' '0F0junk' -- "$ppl" plan junk.csv
want 'a missing CSV' 1 'none.csv' -- "$ppl" plan none.csv

script swallow.lua '' '' "$(schedule 'while true do pcall(function() s.F(0) end) end')"
want 'a loop that swallows its own end' 1 'goes on after all the instructions' -- timeout 60 "$ppl" swallow.lua

# ---- numbers
script nan.lua 'nn.sequential { nn.linear(1, 4), nn.linear(4, 1) }' "ppl.data.iterator {
        inputs = { { name = 'x', shape = { 1 } }, { name = 'targets', shape = { 1 } } }, next = function(_, batch)
            local x, y = {}, {}
            for i = 1, batch do x[i], y[i] = { 1e38 * 10 }, { 1 } end
            return { x = x, targets = y }
        end }"
sed -i 's/cross_entropy/mse/' nan.lua
want 'a loss that is not finite' 1 'loss' 'step 0' 'finite' -- "$ppl" nan.lua --run n
rm -rf n

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
