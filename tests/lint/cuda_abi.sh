#!/bin/sh
# src/runtime/cuda_abi.h and cuda.def against a toolkit's cuda.h: numbers, layouts and the type of every function. Skipped without one.
set -u
top=${PL_SRCDIR:-$(cd "$(dirname "$0")/../.." && pwd)}
cuda=${PL_CUDA_HOME:-}
[ -n "$cuda" ] && [ -f "$cuda/include/cuda.h" ] || { echo "no cuda.h"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/abi.c" <<'CODE'
#include <cuda.h>
#include "src/runtime/cuda_abi.h"
#include <stddef.h>
#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), #ours " is " #theirs)
SAME(PL_CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME(PL_CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME(PL_CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED);
SAME(PL_CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED);
SAME(PL_CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE);
SAME(PL_CU_INVALID_IMAGE, CUDA_ERROR_INVALID_IMAGE);
SAME(PL_CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT);
SAME(PL_CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(PL_CU_INVALID_PTX, CUDA_ERROR_INVALID_PTX);
SAME(PL_CU_JIT_COMPILER_NOT_FOUND, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME(PL_CU_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME(PL_CU_JIT_COMPILATION_DISABLED, CUDA_ERROR_JIT_COMPILATION_DISABLED);
SAME(PL_CU_INVALID_HANDLE, CUDA_ERROR_INVALID_HANDLE);
SAME(PL_CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND);
SAME(PL_CU_ILLEGAL_ADDRESS, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(PL_CU_LAUNCH_OUT_OF_RESOURCES, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME(PL_CU_LAUNCH_TIMEOUT, CUDA_ERROR_LAUNCH_TIMEOUT);
SAME(PL_CU_ASSERT, CUDA_ERROR_ASSERT);
SAME(PL_CU_HARDWARE_STACK_ERROR, CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME(PL_CU_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED);
SAME(PL_CU_TENSOR_MEMORY_LEAK, CUDA_ERROR_TENSOR_MEMORY_LEAK);
SAME(PL_CU_NOT_PERMITTED, CUDA_ERROR_NOT_PERMITTED);
SAME(PL_CU_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
SAME(PL_CU_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
SAME(PL_CU_STREAM_CAPTURE_WRONG_THREAD, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
SAME(PL_CU_INVALID_CLUSTER_SIZE, CUDA_ERROR_INVALID_CLUSTER_SIZE);
SAME(PL_CU_ATTR_N_SMS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(PL_CU_ATTR_CC_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(PL_CU_ATTR_CC_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(PL_CU_ATTR_MAX_THREADS_PER_SM, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME(PL_CU_ATTR_MAX_SMEM_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(PL_CU_FUNC_STATIC_SMEM, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(PL_CU_FUNC_LOCAL_BYTES, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(PL_CU_FUNC_N_REGS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(PL_CU_FUNC_MAX_DYNAMIC_SMEM, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(PL_CU_FUNC_NON_PORTABLE_CLUSTER, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(PL_CU_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(PL_CU_CAPTURE_ACTIVE, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(PL_CU_CAPTURE_INVALIDATED, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(PL_CU_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(PL_CU_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(PL_CU_CAPTURE_MODE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(PL_CU_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(PL_CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER);
SAME(PL_CU_JIT_INFO_LOG_BYTES, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME(PL_CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER);
SAME(PL_CU_JIT_ERROR_LOG_BYTES, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(PL_CU_JIT_INPUT_PTX, CU_JIT_INPUT_PTX);
SAME(PL_CU_LAUNCH_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME(PL_CU_LAUNCH_CLUSTER_DIMENSION, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(PL_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(PL_CU_TMAP_U8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(PL_CU_TMAP_F16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(PL_CU_TMAP_F64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
SAME(PL_CU_TMAP_BF16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(PL_CU_TMAP_16U6_ALIGN16B, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B);
SAME(PL_CU_TMAP_INTERLEAVE_NONE, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME(PL_CU_TMAP_SWIZZLE_128B, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(PL_CU_TMAP_L2_256B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME(PL_CU_TMAP_FILL_NAN, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);
#define FIELD(ours, a, theirs, b) SAME(offsetof(ours, a), offsetof(theirs, b)); SAME(sizeof ((ours *)0)->a, sizeof ((theirs *)0)->b)
SAME(sizeof(pl_cu_launch_config), sizeof(CUlaunchConfig));
FIELD(pl_cu_launch_config, grid[0], CUlaunchConfig, gridDimX);
FIELD(pl_cu_launch_config, grid[2], CUlaunchConfig, gridDimZ);
FIELD(pl_cu_launch_config, block[0], CUlaunchConfig, blockDimX);
FIELD(pl_cu_launch_config, dynamic_smem_bytes, CUlaunchConfig, sharedMemBytes);
FIELD(pl_cu_launch_config, stream, CUlaunchConfig, hStream);
FIELD(pl_cu_launch_config, attrs, CUlaunchConfig, attrs);
FIELD(pl_cu_launch_config, n_attrs, CUlaunchConfig, numAttrs);
SAME(sizeof(pl_cu_launch_attr), sizeof(CUlaunchAttribute));
FIELD(pl_cu_launch_attr, value, CUlaunchAttribute, value);
FIELD(pl_cu_launch_attr, value.cluster.y, CUlaunchAttribute, value.clusterDim.y);
SAME(sizeof(pl_cu_tensor_map), sizeof(CUtensorMap));
int main(void)
{
    return PL_CU_PARAM_END == CU_LAUNCH_PARAM_END && PL_CU_PARAM_BUFFER == CU_LAUNCH_PARAM_BUFFER_POINTER &&
                   PL_CU_PARAM_BUFFER_BYTES == CU_LAUNCH_PARAM_BUFFER_SIZE ? 0 : 1;
}
CODE
${CC:-cc} -std=c11 -Wall -Werror -I"$cuda/include" -I"$top" -o "$dir/abi" "$dir/abi.c" && "$dir/abi" || exit 1

# Every function of cuda.def exists in the toolkit's header, under its exported name, with as many parameters.
${CC:-cc} -E -P -D__CUDA_API_VERSION_INTERNAL -I"$cuda/include" -x c "$cuda/include/cuda.h" | tr '\n' ' ' | tr ';' '\n' >"$dir/all"
${CC:-cc} -E -P -I"$cuda/include" -x c "$cuda/include/cuda.h" | tr '\n' ' ' | tr ';' '\n' >>"$dir/all"
n_params() { tr -cd ',' | wc -c; }
status=0
printf '#define CUDA(name, symbol, need, first, parameters, plausible) @symbol parameters;\n#include "src/runtime/cuda.def"\n' |
    ${CC:-cc} -E -P -I"$top" -x c - | tr '\n' ' ' | tr ';' '\n' | sed -n 's/.*@ *\(cu[A-Za-z0-9_]*\) *\((.*)\).*/\1 \2/p' >"$dir/ours"
[ -s "$dir/ours" ] || { echo "no rows were read"; exit 1; }
while read -r name params; do
    theirs=$(grep -m1 -o "[^A-Za-z0-9_]$name *(.*)" "$dir/all") || { echo "FAIL $name is not in cuda.h"; status=1; continue; }
    # the driver's callback and nested parentheses hold no comma of their own
    [ "$(printf %s "$params" | n_params)" = "$(printf %s "$theirs" | n_params)" ] || { echo "FAIL $name: $params against $theirs"; status=1; }
done <"$dir/ours"
echo "$(wc -l <"$dir/ours") functions compared"
exit $status
