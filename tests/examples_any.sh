#!/bin/sh
# The example with a body for every kind of tensor core, on each kind, with the race check.
set -eu
cd "${PL_BUILDDIR:-.}"
PLAUNCH_EMU_CHECK=race
export PLAUNCH_EMU_CHECK
for device in sm_80 sm_89 sm_90a sm_100a sm_120a; do
    echo "$device: example_attention"
    PLAUNCH_EMU_DEVICES=$device PLAUNCH_EMU_ASYNC=random:1 ./example_attention
done
