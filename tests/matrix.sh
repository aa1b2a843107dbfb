#!/bin/sh
# `plaunch run` over the library: every kernel x dtype x chip x shape x asynchrony x placement of the tensors. Without PL_LONG a
# sample in which every pair of levels of two factors stands in some run (PL_SEED chooses it); with it the whole product.
set -u
pl=$PL_BUILDDIR/plaunch
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
seed=${PL_SEED:-$(date +%s)}
echo "PL_SEED=$seed"
export PLAUNCH_EMU_ASYNC

# One line a run. Placement: bytes before the base (rounded up to whole elements), elements that the pitch has over a row.
awk -v seed="$seed" -v long="${PL_LONG:-}" '
function level(f, text) { n_levels[n_factors = f] = split(text, words, " "); for (i in words) name[f, i] = words[i] }
function show(row, f) { line = ""; for (f = 1; f <= n_factors; f++) line = line name[f, row[f]] " "; print line; n_runs++ }
function gain(row, f, g, n) { for (f = 1; f <= n_factors; f++) for (g = f + 1; g <= n_factors; g++) n += !((f, row[f], g, row[g]) in is_covered); return n }
function cover(row, f, g) { for (f = 1; f <= n_factors; f++) for (g = f + 1; g <= n_factors; g++) is_covered[f, row[f], g, row[g]] = 1 }
function whole(f) { if (f > n_factors) { show(row); return } for (row[f] = 1; row[f] <= n_levels[f]; row[f]++) whole(f + 1) }
function sample(f, g, i, k, try, h, best) {
    for (f = 1; f <= n_factors; f++) for (g = f + 1; g <= n_factors; g++)
    for (i = 1; i <= n_levels[f]; i++) for (k = 1; k <= n_levels[g]; k++) {
        if ((f, i, g, k) in is_covered) continue
        best = -1
        for (try = 0; try < 30; try++) { # random rows with this pair: the one that covers most
            for (h = 1; h <= n_factors; h++) row[h] = h == f ? i : h == g ? k : 1 + int(rand() * n_levels[h])
            if (gain(row) > best) { best = gain(row); for (h in row) kept[h] = row[h] }
        }
        cover(kept); show(kept)
    }
}
BEGIN {
    srand(seed)
    level(1, "copy scale add cast transpose reduce softmax rmsnorm")
    level(2, "f32 f16 bf16")
    level(3, "sm_80 sm_90a sm_100a sm_120a")
    level(4, "1x1 1x70000 4096x1000 333x777 0x5")
    level(5, "eager late random:" int(1 + rand() * 1000000))
    level(6, "0,0 2,0 0,3 2,3")
    if (long != "") whole(1); else sample()
}' >"$tmp/runs"
[ -s "$tmp/runs" ] || { echo 'no runs'; exit 1; }

failures=0
while read -r kernel dtype arch shape policy place; do
    set -- "$pl" run "$kernel" --shape "$shape" --dtype "$dtype" --arch "$arch" --seed "$seed" --json
    [ "${place%,*}" = 0 ] || set -- "$@" --set "base_offset=${place%,*}"
    [ "${place#*,}" = 0 ] || set -- "$@" --set "pitch=$((${shape#*x} + ${place#*,}))"
    PLAUNCH_EMU_ASYNC=$policy
    "$@" >"$tmp/out" 2>"$tmp/err" && grep -q '"ok": true' "$tmp/out" && continue
    echo "FAIL PLAUNCH_EMU_ASYNC=$policy $*"
    cat "$tmp/out" "$tmp/err"
    failures=$((failures + 1))
done <"$tmp/runs"
echo "$(wc -l <"$tmp/runs") runs, $failures failed"
[ "$failures" = 0 ]
