#!/bin/sh
# A plain program of the Driver API (tests/emu_program.c), built with the toolkit's header and linked with its stub of
# libcuda.so.1, and a kernel from nvcc, on the emulated driver by LD_LIBRARY_PATH alone. Skipped, visibly, without a toolkit.
set -e
: "${PL_SRCDIR:=.}" "${PL_BUILDDIR:=.}" "${CC:=cc}"
stubs=$PL_CUDA_HOME/lib64/stubs
if [ -z "$PL_CUDA_HOME" ] || [ ! -f "$PL_CUDA_HOME/include/cuda.h" ] || [ ! -f "$stubs/libcuda.so" ] ||
    [ ! -x "$PL_CUDA_HOME/bin/nvcc" ]; then
    echo "skipped: no CUDA toolkit (cuda.h, nvcc and the stub of libcuda.so)"
    exit 77
fi
if nm -D "$PL_BUILDDIR/emu/.libs/libplaunch-emu.so" | grep -q __asan_init; then
    echo "skipped: a program without the sanitizer cannot load a library with it"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$CC -I"$PL_CUDA_HOME/include" "$PL_SRCDIR/tests/emu_program.c" -o "$dir/program" -L"$stubs" -lcuda
cat >"$dir/saxpy.cu" <<'EOF'
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}
EOF
for arch in sm_80 sm_90 sm_100; do
    "$PL_CUDA_HOME/bin/nvcc" -arch=$arch -ptx "$dir/saxpy.cu" -o "$dir/saxpy.ptx"
    PLAUNCH_EMU_ARCH=$arch LD_LIBRARY_PATH=$PL_BUILDDIR/emu/.libs/plaunch "$dir/program" "$dir/saxpy.ptx"
done
# Linked with the emulated driver itself, it asks for that by the name it gives.
$CC -I"$PL_CUDA_HOME/include" "$PL_SRCDIR/tests/emu_program.c" -o "$dir/linked" -L"$PL_BUILDDIR/emu/.libs/plaunch" -lcuda
PLAUNCH_EMU_ARCH=sm_100a LD_LIBRARY_PATH=$PL_BUILDDIR/emu/.libs/plaunch "$dir/linked" "$dir/saxpy.ptx"
# The same out of a fat binary, under each compression that nvcc knows.
for mode in none speed size; do
    "$PL_CUDA_HOME/bin/nvcc" -fatbin -gencode arch=compute_80,code=[sm_80,compute_80] \
        -gencode arch=compute_100a,code=compute_100a --compress-mode=$mode "$dir/saxpy.cu" -o "$dir/saxpy.fatbin"
    PLAUNCH_EMU_ARCH=sm_90a LD_LIBRARY_PATH=$PL_BUILDDIR/emu/.libs/plaunch "$dir/program" "$dir/saxpy.fatbin"
done
