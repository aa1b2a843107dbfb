#!/bin/sh
# The examples that need warpgroup matrix operations, on an emulated device that has them, under each order of asynchronous operations.
set -eu
cd "${PL_BUILDDIR:-.}"
PLAUNCH_EMU_DEVICES=sm_90a
export PLAUNCH_EMU_DEVICES
for order in eager late random:1; do
    echo "$order: example_hopper_matmul"
    PLAUNCH_EMU_ASYNC=$order ./example_hopper_matmul
done
