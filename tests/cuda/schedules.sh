#!/bin/bash
# The program over the emulation trains under the library's schedules, its ranks on one GPU, then on one each: schedules.lua.
# Streams and blocks in a random order.
cd "$(dirname "$0")/../.." || exit 1
export PPL_EMU_SEED=${PPL_EMU_SEED:-7}
status=0
for gpus in 1 4; do PPL_EMU_DEVICES=$gpus build/release-emulation/ppl tests/cuda/schedules.lua || status=1; done
exit $status
