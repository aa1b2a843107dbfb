#ifndef PL_RUNTIME_CUDA_ABI_H
#define PL_RUNTIME_CUDA_ABI_H
/*
 * The part of the CUDA Driver API's binary interface that the runtime uses: handles, structs and numbers, in names of our own,
 * so that plaunch builds without the toolkit. tests/lint/cuda_abi.sh compares every one with a toolkit's cuda.h where there is one.
 *
 * Source  CUDA Driver API, sections "Data types used by CUDA driver" and "Tensor Map Object Management" (CUDA 13.0)
 */
#include <stddef.h>
#include <stdint.h>

typedef int pl_cu_result; /* CUresult */
typedef int pl_cu_device; /* CUdevice: ordinal */
typedef uint64_t pl_cu_ptr;
typedef struct CUctx_st *pl_cu_context;
typedef struct CUstream_st *pl_cu_stream;
typedef struct CUfunc_st *pl_cu_function;
typedef struct CUlib_st *pl_cu_library;
typedef struct CUkern_st *pl_cu_kernel;
typedef struct CUlinkState_st *pl_cu_link;

enum {
    PL_CU_SUCCESS = 0,
    PL_CU_INVALID_VALUE = 1,
    PL_CU_OUT_OF_MEMORY = 2,
    PL_CU_NOT_INITIALIZED = 3,
    PL_CU_DEINITIALIZED = 4,
    PL_CU_NO_DEVICE = 100,
    PL_CU_INVALID_IMAGE = 200,
    PL_CU_INVALID_CONTEXT = 201,
    PL_CU_NO_BINARY_FOR_GPU = 209,
    PL_CU_INVALID_PTX = 218,
    PL_CU_JIT_COMPILER_NOT_FOUND = 221,
    PL_CU_UNSUPPORTED_PTX_VERSION = 222,
    PL_CU_JIT_COMPILATION_DISABLED = 223,
    PL_CU_INVALID_HANDLE = 400,
    PL_CU_NOT_FOUND = 500,
    PL_CU_ILLEGAL_ADDRESS = 700,
    PL_CU_LAUNCH_OUT_OF_RESOURCES = 701,
    PL_CU_LAUNCH_TIMEOUT = 702,
    PL_CU_ASSERT = 710,
    PL_CU_HARDWARE_STACK_ERROR = 714,
    PL_CU_LAUNCH_FAILED = 719,
    PL_CU_TENSOR_MEMORY_LEAK = 721,
    PL_CU_NOT_PERMITTED = 800,
    PL_CU_STREAM_CAPTURE_UNSUPPORTED = 900,
    PL_CU_STREAM_CAPTURE_IMPLICIT = 906,
    PL_CU_STREAM_CAPTURE_WRONG_THREAD = 908,
    PL_CU_INVALID_CLUSTER_SIZE = 912,
};

enum { /* CUdevice_attribute */
       PL_CU_ATTR_N_SMS = 16,
       PL_CU_ATTR_CC_MAJOR = 75,
       PL_CU_ATTR_CC_MINOR = 76,
       PL_CU_ATTR_MAX_THREADS_PER_SM = 39,
       PL_CU_ATTR_MAX_SMEM_OPTIN = 97,
};

enum { /* CUfunction_attribute */
       PL_CU_FUNC_STATIC_SMEM = 1,
       PL_CU_FUNC_LOCAL_BYTES = 3,
       PL_CU_FUNC_N_REGS = 4,
       PL_CU_FUNC_MAX_DYNAMIC_SMEM = 8,
       PL_CU_FUNC_NON_PORTABLE_CLUSTER = 14,
};

enum {
    PL_CU_CAPTURE_NONE = 0,
    PL_CU_CAPTURE_ACTIVE = 1,
    PL_CU_CAPTURE_INVALIDATED = 2
}; /* CUstreamCaptureStatus */
enum {
    PL_CU_CAPTURE_MODE_GLOBAL = 0,
    PL_CU_CAPTURE_MODE_THREAD_LOCAL = 1,
    PL_CU_CAPTURE_MODE_RELAXED = 2
};
enum { PL_CU_POINTER_DEVICE_ORDINAL = 9 }; /* CUpointer_attribute */

