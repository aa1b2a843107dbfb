#!/bin/sh
# Layers: a folder includes only what stands below it (STYLE: base <- jit/ptx <- src/ir <- src/check <- src/plan <- jit <- src/runtime;
# emu stands on base and jit/ptx alone; kernels see the public headers only).
set -u
top=${PL_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
cd "$top" || exit 1
status=0
# folder | folders its quoted includes may name
layers='base|base
jit/ptx|base jit/ptx
src/ir|base src/ir plaunch
src/check|base src/ir src/check plaunch
src/plan|base src/ir src/check src/plan src/plan/memory src/plan/tensor plaunch
src/plan/memory|base src/ir src/check src/plan src/plan/memory src/plan/tensor plaunch
src/plan/tensor|base src/ir src/check src/plan src/plan/memory src/plan/tensor plaunch
jit|base jit/ptx src/ir src/check src/plan jit plaunch
src/runtime|base jit/ptx src/ir src/check src/plan jit src/runtime plaunch
emu|base jit/ptx emu emu/async emu/exec emu/race
emu/api|base jit/ptx emu emu/api
emu/exec|base jit/ptx emu emu/async emu/exec emu/ops
emu/ops|base jit/ptx emu emu/ops
emu/async|base jit/ptx emu emu/async
emu/race|base jit/ptx emu emu/race
kernels|kernels plaunch'
check() { # file, allowed folders
    for inc in $(sed -n 's/^#include "\([^"]*\)".*/\1/p' "$1" | grep -v '^config.h$'); do
        dir=$(dirname "$inc")
        case $inc in plaunch.h) dir=plaunch ;; esac
        case " $2 " in
        *" $dir "*) ;;
        *)
            printf 'FAIL %s includes "%s"\n' "$1" "$inc"
            status=1 ;;
        esac
    done
}
while IFS='|' read -r dir allowed; do
    for f in "$dir"/*.c "$dir"/*.h "$dir"/*.def; do
        [ -f "$f" ] && check "$f" "$allowed"
    done
done <<EOF
$layers
EOF
for word in 'cu[A-Z][A-Za-z]*' 'mbarrier\.' 'cp\.async' 'wgmma\.' 'tcgen05\.'; do
    # src/ir, src/check and src/plan name no PTX mnemonic and no CUDA symbol in code (comments and texts may).
    for f in src/ir/*.c src/check/*.c src/plan/*.c src/plan/*/*.c; do
        [ -f "$f" ] || continue
        sed -e 's://.*::' -e 's:"[^"]*"::g' "$f" | awk '{ while (match($0, /\/\*/)) { s = $0; p = RSTART; e = index(substr(s, p), "*/"); if (e) $0 = substr(s, 1, p - 1) substr(s, p + e + 1); else { $0 = substr(s, 1, p - 1); print; while ((getline line) > 0) { i = index(line, "*/"); if (i) { $0 = substr(line, i + 2); break } } } } print }' |
            grep -nE "(^|[^A-Za-z0-9_])$word" >/dev/null && {
            printf 'FAIL %s names %s\n' "$f" "$word"
            status=1
        }
    done
done
exit $status
