#!/bin/sh
# Every row that the emulated driver executes is executed by some test with a result: the programs below run all vectors and
# kernels that have one, and the rows they executed are compared with the table. Scalar rows have their vectors in
# tests/ptx/vectors*.tsv; check_ops asks for one each.
set -e
: "${PL_BUILDDIR:=.}"
rows=$(mktemp -d)
trap 'rm -rf "$rows"' EXIT
PLAUNCH_EMU_ROWS=$rows/all CK_VERBOSITY=silent
export PLAUNCH_EMU_ROWS CK_VERBOSITY
for t in check_emu_ptx check_mma check_wmma check_wgmma check_tcgen05 check_tc_forms check_async_run check_tensormap check_emu; do
    "$PL_BUILDDIR/$t" > "$rows/log" || { cat "$rows/log"; exit 1; }
done
sort -u "$rows/all" > "$rows/seen"
"$PL_BUILDDIR/emu_forms" --rows | sort > "$rows/wanted"
missing=$(comm -23 "$rows/wanted" "$rows/seen")
[ -z "$missing" ] || { echo "executed by no test:"; echo "$missing"; exit 1; }
echo "$(wc -l < "$rows/wanted") rows, each executed by a test"
