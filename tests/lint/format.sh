#!/bin/sh
# The tree is formatted by .clang-format (version 14 or newer); skipped, visibly, without clang-format.
set -u
top=${PL_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 1
command -v clang-format >/dev/null 2>&1 || { echo 'SKIP: clang-format is not installed'; exit 77; }
files=$(find base jit src emu tools kernels include tests bench examples \( -name '*.c' -o -name '*.h' \) ! -path 'tests/cuda/*' | sort)
# shellcheck disable=SC2086
clang-format --dry-run --Werror $files
