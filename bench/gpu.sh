#!/bin/sh
# The check list on a real GPU: everything runs on the chip and on the emulated driver that shows the same chip, side by side, and a
# table is printed. Exit 77 where there is no GPU. Usage: bench/gpu.sh [BUILD]
#
#   kernels   every kernel x dtype x shape through pl_launch on the chip, against float64, and bit for bit against the emulator
#   probes    tests/gpu/*.ptx: the rows of docs/hardware-assumptions.md; those of other chips on the emulated driver alone
#   answers   tests/gpu/api_probe.c: errors of the driver where the manual leaves a choice
#   products  matmul in every type, odd sizes, majors and epilogues, against float64
#   bench     plaunch bench launch and gpu on the chip: TFLOP/s beside cuBLAS
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "${1:-$top/build}" && pwd) || exit 1
pl=$build/plaunch
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
status=0

PLAUNCH_DRIVER=cuda "$pl" doctor >"$tmp/why" 2>&1 || { echo "SKIP: no GPU: $(head -n 1 "$tmp/why")"; exit 77; }
arch=$("$pl" run copy --shape 1x1 --driver cuda --json | sed -n 's/.*"arch": "\([^"]*\)".*/\1/p')
[ -n "$arch" ] || { echo 'FAIL: the device does not run a 1x1 copy'; exit 1; }
printf 'chip %s\n\n%-10s %-5s %-12s %-6s %-6s %-10s %s\n' "$arch" kernel dtype shape chip emu rel_err same

for kernel in copy scale add cast transpose reduce softmax rmsnorm; do
    for dtype in f32 f16 bf16; do
        for shape in 1x1 1x70000 333x777 4096x1000 0x5 5x64x130; do
            for place in '' '--set base_offset=4 --set pitch=10001'; do
                [ "$shape" = 1x70000 ] && [ -n "$place" ] && continue
                rm -f "$tmp/chip.npy" "$tmp/emu.npy"
                # shellcheck disable=SC2086
                set -- $kernel --shape $shape --dtype $dtype --seed 7 --json $place
                "$pl" run "$@" --driver cuda --out "$tmp/chip.npy" >"$tmp/chip" 2>&1 && chip=ok || { chip=FAIL status=1; }
                "$pl" run "$@" --driver emulator --arch "$arch" --out "$tmp/emu.npy" >"$tmp/emu" 2>&1 && emu=ok || { emu=FAIL status=1; }
                cmp -s "$tmp/chip.npy" "$tmp/emu.npy" && same=yes || same=no
                err=$(sed -n 's/.*"max_rel_err": \([^,]*\),.*/\1/p' "$tmp/chip")
                printf '%-10s %-5s %-12s %-6s %-6s %-10s %s %s\n' "$kernel" "$dtype" "$shape" "$chip" "$emu" "${err:--}" "$same" "$place"
                [ "$chip" = ok ] || tail -n 5 "$tmp/chip"
            done
        done
    done
done

# products: each type, odd sizes, both majors; the order of additions is the chip's own, so only the bound is asked for
for dtype in bf16 f16 tf32 f32 e4m3 e5m2 i8; do
    for shape in 1x1x1 3x5x7 127x129x65 256x512x384 1000x1000x1000 1x4096x4096 4096x4096x4096; do
        for place in '' '--set a_major=col --set b_major=col' '--set batch=3 --set shared=1' '--set base_offset=4 --set pitch=4101' '--set c=1 --set bias=1 --set alpha=0.5 --set beta=2 --set op=gelu --set out_dtype=f32'; do
            [ "$shape" = 4096x4096x4096 ] && [ -n "$place" ] && continue
            # shellcheck disable=SC2086
            "$pl" run matmul --shape $shape --dtype $dtype --seed 7 --json --driver cuda $place >"$tmp/chip" 2>&1 && chip=ok || { chip=FAIL status=1; }
            err=$(sed -n 's/.*"max_rel_err": \([^,]*\),.*/\1/p' "$tmp/chip")
            printf '%-10s %-5s %-14s %-6s %-10s %s\n' matmul "$dtype" "$shape" "$chip" "${err:--}" "$place"
            [ "$chip" = ok ] || tail -n 5 "$tmp/chip"
        done
    done
done

# Is the chip one that a probe is for? An "a" is for that chip alone.
is_for()
{
    case $1 in
    *a) [ "$1" = "sm_${have%a}a" ] ;;
    *) [ "${1#sm_}" -le "${have%[af]}" ] ;;
    esac
}

# What the emulated driver gives is compared with its record (tests/gpu_probes.sh) where this chip can say nothing.
printf '\n%-20s %s\n' probe 'chip < against emulated driver >'
have=${arch#sm_}
for probe in "$top"/tests/gpu/*.ptx; do
    name=$(basename "$probe" .ptx) needs=$(sed -n 's#^// arch: ##p' "$probe")
    sed -n 's#^// expect: ##p' "$probe" >"$tmp/record"
    if ! is_for "$needs"; then
        "$top/tests/gpu/run.sh" "$pl" "$probe" emulator "$needs" >"$tmp/e.out"
        cmp -s "$tmp/record" "$tmp/e.out" && verdict='as recorded' || { verdict='NOT as recorded'; status=1; }
        printf '%-20s %s\n' "$name" "chip skipped, it is no $needs; emulated $verdict"
        continue
    fi
    "$top/tests/gpu/run.sh" "$pl" "$probe" cuda "$arch" >"$tmp/c.out"
    "$top/tests/gpu/run.sh" "$pl" "$probe" emulator "$arch" >"$tmp/e.out"
    if diff "$tmp/c.out" "$tmp/e.out" >"$tmp/diff"; then
        printf '%-20s %s\n' "$name" equal
        continue
    elif grep -q '^stops: PL' "$tmp/e.out"; then
        verdict='open: the emulated driver takes no side'
    elif [ "$(cat "$tmp/record")" = any ]; then
        verdict='different, as it may be'
    else
        verdict=DIFFERENT status=1
    fi
    printf '%-20s %s\n' "$name" "$verdict"
    cat "$tmp/diff"
done

printf '\ndriver answers (chip <, emulated driver >)\n'
if "${CC:-cc}" -std=gnu11 -o "$tmp/api" "$top/tests/gpu/api_probe.c" -ldl 2>/dev/null; then
    "$tmp/api" libcuda.so.1 >"$tmp/c.api"
    "$tmp/api" "$build/emu/.libs/libplaunch-emu.so" >"$tmp/e.api"
    diff "$tmp/c.api" "$tmp/e.api" >"$tmp/api.diff" && echo 'all equal' || { status=1; cat "$tmp/api.diff"; }
else
    echo 'skipped: no C compiler'
fi

printf '\n'
PLAUNCH_DRIVER=cuda "$pl" bench launch gpu || status=1
exit $status
