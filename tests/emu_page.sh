#!/bin/sh
# docs/emulator.md is what the tables say: `make emulator-page` writes it anew.
set -e
: "${PL_SRCDIR:=.}" "${PL_BUILDDIR:=.}"
"$PL_BUILDDIR/emu_forms" | diff "$PL_SRCDIR/docs/emulator.md" -
