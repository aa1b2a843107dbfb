#!/bin/sh
# The examples that need tensor memory, on an emulated device that has it, under each order of asynchronous operations.
set -eu
cd "${PL_BUILDDIR:-.}"
PLAUNCH_EMU_DEVICES=sm_100a
export PLAUNCH_EMU_DEVICES
for order in late random:1; do
    PLAUNCH_EMU_ASYNC=$order
    export PLAUNCH_EMU_ASYNC
    for example in example_tmem_roundtrip example_blackwell_matmul; do
        echo "$order: $example"
        "./$example"
    done
done
