#!/bin/sh
# The command's contract: exit status 0, 1, 2; names; JSON keys; .npy in and out; a PTX file through `plaunch emu`.
set -u
pl=$PL_BUILDDIR/plaunch
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failures=0
check() { # description, wanted status, command...
    what=$1 wanted=$2
    shift 2
    "$@" >"$tmp/out" 2>"$tmp/err"
    got=$?
    [ "$got" = "$wanted" ] && return 0
    printf 'FAIL %s: exit %s, wanted %s\n' "$what" "$got" "$wanted"
    cat "$tmp/out" "$tmp/err"
    failures=$((failures + 1))
}
says() { # description, pattern: in the last output
    grep -Eq -- "$2" "$tmp/out" "$tmp/err" && return 0
    printf 'FAIL %s: no "%s" in\n' "$1" "$2"
    cat "$tmp/out" "$tmp/err"
    failures=$((failures + 1))
}

check 'help' 0 "$pl" --help
check 'no command' 2 "$pl"
check 'unknown command' 2 "$pl" frobnicate
check 'doctor' 0 "$pl" doctor
says 'doctor names the emulator' 'emulat'
check 'doctor --json' 0 "$pl" doctor --json
says 'doctor JSON' '"ptxas"'
check 'kernels' 0 "$pl" kernels
for k in copy scale add cast transpose reduce softmax rmsnorm matmul; do says "kernels lists $k" "^$k "; done
check 'kernels --json' 0 "$pl" kernels --json
says 'kernels JSON lists facts' '"align16"'
check 'run' 0 "$pl" run scale --shape 33x65 --dtype bf16
says 'run says where' 'emulated'
says 'run says ok' '^ok$'
# A cluster for a driver that does not know the order of shared memory alone (PTX 8.6), and for one that does.
for version in 12040 12080; do
    check "a cluster for driver $version" 0 env PLAUNCH_EMU_DRIVER_VERSION=$version PLAUNCH_EMU_CHECK=race "$pl" run matmul --shape 256x192x512 --dtype bf16 --arch sm_90a --set tile_m=128 --set tile_n=128 --set cluster_m=2
    says 'it multiplies' '^ok$'
done
check 'run --json' 0 "$pl" run softmax --shape 5x100 --dtype f16 --arch sm_100a --json
for key in kernel arch driver dtype shape ok max_abs_err max_rel_err ns trace check plan emit assemble load launch; do
    says "run JSON has $key" "\"$key\""
