#!/bin/bash
# Stands for the tests of the CUDA back end where CUDA's headers are missing, and for those of its attention by cuDNN where
# cuDNN's headers or library are: says what is missing, counts as skipped.
cd "$(dirname "$0")/../.." || exit 1
if ! why=$(scripts/cuda_include 2>&1 >/dev/null); then
    echo "skipped: tests of the CUDA back end: $why"
else
    why=$(scripts/cudnn_include 2>&1 >/dev/null)
    echo "skipped: tests of attention by cuDNN: ${why:-there is no libcudnn.so.9}"
fi
echo "0 passed, 0 failed, 1 skipped"
