#!/bin/sh
# Each row of docs/hardware-assumptions.md names the probes in tests/gpu that settle it, or says why none is needed; each probe is named by
# the rows that it says it is for.
set -u
top=${PL_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
page=$top/docs/hardware-assumptions.md gpu=$top/tests/gpu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# "row file" from both sides
awk -F ' [|] ?' '/^[|] [a-z0-9]/ && $1 != "| id" {
    row = substr($1, 3)
    n = split($4, words, " ")
    if ($4 ~ /^none needed: ./) { print row, "none" >rows; next }
    for (i = 1; i <= n && words[i] ~ /\.(ptx|c)$/; i++) print row, words[i]
    if (i == 1) print row, "?"
}' rows="$tmp/unprobed" "$page" | sort >"$tmp/named"
for probe in "$gpu"/*.ptx "$gpu"/*.c; do
    sed -n 's#^\(//\| \*\) assumptions\{0,1\}: ##p' "$probe" | tr ' ' '\n' | sed "s#\$# $(basename "$probe")#"
done | sort >"$tmp/said"
[ -s "$tmp/named" ] || { echo "$page: no rows"; exit 1; }
diff "$tmp/named" "$tmp/said" || { echo "< the page names, > the probe says"; exit 1; }
