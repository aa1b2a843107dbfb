/*
 * The emulated driver: launches, streams, events, host functions, faults that stick, capture, graphs, threads.
 */
#include "tests/emu_driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static void sleep_ms(unsigned ms) { usleep(ms * 1000); }

/* A word in device memory, 0 at first. */
static CUdeviceptr new_word(void)
{
    CUdeviceptr p;
    ok(cu.cuMemAlloc_v2(&p, 4));
    ok(cu.cuMemsetD32_v2(p, 0, 1));
    ok(cu.cuCtxSynchronize());
    return p;
}

/* A word of host memory that a spinning kernel watches. */
static _Atomic uint32_t *new_flag(void)
{
    void *p;
    ok(cu.cuMemHostAlloc(&p, 4096, 0));
    return p;
}

static CUresult launch_spin(CUfunction f, CUstream s, _Atomic uint32_t *flag)
{
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)flag;
    void *params[] = {&p};
    return launch_one(f, s, params);
}

static CUstream new_stream(unsigned flags)
{
    CUstream s;
    ok(cu.cuStreamCreate(&s, flags));
    return s;
}

/* ---- launches ----------------------------------------------------------------------------------------------------- */

START_TEST(vector_add)
{
    enum { N = 1000 };
    static float in[N], out[N];
    CUdeviceptr a, b, c;
    uint32_t n = N;
    struct fixture f = begin();
    for (int i = 0; i < N; i++)
        in[i] = (float)i * 0.25f;
    ok(cu.cuMemAlloc_v2(&a, sizeof in));
    ok(cu.cuMemAlloc_v2(&b, sizeof in));
    ok(cu.cuMemAlloc_v2(&c, sizeof in));
    ok(cu.cuMemcpyHtoD_v2(a, in, sizeof in));
    ok(cu.cuMemcpyHtoD_v2(b, in, sizeof in));
    void *params[] = {&a, &b, &c, &n};
    ok(cu.cuLaunchKernel(f.add, (N + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    ok(cu.cuMemcpyDtoH_v2(out, c, sizeof out));
    for (int i = 0; i < N; i++)
        ck_assert_float_eq(out[i], (float)i * 0.5f);
    ck_assert_uint_eq(cu.query("launches"), 1);
    ck_assert_uint_gt(cu.query("instructions"), 0);
}
END_TEST

START_TEST(parameters_in_a_buffer)
{
    struct fixture f = begin();
    struct {
        CUdeviceptr p;
        uint32_t v;
    } args = {new_word(), 55};
    size_t n_bytes = 12;
    char fault[600];
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &n_bytes,
                     CU_LAUNCH_PARAM_END};
    ok(cu.cuLaunchKernel(f.store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    ck_assert_uint_eq(read_word(args.p), 55);
    n_bytes = sizeof args; /* padded, as C does */
    ok(cu.cuLaunchKernel(f.store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    n_bytes = 8;
    gives(cu.cuLaunchKernel(f.store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra), INVALID_VALUE);
    cu.last_fault(fault, sizeof fault);
    ck_assert_ptr_nonnull(strstr(fault, "PL8411"));
    n_bytes = 100;
    gives(cu.cuLaunchKernel(f.store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
          LAUNCH_OUT_OF_RESOURCES);
    void *params[] = {&args.p, &args.v};
    gives(cu.cuLaunchKernel(f.store, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra), INVALID_VALUE);
    gives(cu.cuLaunchKernel(f.store, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), INVALID_VALUE);
}
END_TEST

START_TEST(launches_of_before_cuda_4)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word(), q = new_word();
    gives(cu.cuLaunch(f.store), INVALID_VALUE); /* it has no block yet */
    gives(cu.cuFuncSetBlockShape(f.store, 0, 1, 1), INVALID_VALUE);
    ok(cu.cuFuncSetBlockShape(f.store, 1, 1, 1));
    ok(cu.cuFuncSetSharedSize(f.store, 16));
    ok(cu.cuParamSetv(f.store, 0, &p, sizeof p));
    ok(cu.cuParamSeti(f.store, 8, 55));
    gives(cu.cuLaunch(f.store), INVALID_VALUE); /* its parameters have no size yet */
    ok(cu.cuParamSetSize(f.store, 12));
    ok(cu.cuLaunch(f.store));
    ck_assert_uint_eq(read_word(p), 55);
    ok(cu.cuParamSetv(f.store, 0, &q, sizeof q));
    ok(cu.cuParamSetf(f.store, 8, 1.0f));
    ok(cu.cuLaunchGridAsync(f.store, 2, 1, new_stream(CU_STREAM_NON_BLOCKING)));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(read_word(q), 0x3f800000);
    gives(cu.cuLaunchGrid(f.store, 1, 0), INVALID_VALUE);
    gives(cu.cuParamSetv(f.store, -4, &q, 4), INVALID_VALUE);
    gives(cu.cuParamSetv(f.store, 4093, &q, 4), INVALID_VALUE);
    gives(cu.cuParamSetv(f.store, 0, NULL, 4), INVALID_VALUE);
    gives(cu.cuParamSetSize(f.store, 4097), INVALID_VALUE);
}
END_TEST

START_TEST(impossible_launches)
{
    static const unsigned dims[][6] = {
        {0, 1, 1, 1, 1, 1},           {1, 0, 1, 1, 1, 1},     {1, 1, 0, 1, 1, 1},
        {1, 1, 1, 0, 1, 1},           {1, 1, 1, 1, 0, 1},     {1, 1, 1, 1, 1, 0},
        {0x80000000u, 1, 1, 1, 1, 1}, {1, 65536, 1, 1, 1, 1}, {1, 1, 65536, 1, 1, 1},
        {1, 1, 1, 1025, 1, 1},        {1, 1, 1, 1, 1025, 1},  {1, 1, 1, 1, 1, 65},
        {1, 1, 1, 33, 32, 1},
    };
    struct fixture f = begin();
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        const unsigned *d = dims[i];
        gives(cu.cuLaunchKernel(f.fault, d[0], d[1], d[2], d[3], d[4], d[5], 0, NULL, NULL, NULL),
              INVALID_VALUE);
    }
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(cu.query("launches"), 0);
}
END_TEST

static void told(const char *code)
{
    char text[1000];
    cu.last_fault(text, sizeof text);
    ck_assert_msg(strstr(text, code) != NULL, "%s is not in: %s", code, text);
}

/* Kernels that say how they want to be launched. */
static const char picky_ptx[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
                                ".visible .entry small() .maxntid 64, 1, 1 { ret; }\n"
                                ".visible .entry pair() .reqnctapercluster 2, 1, 1 { ret; }\n"
                                ".visible .entry any() .explicitcluster { ret; }\n"
                                ".visible .entry free() { ret; }\n";

START_TEST(parameters_without_a_value)
{
    CUdeviceptr p = 0;
    struct fixture f = begin();
    void *params[] = {&p, &p, NULL, NULL};
    gives(cu.cuLaunchKernel(f.add, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), INVALID_VALUE);
    told("PL8419: add: kernelParams has no value for parameter 2 of 4");
    gives(cu.cuLaunchKernel(f.add, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL), INVALID_VALUE);
    told("PL8419: add: kernelParams has no value for parameter 0 of 4");
}
END_TEST

START_TEST(launches_that_the_kernel_refuses)
{
    CUmodule m;
    CUfunction small, pair, any, plain;
    begin();
    ok(cu.cuModuleLoadData(&m, picky_ptx));
    ok(cu.cuModuleGetFunction(&small, m, "small"));
    ok(cu.cuModuleGetFunction(&pair, m, "pair"));
    ok(cu.cuModuleGetFunction(&any, m, "any"));
    ok(cu.cuModuleGetFunction(&plain, m, "free"));
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                           .value = {.clusterDim = {2, 1, 1}}};
    CUlaunchConfig c = {4, 1, 1, 64, 1, 1, 0, NULL, &a, 0};
    ok(cu.cuLaunchKernelEx(&c, small, NULL, NULL));
    c.blockDimX = 65;
    gives(cu.cuLaunchKernelEx(&c, small, NULL, NULL), INVALID_VALUE);
    told("PL8406");
    c.blockDimX = 5000;
    gives(cu.cuLaunchKernelEx(&c, small, NULL, NULL), INVALID_VALUE);
    told("PL8418: small: a block of 5000 x 1 x 1 is not possible");
    c.blockDimX = 64;
    c.gridDimY = 65536;
    gives(cu.cuLaunchKernelEx(&c, small, NULL, NULL), INVALID_VALUE);
    told("PL8418: small: a grid of 4 x 65536 x 1 is not possible");
    c.gridDimY = 1;
    ok(cu.cuLaunchKernelEx(&c, pair, NULL, NULL));
    gives(cu.cuLaunchKernelEx(&c, any, NULL, NULL), INVALID_CLUSTER_SIZE);
    told("PL8409");
    c.numAttrs = 1;
    ok(cu.cuLaunchKernelEx(&c, pair, NULL, NULL));
    ok(cu.cuLaunchKernelEx(&c, any, NULL, NULL));
    a.value.clusterDim.x = 3;
    gives(cu.cuLaunchKernelEx(&c, plain, NULL, NULL), INVALID_CLUSTER_SIZE); /* 4 % 3 */
    a.value.clusterDim.x = 4;
    gives(cu.cuLaunchKernelEx(&c, pair, NULL, NULL), INVALID_CLUSTER_SIZE);
    c.gridDimX = 16;
    a.value.clusterDim.x = 16;
    gives(cu.cuLaunchKernelEx(&c, plain, NULL, NULL), INVALID_CLUSTER_SIZE);
    ok(cu.cuFuncSetAttribute(plain, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    ok(cu.cuLaunchKernelEx(&c, plain, NULL, NULL));
    gives(cu.cuFuncSetAttribute(pair, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, 4), NOT_PERMITTED);
    a.id = (CUlaunchAttributeID)99;
    gives(cu.cuLaunchKernelEx(&c, plain, NULL, NULL), INVALID_VALUE);
    ok(cu.cuLaunchCooperativeKernel(plain, 8, 1, 1, 1024, 1, 1, 0, NULL, NULL));
    gives(cu.cuLaunchCooperativeKernel(plain, 9, 1, 1, 1024, 1, 1, 0, NULL, NULL),
          COOPERATIVE_LAUNCH_TOO_LARGE);
    told("PL8410");
    gives(cu.cuLaunchKernel(plain, 1, 1, 1, 1, 1, 1, 50000, NULL, NULL, NULL), INVALID_VALUE);
    told("PL8407");
    ok(cu.cuCtxSynchronize());
}
END_TEST

/* 100 values alive at once: more registers than 1,024 threads can have. */
START_TEST(launch_of_too_many_registers)
{
    static char text[16000];
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    int n_regs;
    begin();
    p = new_word();
    size_t n = (size_t)sprintf(text, ".version 7.8\n.target sm_80\n.address_size 64\n"
                                     ".visible .entry wide(.param .u64 p)\n{\n.reg .u64 %%rd;\n"
                                     ".reg .u32 %%s, %%r<160>;\nld.param.u64 %%rd, [p];\n"
                                     "mov.u32 %%s, 0;\n");
    for (int i = 0; i < 160; i++)
        n += (size_t)sprintf(text + n, "ld.volatile.global.u32 %%r%d, [%%rd];\n", i);
    for (int i = 0; i < 160; i++)
        n += (size_t)sprintf(text + n, "xor.b32 %%s, %%s, %%r%d;\n", i);
    sprintf(text + n, "st.global.u32 [%%rd], %%s;\nret;\n}\n");
    ok(cu.cuModuleLoadData(&m, text));
    ok(cu.cuModuleGetFunction(&f, m, "wide"));
    ok(cu.cuFuncGetAttribute(&n_regs, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    ck_assert_int_ge(n_regs, 160);
    void *params[] = {&p};
    ok(cu.cuLaunchKernel(f, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    gives(cu.cuLaunchKernel(f, 1, 1, 1, 1024, 1, 1, 0, NULL, params, NULL),
          LAUNCH_OUT_OF_RESOURCES);
    told("PL8408");
}
END_TEST

/* Values with holes in their lives: the estimate counts all of them, an assembler keeps few at a time. */
START_TEST(launch_of_registers_that_the_estimate_doubts)
{
    enum { N = 72 };
    static char text[16000];
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    int n_regs, n_blocks, n_threads;
    begin();
    size_t n = (size_t)sprintf(text,
                               ".version 7.8\n.target sm_80\n.address_size 64\n"
                               ".visible .entry holes(.param .u64 p)\n{\n.reg .u64 %%rd;\n"
                               ".reg .u32 %%s, %%r<%d>;\nld.param.u64 %%rd, [p];\n"
                               "mov.u32 %%s, 0;\n",
                               N);
    for (int k = 0; k < 2 * N; k++)
        n += (size_t)sprintf(text + n, "ld.global.u32 %%r%d, [%%rd];\nadd.u32 %%s, %%s, %%r%d;\n",
                             k % N, k % N);
    sprintf(text + n, "st.global.u32 [%%rd+4], %%s;\nret;\n}\n");
    ok(cu.cuMemAlloc_v2(&p, 8));
    ok(cu.cuMemsetD32_v2(p, 3, 2));
    ok(cu.cuModuleLoadData(&m, text));
    ok(cu.cuModuleGetFunction(&f, m, "holes"));
    ok(cu.cuFuncGetAttribute(&n_regs, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
    ck_assert_int_gt(n_regs, 64);
    ok(cu.cuFuncGetAttribute(&n_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f));
    ck_assert_int_eq(n_threads, 1024);
    ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n_blocks, f, 1024, 0));
    ck_assert_int_eq(n_blocks, 1);
    void *params[] = {&p};
    ok(cu.cuLaunchKernel(f, 1, 1, 1, 1024, 1, 1, 0, NULL, params, NULL));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(read_word(p + 4), 3 * 2 * N);
}
END_TEST

/* ---- streams ---------------------------------------------------------------------------------------------------------- */

START_TEST(work_is_asynchronous)
{
    struct fixture f = begin();
    _Atomic uint32_t *flag = new_flag();
    CUdeviceptr p = new_word();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    ok(launch_spin(f.spin, s, flag));
    ok(launch_store(f.store, s, p, 9));
    gives(cu.cuStreamQuery(s), NOT_READY);
    CUstream other = new_stream(CU_STREAM_NON_BLOCKING);
    uint32_t v = 1;
    ok(cu.cuMemcpyDtoHAsync_v2(&v, p, 4, other)); /* not behind the spinning kernel */
    ok(cu.cuStreamSynchronize(other));
    ck_assert_uint_eq(v, 0);
    *flag = 1;
    ok(cu.cuStreamSynchronize(s));
    ok(cu.cuStreamQuery(s));
    ck_assert_uint_eq(read_word(p), 9);
}
END_TEST

/* A copy from pageable memory has read it when the call returns, one from pinned memory reads it when its turn comes. */
START_TEST(pageable_source_is_read_by_the_call)
{
    struct fixture f = begin();
    _Atomic uint32_t *flag = new_flag();
    CUdeviceptr p = new_word(), q = new_word(), rows = new_word();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    uint32_t v = 5, grid[4] = {6, 0, 7, 0}, *pinned;
    ok(cu.cuMemAlloc_v2(&rows, 8));
    ok(cu.cuMemHostAlloc((void **)&pinned, 4, 0));
    *pinned = 5;
    ok(launch_spin(f.spin, s, flag));
    ok(cu.cuMemcpyHtoDAsync_v2(p, &v, 4, s));
    ok(cu.cuMemcpyHtoDAsync_v2(q, pinned, 4, s));
    CUDA_MEMCPY2D two = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = grid,
                         .srcPitch = 8,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = rows,
                         .dstPitch = 4,
                         .WidthInBytes = 4,
                         .Height = 2};
    ok(cu.cuMemcpy2DAsync_v2(&two, s));
    v = *pinned = grid[0] = grid[2] = 8;
    *flag = 1;
    ok(cu.cuStreamSynchronize(s));
    ck_assert_uint_eq(read_word(p), 5);
    ck_assert_uint_eq(read_word(q), 8);
    ck_assert_uint_eq(read_word(rows), 6);
    ck_assert_uint_eq(read_word(rows + 4), 7);
}
END_TEST

START_TEST(pageable_target_is_written_by_the_call)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    for (uint32_t i = 1; i < 100; i++) {
        uint32_t v = 0;
        ok(launch_store(f.store, s, p, i));
        ok(cu.cuMemcpyDtoHAsync_v2(&v, p, 4, s));
        ck_assert_uint_eq(v, i);
    }
}
END_TEST

/* Kernels that wait for each other, as many as streams: each needs a worker of its own. */
START_TEST(streams_run_side_by_side)
{
    enum { N = 12 };
    struct fixture f = begin();
    _Atomic uint32_t *flags[N + 1];
    CUstream s[N];
    for (int i = 0; i <= N; i++)
        flags[i] = new_flag();
    for (int i = 0; i < N; i++)
        s[i] = new_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < N; i++) { /* stream i waits for stream i + 1 */
        ok(launch_spin(f.spin, s[i], flags[i + 1]));
        ok(launch_store(f.store, s[i], (CUdeviceptr)(uintptr_t)flags[i], 1));
    }
    *flags[N] = 1;
    for (int i = 0; i < N; i++)
        ok(cu.cuStreamSynchronize(s[i]));
    ck_assert_uint_eq(*flags[0], 1);
}
END_TEST

START_TEST(legacy_stream_orders_blocking_ones)
{
    struct fixture f = begin();
    _Atomic uint32_t *flag = new_flag();
    CUdeviceptr p = new_word();
    CUstream a = new_stream(0), b = new_stream(0), free_one = new_stream(CU_STREAM_NON_BLOCKING);
    ok(launch_spin(f.spin, a, flag));
    ok(launch_store(f.store, NULL, p, 1)); /* waits for a */
    ok(launch_store(f.store, b, p, 2));    /* waits for the legacy stream */
    ok(launch_store(f.store, free_one, p, 3));
    ok(cu.cuStreamSynchronize(free_one));
    gives(cu.cuStreamQuery(b), NOT_READY);
    gives(cu.cuStreamQuery(CU_STREAM_LEGACY), NOT_READY);
    *flag = 1;
    ok(cu.cuStreamSynchronize(b));
    ck_assert_uint_eq(read_word(p), 2);
}
END_TEST

START_TEST(events_order_streams)
{
    struct fixture f = begin();
    _Atomic uint32_t *flag = new_flag();
    CUdeviceptr p = new_word();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e, never, quiet;
    float ms = -1;
    ok(cu.cuEventCreate(&e, 0));
    ok(cu.cuEventCreate(&never, 0));
    ok(cu.cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING));
    gives(cu.cuEventCreate(&quiet, CU_EVENT_INTERPROCESS), INVALID_VALUE); /* it would be timed */
    gives(cu.cuEventCreate(&quiet, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), NOT_SUPPORTED);
    ok(cu.cuEventQuery(e)); /* never recorded */
    ok(cu.cuStreamWaitEvent(b, never, 0));
    ok(launch_spin(f.spin, a, flag));
    ok(launch_store(f.store, a, p, 5));
    ok(cu.cuEventRecord(e, a));
    ok(cu.cuStreamWaitEvent(b, e, 0));
    ok(launch_store(f.store, b, p, 6));
    gives(cu.cuEventQuery(e), NOT_READY);
    gives(cu.cuEventElapsedTime(&ms, e, e), NOT_READY);
    sleep_ms(5);
    *flag = 1;
    ok(cu.cuStreamSynchronize(b));
    ck_assert_uint_eq(read_word(p), 6);
    ok(cu.cuEventSynchronize(e));
    CUevent later;
    ok(cu.cuEventCreate(&later, 0));
    ok(cu.cuEventRecord(later, a));
    ok(cu.cuEventSynchronize(later));
    ok(cu.cuEventElapsedTime(&ms, e, later));
    ck_assert_float_ge(ms, 0);
    ok(cu.cuEventRecord(quiet, a));
    ok(cu.cuEventSynchronize(quiet));
    gives(cu.cuEventElapsedTime(&ms, e, quiet), INVALID_HANDLE);
    gives(cu.cuEventElapsedTime(&ms, e, never), INVALID_HANDLE);
}
END_TEST

START_TEST(streams_describe_themselves)
{
    struct fixture f = begin();
    CUstream s;
    CUcontext ctx;
    CUgreenCtx green;
    CUdevice dev = -1;
    unsigned flags;
    int priority;
    unsigned long long id_a, id_b;
    ok(cu.cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -99));
    ok(cu.cuStreamGetPriority(s, &priority));
    ck_assert_int_eq(priority, -5); /* clamped */
    ok(cu.cuStreamGetFlags(s, &flags));
    ck_assert_uint_eq(flags, CU_STREAM_NON_BLOCKING);
    ok(cu.cuStreamGetId(s, &id_a));
    ok(cu.cuStreamGetId(NULL, &id_b));
    ck_assert_uint_ne(id_a, id_b);
    ok(cu.cuStreamGetDevice(s, &dev));
    ck_assert_int_eq(dev, 0);
    CUcontext other;
    ok(cu.cuCtxCreate_v2(&other, 0, 0));
    ok(cu.cuStreamGetCtx_v2(s, &ctx, &green));
    ck_assert_ptr_eq(ctx, f.ctx); /* its own, not the current one */
    ck_assert_ptr_null(green);
    ok(cu.cuStreamGetCtx(NULL, &ctx));
    ck_assert_ptr_eq(ctx, other);
    ok(cu.cuCtxSetCurrent(NULL));
    ok(cu.cuCtxSetCurrent(NULL));
    CUdeviceptr p;
    gives(cu.cuMemAlloc_v2(&p, 4), INVALID_CONTEXT);
    ok(cu.cuStreamSynchronize(s)); /* a handle needs no current context */
    gives(cu.cuStreamSynchronize(NULL), INVALID_CONTEXT);
}
END_TEST

START_TEST(destroyed_stream_finishes_its_work)
{
    struct fixture f = begin();
    _Atomic uint32_t *flag = new_flag();
    CUdeviceptr p = new_word();
    CUstream s = new_stream(0);
    ok(launch_spin(f.spin, s, flag));
    ok(launch_store(f.store, s, p, 8));
    ok(cu.cuStreamDestroy_v2(s));
    gives(cu.cuStreamDestroy_v2(s), INVALID_HANDLE);
    gives(cu.cuStreamQuery(s), INVALID_HANDLE);
    *flag = 1;
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(read_word(p), 8);
}
END_TEST

START_TEST(stream_memory_operations)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word(), q = new_word();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cu.cuStreamWaitValue32_v2(a, p, 3, CU_STREAM_WAIT_VALUE_GEQ));
    ok(launch_store(f.store, a, q, 1));
    gives(cu.cuStreamQuery(a), NOT_READY);
    ok(cu.cuStreamWriteValue32_v2(b, p, 3, 0));
    ok(cu.cuStreamSynchronize(a));
    ck_assert_uint_eq(read_word(q), 1);
    gives(cu.cuStreamWriteValue32_v2(b, p + 2, 3, 0), INVALID_VALUE);
    gives(cu.cuStreamWriteValue32_v2(b, 64, 3, 0), INVALID_VALUE);
}
END_TEST

START_TEST(batch_of_memory_operations)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word(), q = new_word();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamBatchMemOpParams ops[3] = {
        {.waitValue =
             {CU_STREAM_MEM_OP_WAIT_VALUE_32, p, {.value = 3}, CU_STREAM_WAIT_VALUE_EQ, 0}},
        {.operation = CU_STREAM_MEM_OP_BARRIER},
        {.waitValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, q, {.value = 5}, 0, 0}},
    };
    ok(cu.cuStreamBatchMemOp_v2(a, 3, ops, 0));
    ok(launch_store(f.store, a, p, 1));
    gives(cu.cuStreamQuery(a), NOT_READY);
    ck_assert_uint_eq(read_word(q), 0);
    ok(cu.cuStreamWriteValue32(b, p, 3, 0));
    ok(cu.cuStreamSynchronize(a));
    ck_assert_uint_eq(read_word(q), 5);
    ck_assert_uint_eq(read_word(p), 1);
    gives(cu.cuStreamBatchMemOp_v2(a, 3, NULL, 0), INVALID_VALUE);
    gives(cu.cuStreamBatchMemOp_v2(a, 3, ops, 1), INVALID_VALUE);
    ops[0].waitValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32; /* good, and before a bad one */
    ops[0].waitValue.value = 8;
    ops[0].waitValue.flags = 0;
    ops[1].operation = (CUstreamBatchMemOpType)9;
    gives(cu.cuStreamBatchMemOp(b, 3, ops, 0), INVALID_VALUE);
    ops[1].operation = CU_STREAM_MEM_OP_BARRIER;
    ops[2].waitValue.flags = 2;
    gives(cu.cuStreamBatchMemOp(b, 3, ops, 0), INVALID_VALUE);
    ops[2].waitValue.flags = 0;
    ops[2].waitValue.address = q + 2;
    gives(cu.cuStreamBatchMemOp(b, 3, ops, 0), INVALID_VALUE);
    ok(cu.cuStreamSynchronize(b));
    ck_assert_uint_eq(read_word(p), 1);
    ck_assert_uint_eq(read_word(q), 5);
}
END_TEST

static CUresult seen_in_callback;
static pthread_t callback_thread;

static void host_function(void *user)
{
    int count;
    callback_thread = pthread_self();
    seen_in_callback = cu.cuDeviceGetCount(&count);
    atomic_fetch_add((_Atomic int *)user, 1);
}

START_TEST(host_functions_run_in_order)
{
    struct fixture f = begin();
    _Atomic uint32_t *flag = new_flag();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    _Atomic int n = 0;
    ok(launch_spin(f.spin, s, flag));
    ok(cu.cuLaunchHostFunc(s, host_function, &n));
    sleep_ms(5);
    ck_assert_int_eq(n, 0);
    *flag = 1;
    ok(cu.cuStreamSynchronize(s));
    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(seen_in_callback, CUDA_ERROR_NOT_PERMITTED);
    ck_assert(!pthread_equal(callback_thread, pthread_self()));
    gives(cu.cuLaunchHostFunc(s, NULL, NULL), INVALID_VALUE);
    int count;
    ok(cu.cuDeviceGetCount(&count)); /* here it is permitted */
}
END_TEST

static CUresult callback_status = CUDA_ERROR_UNKNOWN;

static void stream_callback(CUstream stream, CUresult status, void *user)
{
    (void)stream;
    callback_status = status;
    atomic_fetch_add((_Atomic int *)user, 1);
}

static void *use_per_thread_stream(void *word)
{
    CUstream s = CU_STREAM_PER_THREAD;
    unsigned long long *id = word;
    if (cu.cuStreamGetId(s, id) != CUDA_SUCCESS)
        *id = 0;
    return NULL;
}

struct thread_args {
    CUcontext ctx;
    unsigned long long id;
};

static void *per_thread_stream_of_thread(void *arg)
{
    struct thread_args *t = arg;
    if (cu.cuCtxSetCurrent(t->ctx) == CUDA_SUCCESS)
        use_per_thread_stream(&t->id);
    return NULL;
}

START_TEST(per_thread_streams)
{
    struct fixture f = begin();
    _Atomic uint32_t *flag = new_flag();
    struct thread_args args = {f.ctx, 0};
    unsigned long long mine, legacy;
    pthread_t t;
    CUresult (*launch_ptsz)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, CUstream, void **, void **);
    CUresult (*query_ptsz)(CUstream);
    *(void **)&launch_ptsz = driver_symbol("cuLaunchKernel_ptsz");
    *(void **)&query_ptsz = driver_symbol("cuStreamQuery_ptsz");
    ok(cu.cuStreamGetId(CU_STREAM_PER_THREAD, &mine));
    ok(cu.cuStreamGetId(CU_STREAM_LEGACY, &legacy));
    ck_assert_uint_ne(mine, legacy);
    ck_assert_int_eq(pthread_create(&t, NULL, per_thread_stream_of_thread, &args), 0);
    pthread_join(t, NULL);
    ck_assert_uint_ne(args.id, 0);
    ck_assert_uint_ne(args.id, mine);
    CUdeviceptr p = (CUdeviceptr)(uintptr_t)flag;
    void *params[] = {&p};
    ok(launch_ptsz(f.spin, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL)); /* 0 is the thread's own */
    gives(query_ptsz(NULL), NOT_READY);
    gives(cu.cuStreamQuery(CU_STREAM_PER_THREAD), NOT_READY);
    ok(cu.cuStreamQuery(CU_STREAM_LEGACY));
    *flag = 1;
    ok(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
}
END_TEST

START_TEST(reset_forgets_everything)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word();
    CUstream s = new_stream(0);
    ok(launch_store(f.store, s, p, 1));
    ck_assert_int_eq(cu.configure("reset", "1"), 0);
    gives(cu.cuStreamSynchronize(s), NOT_INITIALIZED);
    ok(cu.cuInit(0));
    gives(cu.cuStreamSynchronize(s), INVALID_HANDLE);
    ck_assert_uint_eq(cu.query("allocations"), 0);
    ck_assert_uint_eq(cu.query("contexts"), 0);
    begin();
    ck_assert_uint_eq(cu.query("loads"), 1);
}
END_TEST

/* ---- faults ---------------------------------------------------------------------------------------------------------------- */

START_TEST(fault_sticks_to_its_context)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word(), q;
    CUstream s = new_stream(0);
    CUevent e;
    CUmodule m;
    _Atomic int n = 0;
    int count;
    char text[1000];
    ok(cu.cuEventCreate(&e, 0));
    ok(launch_one(f.fault, s, NULL)); /* the launch itself is fine */
    gives(cu.cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    ck_assert_uint_gt(cu.last_fault(text, sizeof text), 10);
    ck_assert_uint_eq(cu.query("faults"), 1);
    gives(cu.cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    gives(cu.cuStreamQuery(s), ILLEGAL_ADDRESS);
    gives(cu.cuCtxSynchronize(), ILLEGAL_ADDRESS);
    gives(cu.cuMemAlloc_v2(&q, 4), ILLEGAL_ADDRESS);
    gives(cu.cuMemFree_v2(p), ILLEGAL_ADDRESS);
    gives(launch_store(f.store, s, p, 1), ILLEGAL_ADDRESS);
    gives(cu.cuEventRecord(e, s), ILLEGAL_ADDRESS);
    gives(cu.cuEventQuery(e), ILLEGAL_ADDRESS);
    gives(cu.cuModuleLoadData(&m, test_ptx), ILLEGAL_ADDRESS);
    gives(cu.cuLaunchHostFunc(s, host_function, &n), ILLEGAL_ADDRESS);
    ok(cu.cuDeviceGetCount(&count)); /* no context in it */
    CUcontext other;
    ok(cu.cuCtxCreate_v2(&other, 0, 0)); /* another context is not touched */
    ok(cu.cuMemAlloc_v2(&q, 4));
    ok(cu.cuCtxDestroy_v2(other));
    ok(cu.cuCtxDestroy_v2(f.ctx));
    begin();
}
END_TEST

START_TEST(work_behind_a_fault_is_dropped)
{
    struct fixture f = begin();
    _Atomic uint32_t *flag = new_flag(), *out = new_flag();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    _Atomic int n = 0, n_callbacks = 0;
    ok(launch_spin(f.spin, s, flag));
    ok(launch_one(f.fault, s, NULL));
    ok(launch_store(f.store, s, (CUdeviceptr)(uintptr_t)out, 1));
    ok(cu.cuLaunchHostFunc(s, host_function, &n));
    ok(cu.cuStreamAddCallback(s, stream_callback, &n_callbacks, 0));
    *flag = 1;
    gives(cu.cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    ck_assert_uint_eq(*out, 0);
    ck_assert_int_eq(n, 0);           /* a host function is not called */
    ck_assert_int_eq(n_callbacks, 1); /* a stream callback is, with the code */
    ck_assert_int_eq(callback_status, CUDA_ERROR_ILLEGAL_ADDRESS);
}
END_TEST

/* ---- capture -------------------------------------------------------------------------------------------------------------------- */

static CUstreamCaptureStatus status_of(CUstream s)
{
    CUstreamCaptureStatus status;
    ok(cu.cuStreamIsCapturing(s, &status));
    return status;
}

START_TEST(capture_records_instead_of_running)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word(), q = new_word();
    CUstream s = new_stream(0);
    CUgraph g;
    CUgraphExec x;
    CUgraphNode nodes[8];
    CUgraphNodeType type;
    size_t n = 8;
    _Atomic int n_host = 0;
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(launch_store(f.store, s, p, 21));
    ok(cu.cuMemcpyDtoDAsync_v2(q, p, 4, s));
    ok(cu.cuMemsetD32Async(p, 5, 1, s));
    ok(cu.cuLaunchHostFunc(s, host_function, &n_host));
    ok(cu.cuStreamEndCapture(s, &g));
    ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_NONE);
    ck_assert_uint_eq(read_word(p), 0);
    ck_assert_uint_eq(cu.query("launches"), 0);
    ok(cu.cuGraphGetNodes(g, nodes, &n));
    ck_assert_uint_eq(n, 4);
    ok(cu.cuGraphNodeGetType(nodes[0], &type));
    ck_assert_int_eq(type, CU_GRAPH_NODE_TYPE_KERNEL);
    n = 8;
    ok(cu.cuGraphGetEdges(g, NULL, NULL, &n));
    ck_assert_uint_eq(n, 3);
    ok(cu.cuGraphInstantiateWithFlags(&x, g, 0));
    ok(cu.cuGraphDestroy(g)); /* the executable one stands alone */
    for (int i = 0; i < 3; i++)
        ok(cu.cuGraphLaunch(x, s));
    ok(cu.cuStreamSynchronize(s));
    ck_assert_uint_eq(read_word(q), 21);
    ck_assert_uint_eq(read_word(p), 5);
    ck_assert_int_eq(n_host, 3);
    ck_assert_uint_eq(cu.query("launches"), 3);
    ok(cu.cuGraphExecDestroy(x));
    gives(cu.cuGraphLaunch(x, s), INVALID_VALUE);
}
END_TEST

/* A call that GLOBAL and THREAD_LOCAL prohibit in the capturing thread. */
static CUresult unsafe_call(void)
{
    CUdeviceptr p;
    return cu.cuMemAlloc_v2(&p, 16);
}

START_TEST(unsafe_calls_in_the_capturing_thread)
{
    static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
                                                CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                                                CU_STREAM_CAPTURE_MODE_RELAXED};
    CUstreamCaptureMode mode = modes[_i];
    CUstream s;
    CUgraph g;
    begin();
    s = new_stream(CU_STREAM_NON_BLOCKING);
    ok(cu.cuStreamBeginCapture_v2(s, mode));
    if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        ok(unsafe_call());
        ok(cu.cuStreamEndCapture(s, &g));
        return;
    }
    gives(unsafe_call(), STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    gives(cu.cuMemsetD8Async(0x1000, 0, 0, (CUstream)(uintptr_t)5), INVALID_HANDLE);
    gives(cu.cuStreamEndCapture(s, &g), STREAM_CAPTURE_INVALIDATED);
    ck_assert_ptr_null(g);
    ok(unsafe_call());
    /* The thread's own mode can be relaxed for a moment, as a loader does. */
    CUstreamCaptureMode own = CU_STREAM_CAPTURE_MODE_RELAXED;
    ok(cu.cuStreamBeginCapture_v2(s, mode));
    ok(cu.cuThreadExchangeStreamCaptureMode(&own));
    ck_assert_int_eq(own, CU_STREAM_CAPTURE_MODE_GLOBAL);
    ok(unsafe_call());
    ok(cu.cuThreadExchangeStreamCaptureMode(&own));
    ck_assert_int_eq(own, CU_STREAM_CAPTURE_MODE_RELAXED);
    ok(cu.cuStreamEndCapture(s, &g));
}
END_TEST

