#!/bin/bash
# tensors.sh - the Lua tests of eager tensors on the cuda device over the emulation.
cd "$(dirname "$0")/../.." || exit 1
ppl=build/release-emulation/ppl
said=$("$ppl" tests/lua/run.lua --only tensor) || { echo "$said"; exit 1; }
grep -q '^ok      tensor (cuda): products' <<<"$said" || { echo "$said"; echo "the cuda device was not tested"; exit 1; }
echo "$said"