enum { /* CUjit_option and CUjitInputType */
       PL_CU_JIT_INFO_LOG_BUFFER = 3,
       PL_CU_JIT_INFO_LOG_BYTES = 4,
       PL_CU_JIT_ERROR_LOG_BUFFER = 5,
       PL_CU_JIT_ERROR_LOG_BYTES = 6,
       PL_CU_JIT_LOG_VERBOSE = 12,
       PL_CU_JIT_INPUT_PTX = 1,
};

enum { /* CUlaunchAttributeID */
       PL_CU_LAUNCH_COOPERATIVE = 2,
       PL_CU_LAUNCH_CLUSTER_DIMENSION = 4,
       PL_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};

/* Keys of the `extra` array: the parameters as one block. */
#define PL_CU_PARAM_END          ((void *)0)
#define PL_CU_PARAM_BUFFER       ((void *)1)
#define PL_CU_PARAM_BUFFER_BYTES ((void *)2)

typedef union {
    char pad[64];
    int flag; /* cooperative, programmatic stream serialization */
    struct {
        unsigned x, y, z;
    } cluster;
} pl_cu_launch_attr_value;

typedef struct {
    int id;
    char pad[4];
    pl_cu_launch_attr_value value;
} pl_cu_launch_attr; /* CUlaunchAttribute */

typedef struct {
    unsigned grid[3]; /* CTAs, not clusters */
    unsigned block[3];
    unsigned dynamic_smem_bytes;
    pl_cu_stream stream;
    pl_cu_launch_attr *attrs;
    unsigned n_attrs;
} pl_cu_launch_config; /* CUlaunchConfig */

typedef struct {
    _Alignas(64) uint64_t words[16];
} pl_cu_tensor_map; /* CUtensorMap: the driver wants 64-byte alignment; a kernel parameter holds it at 128 */

enum { /* CUtensorMapDataType */
       PL_CU_TMAP_U8 = 0,
       PL_CU_TMAP_U16,
       PL_CU_TMAP_U32,
       PL_CU_TMAP_I32,
       PL_CU_TMAP_U64,
       PL_CU_TMAP_I64,
       PL_CU_TMAP_F16,
       PL_CU_TMAP_F32,
       PL_CU_TMAP_F64,
       PL_CU_TMAP_BF16,
       PL_CU_TMAP_F32_FTZ,
       PL_CU_TMAP_TF32,
       PL_CU_TMAP_TF32_FTZ,
       PL_CU_TMAP_16U4_ALIGN8B,
       PL_CU_TMAP_16U4_ALIGN16B,
       PL_CU_TMAP_16U6_ALIGN16B,
};

enum { PL_CU_TMAP_INTERLEAVE_NONE = 0, PL_CU_TMAP_INTERLEAVE_16B, PL_CU_TMAP_INTERLEAVE_32B };
enum { /* CUtensorMapSwizzle */
       PL_CU_TMAP_SWIZZLE_NONE = 0,
       PL_CU_TMAP_SWIZZLE_32B,
       PL_CU_TMAP_SWIZZLE_64B,
       PL_CU_TMAP_SWIZZLE_128B,
       PL_CU_TMAP_SWIZZLE_128B_ATOM_32B,
};
enum { PL_CU_TMAP_L2_NONE = 0, PL_CU_TMAP_L2_64B, PL_CU_TMAP_L2_128B, PL_CU_TMAP_L2_256B };
enum { PL_CU_TMAP_FILL_ZERO = 0, PL_CU_TMAP_FILL_NAN };

_Static_assert(sizeof(pl_cu_launch_attr) == 72, "CUlaunchAttribute");
_Static_assert(sizeof(pl_cu_launch_config) == 56, "CUlaunchConfig");
_Static_assert(sizeof(pl_cu_tensor_map) == 128, "CUtensorMap");
#endif
