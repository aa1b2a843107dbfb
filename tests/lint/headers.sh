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
exit $status
