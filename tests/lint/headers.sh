#!/bin/sh
# Each header compiles alone, without a warning, as C11; the public ones as C++17 too.
set -u
top=${PL_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
out=${PL_BUILDDIR:-$top}
status=0
for h in $(cd "$top" && find base jit src emu tools include -name '*.h' ! -name diag_rows.h | sort); do
    case $h in
    include/*) name=${h#include/} ;;
    *) name=$h ;;
    esac
    printf '#include "%s"\ntypedef int not_empty;\n' "$name" |
        ${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror -D_GNU_SOURCE -I"$top/include" -I"$top" -I"$out" -fsyntax-only -x c - || {
        printf 'FAIL %s does not stand alone\n' "$h"
        status=1
    }
done
for h in $(cd "$top/include" && find . -name '*.h' | sort); do
    printf '#include <%s>\n' "${h#./}" |
        ${CXX:-c++} -std=c++17 -Wall -Wextra -Wpedantic -Werror -I"$top/include" -fsyntax-only -x c++ - || {
        printf 'FAIL %s is not clean C++17\n' "$h"
        status=1
    }
done
# A number where a ref, a barrier or offsets belong is an error of the compiler's, with no warnings asked for.
body() {
    printf '#include <plaunch.h>\nvoid f(pl_builder *b, pl_ref r, pl_bar bar, pl_val v) { (void)bar; (void)v; %s; }\n' "$1" |
        ${CC:-cc} -std=c11 -w -I"$top/include" -fsyntax-only -x c - 2>/dev/null
}
body 'pl_store(b, pl_tile(b, r, PL_OFF(b, 0, 1), PL_SHAPE(2, 2)), pl_mma(b, v, v, 0.0f)); pl_copy_gmem_to_smem(b, r, r, bar)' || {
    echo 'FAIL: a right body does not compile'
    status=1
}
for wrong in 'pl_store(b, 1, v)' 'pl_tile(b, r, 0, PL_SHAPE(2))' 'pl_tile(b, 0, PL_OFF(b, 0), PL_SHAPE(2))' \
    'pl_copy_gmem_to_smem(b, r, r, 1)' 'pl_copy_smem_to_gmem(b, r, 1)' 'pl_wgmma(b, r, r, 1)' 'pl_bar_at(b, 1, 0)' \
    'pl_extract(b, v, 0)' 'pl_at(b, 0, 0)' 'pl_async_store_smem(b, r, v, 0)'; do
    if body "$wrong"; then
        printf 'FAIL: %s compiles\n' "$wrong"
        status=1
    fi
done
exit $status
