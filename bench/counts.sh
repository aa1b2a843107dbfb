# Sourced by the benches that count instructions: --gate and the build folder from the arguments, a folder `tmp` that goes at the end, and
# count PROGRAM ARGUMENT..., which prints the instructions of libplaunch itself in one run under callgrind. Exit 77 without valgrind.
gate=no
[ "${1:-}" = --gate ] && { gate=yes; shift; }
build=${1:-${PL_BUILDDIR:-build}}
command -v valgrind >/dev/null 2>&1 || { echo 'SKIP: valgrind is not installed'; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
status=0
count() {
    program=$1
    shift
    "$build/libtool" --mode=execute valgrind --tool=callgrind --callgrind-out-file="$tmp/out" "$build/$program" "$@" >"$tmp/log" 2>&1 ||
        { cat "$tmp/log" >&2; exit 1; }
    awk -f "$here/callgrind_self.awk" "$tmp/out"
}
within() { # what was counted, instructions, limit
    [ "$2" -le "$3" ] || { echo "$1: $2 instructions, at most $3 wanted" >&2; [ $gate = yes ] && status=1; }
}
printf 'name\tn\tmedian\tp10\tp90\tunit\n'