done
says 'run JSON says ok' '"ok": true'
says 'run JSON says the chip' '"arch": "sm_100a"'
check 'unaligned' 0 "$pl" run add --shape 7x9 --dtype f16 --set base_offset=2 --set pitch=11
check 'bad dtype' 2 "$pl" run copy --dtype f99
check 'bad shape' 2 "$pl" run copy --shape 4xx
check 'bad kernel' 2 "$pl" run nothing
check 'bad key' 2 "$pl" run copy --set colour=red
check 'pitch too short' 2 "$pl" run copy --shape 4x9 --set pitch=3
says 'pitch names both numbers' '9'
check 'a dtype that a kernel does not take' 1 "$pl" run softmax --shape 4x4 --dtype i32
says 'the diagnostic has a code' 'PL60'
check 'pitch below 0' 2 "$pl" run copy --shape 4x9 --set pitch=-1
check 'base_offset below 0' 2 "$pl" run copy --shape 4x9 --set base_offset=-2
check 'axis past 32 bits' 2 "$pl" run reduce --shape 4x9 --set axis=4294967296
check 'batch below 0' 2 "$pl" run reduce --shape 4x9 --set batch=-1
check 'config past the listed ones' 1 "$pl" run scale --shape 4x9 --config 2147483646
says 'no such configuration' 'PL6121'
check 'config past 32 bits' 2 "$pl" run scale --shape 4x9 --config 4294967296
check 'shape past 63 bits' 2 "$pl" run scale --shape 9223372036854775807x4
check 'bytes past 63 bits' 2 "$pl" run scale --shape 9223372036854775807
check 'ptx takes no memory' 0 "$pl" ptx copy --dtype f64 --shape 1000000000000
check 'elements below a byte' 2 "$pl" run copy --shape 4x4 --dtype e2m1
says 'the reason' 'smaller than a byte'
check 'unknown chip' 1 "$pl" run copy --shape 4x4 --arch sm_75
says 'the reason' 'PLAUNCH_EMU_ARCH=sm_75'
says 'the chips' 'wanted sm_80, 86'
check 'a policy that is none' 1 env PLAUNCH_EMU_ASYNC=never "$pl" run copy --shape 4x4
says 'the reason' 'PLAUNCH_EMU_ASYNC=never: wanted eager, late or random:SEED'
check 'no emulated device' 1 env PLAUNCH_EMU_DEVICES=0 "$pl" run copy --shape 4x4 --driver emulator
says 'the reason' 'CUDA_ERROR_NO_DEVICE'
check 'a word after --json' 2 "$pl" doctor --json now
says 'the word' 'plaunch doctor: now '
check 'an option without its value' 2 "$pl" run copy --shape
says 'the option' 'plaunch run: --shape is not an option here, or its value is missing'
check 'a dtype that is refused' 1 "$pl" run softmax --shape 4x4 --dtype i32
! grep -q 'case.c' "$tmp/out" "$tmp/err" || { echo 'FAIL a place in the tool is shown'; failures=$((failures + 1)); }
check 'ptx without sm_' 0 "$pl" ptx copy --shape 4x4 --arch 90a
if [ -c /dev/full ]; then
    for c in 'ptx copy' 'run copy --shape 4x4' 'run copy --shape 4x4 --json' explain kernels --help; do
        check "$c into a full disk" 1 sh -c "\"$pl\" $c >/dev/full"
        says 'the reason' 'stdout: '
    done
    ln -s /dev/full "$tmp/full.npy"
    check 'npy into a full disk' 1 "$pl" run copy --shape 4x4 --out "$tmp/full.npy"
    [ -h "$tmp/full.npy" ] || { echo 'FAIL npy into a full disk: the path was removed'; failures=$((failures + 1)); }
fi
check 'npy out' 0 "$pl" run copy --shape 6x7 --dtype f32 --seed 5 --out "$tmp/a.npy"
check 'npy in' 0 "$pl" run scale --shape 6x7 --dtype f32 --in "$tmp/a.npy" --out "$tmp/b.npy"
check 'npy in of another shape' 2 "$pl" run scale --shape 7x6 --dtype f32 --in "$tmp/a.npy"
for arch in sm_80 sm_90a sm_100a sm_120a; do
    check "ptx $arch" 0 "$pl" ptx transpose --shape 64x64 --dtype f16 --arch $arch -o "$tmp/t.ptx"
    grep -q '^\.version' "$tmp/t.ptx" || { echo "FAIL ptx $arch: no .version"; failures=$((failures + 1)); }
