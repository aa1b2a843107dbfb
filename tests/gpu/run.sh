#!/bin/sh
# One probe on one driver: prints its output arrays, 16 words in hexadecimal a line, the sum of a long one, or how it stopped.
# Usage: run.sh PLAUNCH PROBE.ptx DRIVER ARCH
set -u
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
args=$(sed -n 's#^// run: ##p' "$2" | sed "s#OUT#$tmp#g")
# shellcheck disable=SC2086
timeout 60 "$1" emu "$2" --driver "$3" --arch "$4" $args >"$tmp/log" 2>&1
case $? in
0) ;;
124)
    echo 'stops: it does not end'
    exit 0
    ;;
*)
    why=$(grep -o 'PL[0-9][0-9][0-9][0-9]' "$tmp/log" | head -n 1)
    echo "stops: ${why:-$(grep -o 'CUDA_ERROR_[A-Z_]*' "$tmp/log" | head -n 1)}"
    exit 0
    ;;
esac
for f in "$tmp"/*.npy; do
    name=$(basename "$f" .npy) head=$(($(od -An -j8 -N2 -tu2 "$f") + 10)) # of the format 1.0
    tail -c "+$((head + 1))" "$f" >"$tmp/data"
    if [ "$(wc -c <"$tmp/data")" -gt 2048 ]; then
        echo "$name: cksum $(cksum <"$tmp/data")"
        continue
    fi
    od -v -Ad -w64 -tx4 "$tmp/data" | sed -n "s/^0*\([0-9]\{1,\}\) /$name+\1: /p" | sed 's/ 0*\([0-9a-f]\)/ \1/g'
done
