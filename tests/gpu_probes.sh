#!/bin/sh
# Each probe of tests/gpu gives on the emulated driver what its "expect" lines record (PL_UPDATE=1 writes them), and the assembler
# takes it for its chip. bench/gpu.sh compares the same with a real chip.
: "${PL_SRCDIR:=.}" "${PL_BUILDDIR:=.}"
gpu=$PL_SRCDIR/tests/gpu ptxas=${PL_CUDA_HOME:-}/bin/ptxas failures=0
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

fail()
{
    echo "FAIL $1: $2"
    failures=$((failures + 1))
}

for probe in "$gpu"/*.ptx; do
    name=$(basename "$probe")
    arch=$(sed -n 's#^// arch: ##p' "$probe")
    "$gpu/run.sh" "$PL_BUILDDIR/plaunch" "$probe" emulator "$arch" >"$tmp/got"
    if [ -n "${PL_UPDATE:-}" ] && ! grep -q '^// expect: any' "$probe"; then
        sed 's#^#// expect: #' "$tmp/got" >"$tmp/lines"
        sed '/^\/\/ expect: /d' "$probe" | sed "/^\/\/ arch: /r $tmp/lines" >"$tmp/new" && cp "$tmp/new" "$probe"
    fi
    sed -n 's#^// expect: ##p' "$probe" >"$tmp/want"
    if [ "$(cat "$tmp/want")" = any ]; then
        grep -q '^stops' "$tmp/got" && fail "$name" "$(cat "$tmp/got")"
    else
        diff "$tmp/want" "$tmp/got" || fail "$name" 'not what it records'
    fi
    [ -x "$ptxas" ] || continue
    "$ptxas" -arch "$arch" "$probe" -o "$tmp/cubin" >"$tmp/log" 2>&1 || { cat "$tmp/log"; fail "$name" 'the assembler refuses it'; }
done
[ -x "$ptxas" ] || echo "no $ptxas: the probes were not assembled"
[ "$failures" = 0 ]
