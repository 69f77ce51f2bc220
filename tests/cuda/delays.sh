#!/bin/bash
# The program over the emulation under all schedules, both links and many orders: delays.lua.
cd "$(dirname "$0")/../.." || exit 1
export PPL_EMU_DEVICES=4
exec build/release-emulation/ppl tests/cuda/delays.lua