struct other_thread {
    CUcontext ctx;
    CUstreamCaptureMode mode;
    CUresult result;
};

static void *unsafe_in_thread(void *arg)
{
    struct other_thread *t = arg;
    CUstreamCaptureMode mode = t->mode;
    cu.cuCtxSetCurrent(t->ctx);
    cu.cuThreadExchangeStreamCaptureMode(&mode);
    t->result = unsafe_call();
    return NULL;
}

START_TEST(unsafe_calls_in_another_thread)
{
    struct fixture f = begin();
    CUgraph g;
    pthread_t t;
    for (int capture = 0; capture < 3; capture++) {
        for (int thread = 0; thread < 3; thread++) {
            CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
            struct other_thread o = {f.ctx, (CUstreamCaptureMode)thread, CUDA_ERROR_UNKNOWN};
            bool is_disturbed =
                capture == CU_STREAM_CAPTURE_MODE_GLOBAL && thread == CU_STREAM_CAPTURE_MODE_GLOBAL;
            ok(cu.cuStreamBeginCapture_v2(s, (CUstreamCaptureMode)capture));
            ck_assert_int_eq(pthread_create(&t, NULL, unsafe_in_thread, &o), 0);
            pthread_join(t, NULL);
            ck_assert_int_eq(o.result, is_disturbed ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : 0);
            ck_assert_int_eq(cu.cuStreamEndCapture(s, &g),
                             is_disturbed ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : 0);
        }
    }
}
END_TEST