done
check 'plan' 0 "$pl" ptx scale --plan
check 'trace' 0 "$pl" ptx scale --trace
check 'explain' 0 "$pl" explain
code=$(sed -n 's/^\(PL[0-9]*\).*/\1/p' "$tmp/out" | head -n 1)
check "explain $code" 0 "$pl" explain "$code"
says 'explain has a fix' 'Fix'
check 'explain --json' 0 "$pl" explain "$code" --json
check 'explain of an unknown code' 1 "$pl" explain PL0001
cat >"$tmp/twice.ptx" <<'PTX'
.version 7.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 x, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f;
  ld.param.u64 %rd0, [x];
  ld.param.u32 %r0, [n];
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p, %r1, %r0;
  @%p ret;
  mul.wide.u32 %rd1, %r1, 4;
  add.u64 %rd2, %rd0, %rd1;
  ld.global.f32 %f, [%rd2];
  add.f32 %f, %f, %f;
  st.global.f32 [%rd2], %f;
  ret;
}
PTX
cp "$tmp/a.npy" "$tmp/c.npy"
check 'emu' 0 "$pl" emu "$tmp/twice.ptx" --entry twice --grid 1 --block 64 --arch sm_80 "inout:$tmp/c.npy" u32:42
cmp -s "$tmp/a.npy" "$tmp/c.npy" && { echo 'FAIL emu: the array did not change'; failures=$((failures + 1)); }
sed 's/%rd2, %rd0, %rd1/%rd2, %rd0, 1/' "$tmp/twice.ptx" >"$tmp/bad.ptx"
check 'emu fault' 1 "$pl" emu "$tmp/bad.ptx" --entry twice --grid 1 --block 64 "inout:$tmp/c.npy" u32:42
says 'the fault names the line' 'line 1[0-9]'
check 'emu u32 past 32 bits' 2 "$pl" emu "$tmp/twice.ptx" --entry twice --grid 1 --block 1 zeros:64 u32:4294967296
check 'emu with too few arguments' 1 "$pl" emu "$tmp/twice.ptx" --entry twice --grid 1 --block 1 zeros:64
cat >"$tmp/map.ptx" <<'PTX'
.version 8.0
.target sm_90
.address_size 64
.visible .entry map(.param .u64 x, .param .align 64 .b8 m[128], .param .u64 y)
{
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .f32 %f;
  .shared .align 128 .b8 tile[256];
  .shared .align 8 .b64 full;
  mov.u32 %r0, full;
  mov.u32 %r1, tile;
  mov.u32 %r2, 0;
  mov.u64 %rd0, m;
  cvta.param.u64 %rd0, %rd0;
  mbarrier.init.shared.b64 [%r0], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r0], 256;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd0, {%r2, %r2}], [%r0];
wait:
  mbarrier.try_wait.parity.shared.b64 %p, [%r0], 0;
  @!%p bra wait;
  ld.shared.f32 %f, [%r1+4];
  ld.param.u64 %rd2, [y];
  st.global.f32 [%rd2], %f;
  ret;
}
PTX
for i in 1 2 3; do # the map must be aligned wherever the allocator puts things
    check 'emu tmap' 0 "$pl" emu "$tmp/map.ptx" --entry map --grid 1 --block 1 --arch sm_90a "in:$tmp/a.npy" \
        tmap:0:f32:5x8:8x8:0 "out:$tmp/y.npy:f32:1"
done
check 'emu tmap with a wrong swizzle' 2 "$pl" emu "$tmp/map.ptx" --entry map --grid 1 --block 1 zeros:4096 tmap:0:f32:8x8:8x8:77
says 'the whole argument is shown' 'tmap:0:f32:8x8:8x8:77'
check 'emu tmap with a wrong option' 2 "$pl" emu "$tmp/map.ptx" --entry map --grid 1 --block 1 zeros:4096 tmap:0:f32:8x8:8x8:0:strides=32x64
check 'emu tmap with an interleave that is none' 2 "$pl" emu "$tmp/map.ptx" --entry map --grid 1 --block 1 zeros:4096 tmap:0:f32:8x8:8x8:0:interleave=5
check 'emu with too many arguments' 1 "$pl" emu "$tmp/twice.ptx" --entry twice --grid 1 --block 1 zeros:64 u32:1 u32:2
says 'both numbers' 'twice has 2 parameters, and 3 arguments were given'
check 'emu with another entry' 1 "$pl" emu "$tmp/twice.ptx" --entry thrice --grid 1 --block 1 zeros:64 u32:1
says 'its name' 'has no entry named thrice'
check 'emu with no grid' 2 "$pl" emu "$tmp/twice.ptx" --entry twice --grid 0 --block 1 zeros:64 u32:1
says 'the option' '--grid 0: wanted 1 to 3 extents'
check 'emu with too large a block' 1 "$pl" emu "$tmp/twice.ptx" --entry twice --grid 1 --block 5000 zeros:64 u32:1
says 'the block' 'PL8418: twice: a block of 5000 x 1 x 1'
check 'emu of a folder' 1 "$pl" emu "$tmp" --entry twice --grid 1 --block 1 zeros:64 u32:1
says 'the reason' 'Is a directory'
check 'emu without an entry' 2 "$pl" emu "$tmp/twice.ptx" --grid 1 --block 1
[ "$failures" = 0 ]
