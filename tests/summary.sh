#!/bin/sh
# Sum up a finished `make check`: print the log of each failed test and the reason of each skip, then the closing line.
# A Check program counts its checks; any other test counts as one. Status 1 when something failed or nothing passed.
set -eu
cd "$1"
passed=0 failed=0 skipped=0
for trs in $(find . -name '*.trs' | sort); do
    log=${trs%.trs}.log
    name=${log#./}
    counts=$(sed -n 's/^[0-9]*%: Checks: \([0-9]*\), Failures: \([0-9]*\), Errors: \([0-9]*\)$/\1 \2 \3/p' "$log" | awk '{c+=$1; b+=$2+$3} END {if (NR) print c-b, b}')
    case $(sed -n 's/^:test-result: *\([A-Z]*\).*/\1/p' "$trs" | head -n 1) in
    PASS)
        # shellcheck disable=SC2086
        set -- ${counts:-1 0}
        passed=$((passed + $1)) ;;
    SKIP)
        skipped=$((skipped + 1))
        printf 'SKIP %s: %s\n' "${name%.log}" "$(grep -i skip "$log" | head -n 1)" ;;
    *)
        # shellcheck disable=SC2086
        set -- ${counts:-0 1}
        passed=$((passed + $1))
        failed=$((failed + ($2 > 0 ? $2 : 1)))
        printf '==== FAIL %s\n' "${name%.log}"
        tail -n 60 "$log" ;;
    esac
done
printf '%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