START_TEST(legacy_stream_in_a_capture)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word();
    CUstream s = new_stream(0), nb = new_stream(CU_STREAM_NON_BLOCKING);
    CUstreamCaptureStatus status;
    CUgraph g;
    gives(cu.cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
          STREAM_CAPTURE_UNSUPPORTED);
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    gives(cu.cuStreamIsCapturing(NULL, &status), STREAM_CAPTURE_IMPLICIT);
    ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_ACTIVE); /* a query harms nothing */
    gives(launch_store(f.store, NULL, p, 1), STREAM_CAPTURE_IMPLICIT);
    ck_assert_int_eq(status_of(s), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    gives(cu.cuStreamEndCapture(s, &g), STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    uint32_t v;
    gives(cu.cuMemcpyDtoH_v2(&v, p, 4), STREAM_CAPTURE_IMPLICIT); /* copies on the legacy stream */
    gives(cu.cuStreamEndCapture(s, &g), STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuStreamBeginCapture_v2(nb, CU_STREAM_CAPTURE_MODE_RELAXED));
    ok(launch_store(f.store, NULL, p, 3)); /* a non-blocking stream does not concern it */
    ok(cu.cuStreamEndCapture(nb, &g));
    ck_assert_uint_eq(read_word(p), 3);
}
END_TEST

START_TEST(conflicts_with_a_capture)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e;
    CUgraph g;
    CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
    ok(cu.cuEventCreate(&e, 0));
    gives(cu.cuStreamEndCapture(s, &g), ILLEGAL_STATE);
    ok(cu.cuThreadExchangeStreamCaptureMode(&relaxed)); /* these are refused all the same */
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    gives(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED), ILLEGAL_STATE);
    ok(launch_store(f.store, s, p, 1));
    ok(cu.cuEventRecord(e, s));
    gives(cu.cuEventQuery(e), CAPTURED_EVENT);
    gives(cu.cuEventSynchronize(e), CAPTURED_EVENT);
    gives(cu.cuStreamQuery(s), STREAM_CAPTURE_UNSUPPORTED);
    gives(launch_store(f.store, s, p, 1), STREAM_CAPTURE_INVALIDATED);
    gives(cu.cuStreamEndCapture(s, &g), STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    gives(cu.cuStreamSynchronize(s), STREAM_CAPTURE_UNSUPPORTED);
    gives(cu.cuStreamEndCapture(s, &g), STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    gives(cu.cuCtxSynchronize(), STREAM_CAPTURE_UNSUPPORTED);
    gives(cu.cuStreamEndCapture(s, &g), STREAM_CAPTURE_INVALIDATED);
}
END_TEST

START_TEST(capture_forks_and_joins)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word(), q = new_word();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent fork, join;
    CUgraph g;
    CUgraphExec x;
    size_t n = 0;
    ok(cu.cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    ok(cu.cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    ok(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(launch_store(f.store, a, p, 1));
    ok(cu.cuEventRecord(fork, a));
    ok(cu.cuStreamWaitEvent(b, fork, 0));
    ck_assert_int_eq(status_of(b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ok(launch_store(f.store, b, q, 2));
    ok(launch_store(f.store, a, p, 3));
    gives(cu.cuStreamEndCapture(b, &g), STREAM_CAPTURE_UNMATCHED);
    ck_assert_int_eq(cu.cuStreamEndCapture(a, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    for (int joined = 0; joined < 2; joined++) {
        ok(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
        ok(launch_store(f.store, a, p, 1));
        ok(cu.cuEventRecord(fork, a));
        ok(cu.cuStreamWaitEvent(b, fork, 0));
        ok(launch_store(f.store, b, q, 2));
        ok(launch_store(f.store, a, p, 3));
        ok(cu.cuEventRecord(join, b));
        if (joined)
            ok(cu.cuStreamWaitEvent(a, join, 0));
        ck_assert_int_eq(cu.cuStreamEndCapture(a, &g),
                         joined ? 0 : CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        ck_assert_int_eq(status_of(b), CU_STREAM_CAPTURE_STATUS_NONE);
    }
    ok(cu.cuGraphGetRootNodes(g, NULL, &n));
    ck_assert_uint_eq(n, 1);
    ok(cu.cuGraphGetEdges(g, NULL, NULL, &n));
    ck_assert_uint_eq(n, 2);
    ok(cu.cuGraphInstantiate_v2(&x, g, NULL, NULL, 0));
    ok(cu.cuGraphLaunch(x, NULL));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(read_word(p), 3);
    ck_assert_uint_eq(read_word(q), 2);
}
END_TEST

START_TEST(captures_do_not_mix)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word();
    CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
    CUevent e, outside;
    CUgraph g;
    ok(cu.cuEventCreate(&e, 0));
    ok(cu.cuEventCreate(&outside, 0));
    ok(cu.cuEventRecord(outside, b));
    ok(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    gives(cu.cuStreamWaitEvent(a, outside, 0), STREAM_CAPTURE_ISOLATION);
    gives(cu.cuStreamEndCapture(a, &g), STREAM_CAPTURE_INVALIDATED);
    ok(cu.cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cu.cuStreamBeginCapture_v2(b, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(launch_store(f.store, a, p, 1));
    ok(cu.cuEventRecord(e, a));
    gives(cu.cuStreamWaitEvent(b, e, 0), STREAM_CAPTURE_MERGE);
    gives(cu.cuStreamEndCapture(a, &g), STREAM_CAPTURE_INVALIDATED);
    gives(cu.cuStreamEndCapture(b, &g), STREAM_CAPTURE_INVALIDATED);
    gives(cu.cuStreamWaitEvent(b, e, 0), CAPTURED_EVENT); /* of a capture that is over */
    ok(cu.cuEventRecord(e, a));
    ok(cu.cuStreamWaitEvent(b, e, 0));
}
END_TEST

struct end_args {
    CUstream stream;
    CUresult result;
};

static void *end_in_thread(void *arg)
{
    struct end_args *e = arg;
    CUgraph g;
    e->result = cu.cuStreamEndCapture(e->stream, &g);
    return NULL;
}

START_TEST(capture_ends_in_its_thread)
{
    begin();
    pthread_t t;
    for (int mode = 0; mode < 3; mode++) {
        struct end_args e = {new_stream(CU_STREAM_NON_BLOCKING), CUDA_ERROR_UNKNOWN};
        ok(cu.cuStreamBeginCapture_v2(e.stream, (CUstreamCaptureMode)mode));
        ck_assert_int_eq(pthread_create(&t, NULL, end_in_thread, &e), 0);
        pthread_join(t, NULL);
        ck_assert_int_eq(e.result, mode == CU_STREAM_CAPTURE_MODE_RELAXED
                                       ? 0
                                       : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }
}
END_TEST

START_TEST(capture_can_be_steered)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word();
    CUstream s = new_stream(CU_STREAM_NON_BLOCKING);
    CUgraph g, inside;
    cuuint64_t id = 0;
    const CUgraphNode *tips;
    CUgraphNode extra, tip;
    size_t n;
    CUstreamCaptureStatus status;
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(launch_store(f.store, s, p, 1));
    ok(cu.cuStreamGetCaptureInfo_v2(s, &status, &id, &inside, &tips, &n));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_uint_ne(id, 0);
    ck_assert_uint_eq(n, 1);
    tip = tips[0];
    CUDA_MEMSET_NODE_PARAMS set = {.dst = p, .value = 7, .elementSize = 4, .width = 1, .height = 1};
    ok(cu.cuGraphAddMemsetNode(&extra, inside, &tip, 1, &set, f.ctx));
    ok(cu.cuStreamUpdateCaptureDependencies(s, &extra, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    gives(cu.cuGraphDestroy(inside), ILLEGAL_STATE);
    gives(cu.cuGraphDestroyNode(extra), ILLEGAL_STATE);
    ok(cu.cuStreamEndCapture(s, &g));
    ck_assert_ptr_eq(g, inside);
    ok(cu.cuGraphGetNodes(g, NULL, &n));
    ck_assert_uint_eq(n, 2);
    ok(cu.cuStreamBeginCaptureToGraph(s, g, &extra, NULL, 1, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(launch_store(f.store, s, p, 3));
    ok(cu.cuStreamEndCapture(s, &inside));
    ck_assert_ptr_eq(g, inside);
    ok(cu.cuGraphGetEdges(g, NULL, NULL, &n));
    ck_assert_uint_eq(n, 2);
}
END_TEST

START_TEST(destroying_ends_a_capture)
{
    begin();
    CUstream s = new_stream(0);
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(cu.cuStreamDestroy_v2(s));
    ok(unsafe_call());
    ck_assert_uint_eq(cu.query("graphs"), 0);
}
END_TEST

/* ---- graphs ------------------------------------------------------------------------------------------------------------------------ */

static CUDA_KERNEL_NODE_PARAMS store_node(CUfunction f, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = f,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

START_TEST(graph_by_hand)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word(), q = new_word();
    uint32_t v = 4, w = 9, host = 0;
    void *params[] = {&p, &v};
    CUgraph g, twin;
    CUgraphNode kernel, copy, call, last;
    CUgraphExec x;
    _Atomic int n_host = 0;
    unsigned is_enabled;
    ok(cu.cuGraphCreate(&g, 0));
    CUDA_KERNEL_NODE_PARAMS k = store_node(f.store, params);
    ok(cu.cuGraphAddKernelNode_v2(&kernel, g, NULL, 0, &k));
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = p,
                       .dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = &host,
                       .WidthInBytes = 4,
                       .Height = 1,
                       .Depth = 1};
    ok(cu.cuGraphAddMemcpyNode(&copy, g, NULL, 0, &c, f.ctx));
    ok(cu.cuGraphAddDependencies(g, &kernel, &copy, 1));
    gives(cu.cuGraphAddDependencies(g, &copy, &kernel, 1), INVALID_VALUE); /* a cycle */
    CUDA_HOST_NODE_PARAMS h = {host_function, &n_host};
    ok(cu.cuGraphAddHostNode(&call, g, &copy, 1, &h));
    ok(cu.cuGraphAddEmptyNode(&last, g, &call, 1));
    v = 100; /* parameters were copied */
    ok(cu.cuGraphInstantiateWithFlags(&x, g, 0));
    ok(cu.cuGraphLaunch(x, NULL));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(host, 4);
    ck_assert_int_eq(n_host, 1);
    void *others[] = {&q, &w};
    k.kernelParams = others;
    ok(cu.cuGraphExecKernelNodeSetParams_v2(x, kernel, &k));
    ok(cu.cuGraphLaunch(x, NULL));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(read_word(q), 9);
    ck_assert_uint_eq(host, 4);
    ok(cu.cuGraphNodeSetEnabled(x, kernel, 0));
    ok(cu.cuGraphNodeGetEnabled(x, kernel, &is_enabled));
    ck_assert_uint_eq(is_enabled, 0);
    ok(cu.cuMemsetD32_v2(q, 0, 1));
    ok(cu.cuGraphLaunch(x, NULL));
    ck_assert_uint_eq(read_word(q), 0);
    gives(cu.cuGraphNodeSetEnabled(x, call, 0), INVALID_VALUE);
    gives(cu.cuGraphExecKernelNodeSetParams_v2(x, copy, &k), INVALID_VALUE);
    ok(cu.cuGraphClone(&twin, g));
    ok(cu.cuGraphDestroyNode(kernel));
    size_t n;
    ok(cu.cuGraphGetNodes(g, NULL, &n));
    ck_assert_uint_eq(n, 3);
    ok(cu.cuGraphGetNodes(twin, NULL, &n));
    ck_assert_uint_eq(n, 4);
    ok(cu.cuGraphGetEdges(twin, NULL, NULL, &n));
    ck_assert_uint_eq(n, 3);
}
END_TEST

START_TEST(graph_in_graph_and_update)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word();
    uint32_t v = 4;
    void *params[] = {&p, &v};
    CUgraph inner, outer, other;
    CUgraphNode n1, n2, n3;
    CUgraphExec x;
    CUevent e;
    CUgraphExecUpdateResultInfo info;
    ok(cu.cuEventCreate(&e, 0));
    ok(cu.cuGraphCreate(&inner, 0));
    CUDA_KERNEL_NODE_PARAMS k = store_node(f.store, params);
    ok(cu.cuGraphAddKernelNode_v2(&n1, inner, NULL, 0, &k));
    ok(cu.cuGraphCreate(&outer, 0));
    ok(cu.cuGraphAddChildGraphNode(&n2, outer, NULL, 0, inner));
    ok(cu.cuGraphAddEventRecordNode(&n3, outer, &n2, 1, e));
    ok(cu.cuGraphInstantiateWithFlags(&x, outer, 0));
    ok(cu.cuGraphLaunch(x, NULL));
    ok(cu.cuEventSynchronize(e));
    ck_assert_uint_eq(read_word(p), 4);
    v = 6;
    ok(cu.cuGraphCreate(&other, 0));
    ok(cu.cuGraphAddKernelNode_v2(&n1, other, NULL, 0, &k));
    gives(cu.cuGraphExecUpdate_v2(x, other, &info), GRAPH_EXEC_UPDATE_FAILURE);
    ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    ok(cu.cuGraphAddEventRecordNode(&n3, other, &n1, 1, e));
    ok(cu.cuGraphExecUpdate_v2(x, other, &info));
    ok(cu.cuGraphLaunch(x, NULL));
    ck_assert_uint_eq(read_word(p), 6);
}
END_TEST

START_TEST(graph_of_an_unloaded_module)
{
    struct fixture f = begin();
    CUdeviceptr p = new_word();
    CUstream s = new_stream(0);
    CUgraph g;
    CUgraphExec x;
    ok(cu.cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ok(launch_store(f.store, s, p, 1));
    ok(cu.cuStreamEndCapture(s, &g));
    ok(cu.cuGraphInstantiateWithFlags(&x, g, 0));
    ok(cu.cuModuleUnload(f.module));
    gives(cu.cuGraphLaunch(x, s), INVALID_HANDLE);
    told("PL8405");
}
END_TEST

/* ---- threads ------------------------------------------------------------------------------------------------------------------------- */

enum { N_THREADS = 8, N_ROUNDS = 50 };

static void *work_in_thread(void *arg)
{
    struct fixture *f = arg;
    uint32_t v = 0;
    CUstream s;
    CUdeviceptr p;
    CUevent e;
    bool is_fine = cu.cuCtxSetCurrent(f->ctx) == 0 && cu.cuStreamCreate(&s, 1) == 0 &&
                   cu.cuMemAlloc_v2(&p, 4) == 0 && cu.cuEventCreate(&e, 0) == 0;
    for (uint32_t i = 1; is_fine && i <= N_ROUNDS; i++) {
        is_fine = launch_store(f->store, s, p, i) == 0 && cu.cuEventRecord(e, s) == 0 &&
                  cu.cuMemcpyDtoHAsync_v2(&v, p, 4, s) == 0 && cu.cuStreamSynchronize(s) == 0 &&
                  v == i && cu.cuEventQuery(e) == 0;
    }
    is_fine = is_fine && cu.cuStreamDestroy_v2(s) == 0 && cu.cuMemFree_v2(p) == 0;
    return (void *)(uintptr_t)is_fine;
}

START_TEST(threads_share_a_context)
{
    struct fixture f = begin();
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, work_in_thread, &f), 0);
    for (int i = 0; i < N_THREADS; i++) {
        void *r;
        pthread_join(threads[i], &r);
        ck_assert_ptr_nonnull(r);
    }
    ck_assert_uint_eq(cu.query("launches"), N_THREADS * N_ROUNDS);
    ck_assert_uint_eq(cu.query("submitted"), cu.query("completed"));
    ck_assert_uint_eq(cu.query("allocations"), 0);
}
END_TEST

struct kernel_args {
    CUcontext ctx;
    CUkernel kernel;
    pthread_barrier_t *start;
    CUresult result;
};

static void *launch_kernel_handle(void *arg)
{
    struct kernel_args *k = arg;
    CUdeviceptr p;
    CUresult r = cu.cuCtxSetCurrent(k->ctx);
    if (r == CUDA_SUCCESS)
        r = cu.cuMemAlloc_v2(&p, 4);
    pthread_barrier_wait(k->start);
    uint32_t v = 5, got = 0;
    void *params[] = {&p, &v};
    if (r == CUDA_SUCCESS)
        r = launch_one((CUfunction)k->kernel, CU_STREAM_PER_THREAD, params);
    if (r == CUDA_SUCCESS)
        r = cu.cuStreamSynchronize(CU_STREAM_PER_THREAD);
    if (r == CUDA_SUCCESS)
        r = cu.cuMemcpyDtoH_v2(&got, p, 4);
    k->result = r == CUDA_SUCCESS && got != 5 ? CUDA_ERROR_UNKNOWN : r;
    return NULL;
}

/* A library's first use in a context by many threads at once: one module, and unloading leaves none. */
START_TEST(threads_load_a_library_once)
{
    CUcontext ctx;
    CUlibrary lib;
    CUkernel kernel;
    pthread_barrier_t start;
    pthread_t threads[N_THREADS];
    struct kernel_args args[N_THREADS];
    ok(cu.cuInit(0));
    ok(cu.cuLibraryLoadData(&lib, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    ok(cu.cuLibraryGetKernel(&kernel, lib, "store"));
    ok(cu.cuCtxCreate_v2(&ctx, 0, 0));
    pthread_barrier_init(&start, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++) {
        args[i] = (struct kernel_args){ctx, kernel, &start, CUDA_ERROR_UNKNOWN};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, launch_kernel_handle, &args[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        ok(args[i].result);
    }
    pthread_barrier_destroy(&start);
    ck_assert_uint_eq(cu.query("modules"), 1);
    ok(cu.cuLibraryUnload(lib));
    ck_assert_uint_eq(cu.query("modules"), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_stream");
    TCase *t = tcase_create("launches");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, vector_add);
    tcase_add_test(t, parameters_in_a_buffer);
    tcase_add_test(t, launches_of_before_cuda_4);
    tcase_add_test(t, impossible_launches);
    tcase_add_test(t, launches_that_the_kernel_refuses);
    tcase_add_test(t, parameters_without_a_value);
    tcase_add_test(t, launch_of_too_many_registers);
    tcase_add_test(t, launch_of_registers_that_the_estimate_doubts);
    suite_add_tcase(s, t);
    t = tcase_create("streams");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_set_timeout(t, 20);
    tcase_add_test(t, work_is_asynchronous);
    tcase_add_test(t, pageable_source_is_read_by_the_call);
    tcase_add_test(t, pageable_target_is_written_by_the_call);
    tcase_add_test(t, streams_run_side_by_side);
    tcase_add_test(t, legacy_stream_orders_blocking_ones);
    tcase_add_test(t, events_order_streams);
    tcase_add_test(t, streams_describe_themselves);
    tcase_add_test(t, destroyed_stream_finishes_its_work);
    tcase_add_test(t, stream_memory_operations);
    tcase_add_test(t, batch_of_memory_operations);
    tcase_add_test(t, host_functions_run_in_order);
    tcase_add_test(t, per_thread_streams);
    tcase_add_test(t, reset_forgets_everything);
    tcase_add_test(t, fault_sticks_to_its_context);
    tcase_add_test(t, work_behind_a_fault_is_dropped);
    tcase_add_test(t, threads_share_a_context);
    tcase_add_test(t, threads_load_a_library_once);
    suite_add_tcase(s, t);
    t = tcase_create("capture");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, capture_records_instead_of_running);
    tcase_add_loop_test(t, unsafe_calls_in_the_capturing_thread, 0, 3);
    tcase_add_test(t, unsafe_calls_in_another_thread);
    tcase_add_test(t, legacy_stream_in_a_capture);
    tcase_add_test(t, conflicts_with_a_capture);
    tcase_add_test(t, capture_forks_and_joins);
    tcase_add_test(t, captures_do_not_mix);
    tcase_add_test(t, capture_ends_in_its_thread);
    tcase_add_test(t, capture_can_be_steered);
    tcase_add_test(t, destroying_ends_a_capture);
    tcase_add_test(t, graph_by_hand);
    tcase_add_test(t, graph_in_graph_and_update);
    tcase_add_test(t, graph_of_an_unloaded_module);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
