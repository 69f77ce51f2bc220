#!/bin/bash
# The program over the emulation trains under the library's schedules, its ranks on one GPU: schedules.lua. Streams and blocks
# in a random order.
cd "$(dirname "$0")/../.." || exit 1
export PPL_EMU_SEED=${PPL_EMU_SEED:-7} PPL_EMU_DEVICES=1
exec build/release-emulation/ppl tests/cuda/schedules.lua
