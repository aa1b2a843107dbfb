#!/bin/sh
# C and C++17 programs built against the *installed* tree through pkg-config, linked shared and static, and run on the emulated
# driver that was installed beside the library.
set -eu
top=${PL_SRCDIR:-$(cd "$(dirname "$0")/.." && pwd)}
build=${PL_BUILDDIR:-$(pwd)}
command -v "${PKG_CONFIG:-pkg-config}" >/dev/null || { echo "SKIP: pkg-config is not installed"; exit 77; }
grep -q 'fsanitize' "$build/Makefile" && grep -q '^PL_SAN_FLAGS = .*-fsanitize' "$build/Makefile" && { echo 'SKIP: programs of users are not instrumented'; exit 77; }
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
${MAKE:-make} -s -C "$build" install DESTDIR="$root" >"$root/log" 2>&1 || { cat "$root/log"; exit 1; }
pc=$(find "$root" -name plaunch.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH="$(dirname "$pc")" PKG_CONFIG_SYSROOT_DIR="$root" PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1
flags=$(${PKG_CONFIG:-pkg-config} --cflags plaunch)
shared=$(${PKG_CONFIG:-pkg-config} --libs plaunch)
static="$libdir/libplaunch.a $(${PKG_CONFIG:-pkg-config} --static --libs plaunch | sed 's/-lplaunch//')"
cc="${CC:-cc} -std=c11 -Wall -Wextra -Werror"
cxx="${CXX:-c++} -std=c++17 -Wall -Wextra -Wold-style-cast -Werror -Wno-missing-field-initializers"
$cc $flags -o "$root/c-shared" "$top/tests/embed.c" $shared
$cxx $flags -o "$root/cc-shared" "$top/tests/embed.cc" $shared
$cc $flags -o "$root/c-static" "$top/tests/embed.c" $static
$cxx $flags -o "$root/cc-static" "$top/tests/embed.cc" $static
for p in c-shared cc-shared c-static cc-static; do
    printf '%s: ' "$p"
    # the shared ones find the emulated driver beside libplaunch, the static ones by path
    case $p in *-static) driver=$libdir/libplaunch-emu.so ;; *) driver=emulator ;; esac
    PLAUNCH_CACHE_DIR="" PLAUNCH_DRIVER=$driver LD_LIBRARY_PATH=$libdir "$root/$p"
done
