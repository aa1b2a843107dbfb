/*
 * The emulated driver: contexts, memory, copies, modules and libraries, attributes, occupancy, tensor maps, links.
 */
#include "tests/emu_driver.h"

#include <pthread.h>

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

START_TEST(primary_context_keeps_its_handle)
{
    CUcontext a, b, now;
    unsigned flags;
    int active;
    ok(cu.cuInit(0));
    ok(cu.cuDevicePrimaryCtxGetState(0, &flags, &active));
    ck_assert_int_eq(active, 0);
    ok(cu.cuDevicePrimaryCtxRetain(&a, 0));
    ok(cu.cuDevicePrimaryCtxRetain(&b, 0));
    ck_assert_ptr_eq(a, b);
    ok(cu.cuCtxGetCurrent(&now));
    ck_assert_ptr_null(now); /* retaining does not make it current */
    ok(cu.cuCtxPushCurrent_v2(a));
    ok(cu.cuDevicePrimaryCtxRelease_v2(0));
    ok(cu.cuCtxSynchronize());
    ok(cu.cuDevicePrimaryCtxRelease_v2(0));
    gives(cu.cuCtxSynchronize(), CONTEXT_IS_DESTROYED);
    gives(cu.cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
    ok(cu.cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_YIELD));
    ok(cu.cuDevicePrimaryCtxRetain(&b, 0));
    ck_assert_ptr_eq(a, b);
    ok(cu.cuCtxSynchronize()); /* still on the stack, alive again */
    ok(cu.cuCtxGetFlags(&flags));
    ck_assert_uint_eq(flags, CU_CTX_SCHED_YIELD);
    gives(cu.cuCtxDestroy_v2(a), INVALID_CONTEXT); /* only created ones */
}
END_TEST

START_TEST(primary_reset_frees_memory)
{
    CUcontext a;
    CUdeviceptr p;
    ok(cu.cuInit(0));
    ok(cu.cuDevicePrimaryCtxRetain(&a, 0));
    ok(cu.cuCtxSetCurrent(a));
    ok(cu.cuMemAlloc_v2(&p, 100));
    ck_assert_uint_eq(cu.query("allocations"), 1);
    ok(cu.cuDevicePrimaryCtxReset_v2(0));
    ck_assert_uint_eq(cu.query("allocations"), 0);
    gives(cu.cuMemFree_v2(p), INVALID_VALUE);
    ok(cu.cuMemAlloc_v2(&p, 100));
}
END_TEST

START_TEST(stack_of_contexts)
{
    CUcontext a, b, now;
    unsigned long long id_a, id_b;
    unsigned version;
    CUdevice dev;
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&a, 0, 0));
    ok(cu.cuCtxCreate_v4(&b, NULL, 0, 0));
    ok(cu.cuCtxGetCurrent(&now));
    ck_assert_ptr_eq(now, b);
    ok(cu.cuCtxGetId(a, &id_a));
    ok(cu.cuCtxGetId(NULL, &id_b));
    ck_assert_uint_ne(id_a, id_b);
    ok(cu.cuCtxPushCurrent_v2(a));
    ok(cu.cuCtxGetDevice(&dev));
    ck_assert_int_eq(dev, 0);
    ok(cu.cuCtxGetApiVersion(a, &version));
    ck_assert_uint_ge(version, 3010);
    ok(cu.cuCtxPopCurrent_v2(&now));
    ck_assert_ptr_eq(now, a);
    ok(cu.cuCtxDestroy_v2(b)); /* current: popped too */
    ok(cu.cuCtxGetCurrent(&now));
    ck_assert_ptr_eq(now, a);
    ok(cu.cuCtxDestroy_v2(a));
    ok(cu.cuCtxGetCurrent(&now));
    ck_assert_ptr_null(now);
    gives(cu.cuCtxPopCurrent_v2(&now), INVALID_CONTEXT);
    gives(cu.cuCtxPushCurrent_v2(a), INVALID_CONTEXT);
    ck_assert_uint_eq(cu.query("pushes"), 1);
    ck_assert_uint_eq(cu.query("pops"), 1);
    ck_assert_uint_eq(cu.query("contexts"), 0);
}
END_TEST

START_TEST(stack_has_a_limit)
{
    CUcontext a;
    CUresult r = CUDA_SUCCESS;
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&a, 0, 0));
    for (int i = 0; i < 1000 && r == CUDA_SUCCESS; i++)
        r = cu.cuCtxPushCurrent_v2(a);
    ck_assert_int_eq(r, CUDA_ERROR_OUT_OF_MEMORY);
}
END_TEST

static void *destroy_context(void *ctx) { return (void *)(uintptr_t)cu.cuCtxDestroy_v2(ctx); }

START_TEST(context_destroyed_by_another_thread)
{
    CUcontext a;
    pthread_t t;
    void *r;
    CUdeviceptr p;
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&a, 0, 0));
    ck_assert_int_eq(pthread_create(&t, NULL, destroy_context, a), 0);
    pthread_join(t, &r);
    ck_assert_ptr_null(r);
    gives(cu.cuMemAlloc_v2(&p, 4), CONTEXT_IS_DESTROYED);
    ok(cu.cuCtxSetCurrent(NULL));
    gives(cu.cuMemAlloc_v2(&p, 4), INVALID_CONTEXT);
}
END_TEST

START_TEST(limits_and_configurations)
{
    CUcontext a;
    size_t v;
    CUfunc_cache cache;
    int least, greatest;
    ok(cu.cuInit(0));
    gives(cu.cuCtxCreate_v2(&a, 0x1000, 0), INVALID_VALUE);
    gives(cu.cuCtxCreate_v2(&a, 0, 1), INVALID_DEVICE);
    ok(cu.cuCtxCreate_v2(&a, 0, 0));
    ok(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 5000));
    ok(cu.cuCtxGetLimit(&v, CU_LIMIT_STACK_SIZE));
    ck_assert_uint_eq(v, 5000);
    gives(cu.cuCtxGetLimit(&v, (CUlimit)77), INVALID_VALUE);
    gives(cu.cuCtxGetLimit(&v, CU_LIMIT_SHMEM_SIZE), UNSUPPORTED_LIMIT);
    ok(cu.cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    ok(cu.cuCtxGetCacheConfig(&cache));
    ck_assert_int_eq(cache, CU_FUNC_CACHE_PREFER_L1);
    ok(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    ck_assert_int_gt(least, greatest);
    gives(cu.cuCtxSynchronize_v2((CUcontext)(uintptr_t)0x777), INVALID_CONTEXT);
}
END_TEST

/* deep: n calls of 1 KiB each, one in another. heap: what malloc gives for n bytes. */
static const char limits_ptx[] = ".version 7.8\n"
                                 ".target sm_80\n"
                                 ".address_size 64\n"
                                 ".extern .func (.param .b64 r) malloc(.param .b64 n);\n"
                                 ".func down(.reg .u32 n)\n"
                                 "{\n"
                                 "    .local .align 8 .b8 frame[1024];\n"
                                 "    .reg .pred p;\n"
                                 "    .reg .u32 less;\n"
                                 "    st.local.u32 [frame+1020], n;\n"
                                 "    setp.eq.u32 p, n, 0;\n"
                                 "    @p bra done;\n"
                                 "    sub.u32 less, n, 1;\n"
                                 "    call down, (less);\n"
                                 "done:\n"
                                 "    ret;\n"
                                 "}\n"
                                 ".visible .entry deep(.param .u64 out, .param .u32 count)\n"
                                 "{\n"
                                 "    .reg .u64 o;\n"
                                 "    .reg .u32 n;\n"
                                 "    ld.param.u64 o, [out];\n"
                                 "    ld.param.u32 n, [count];\n"
                                 "    call down, (n);\n"
                                 "    st.global.u32 [o], n;\n"
                                 "    ret;\n"
                                 "}\n"
                                 ".visible .entry heap(.param .u64 out, .param .u32 count)\n"
                                 "{\n"
                                 "    .reg .u64 o, got;\n"
                                 "    .reg .u32 n;\n"
                                 "    .reg .pred p;\n"
                                 "    .param .b64 bytes;\n"
                                 "    .param .b64 result;\n"
                                 "    ld.param.u64 o, [out];\n"
                                 "    ld.param.u32 n, [count];\n"
                                 "    cvt.u64.u32 got, n;\n"
                                 "    st.param.b64 [bytes], got;\n"
                                 "    call (result), malloc, (bytes);\n"
                                 "    ld.param.b64 got, [result];\n"
                                 "    setp.ne.u64 p, got, 0;\n"
                                 "    selp.u32 n, 1, 0, p;\n"
                                 "    st.global.u32 [o], n;\n"
                                 "    ret;\n"
                                 "}\n";

START_TEST(limits_are_kept)
{
    begin();
    CUmodule m;
    CUfunction deep, heap;
    CUdeviceptr p;
    uint32_t n = 12u << 20;
    void *params[] = {&p, &n};
    ok(cu.cuModuleLoadData(&m, limits_ptx));
    ok(cu.cuModuleGetFunction(&deep, m, "deep"));
    ok(cu.cuModuleGetFunction(&heap, m, "heap"));
    ok(cu.cuMemAlloc_v2(&p, 4));
    ok(launch_one(heap, NULL, params));
    ck_assert_uint_eq(read_word(p), 0); /* more than 8 MiB */
    ok(cu.cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 32u << 20));
    ok(launch_one(heap, NULL, params));
    ck_assert_uint_eq(read_word(p), 1);
    n = 300;
    ok(cu.cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 400 * 1024));
    ok(launch_one(deep, NULL, params));
    ck_assert_uint_eq(read_word(p), 300);
    n = 500;
    ok(launch_one(deep, NULL, params));
    gives(cu.cuCtxSynchronize(), HARDWARE_STACK_ERROR);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------------------------------------ */

START_TEST(memory_is_accounted)
{
    size_t free_before, free_after, total;
    CUdeviceptr p, base;
    size_t n_bytes;
    begin();
    ok(cu.cuMemGetInfo_v2(&free_before, &total));
    ok(cu.cuMemAlloc_v2(&p, 1000));
    ok(cu.cuMemGetInfo_v2(&free_after, &total));
    ck_assert_uint_ge(free_before - free_after, 1000);
    ok(cu.cuMemGetAddressRange_v2(&base, &n_bytes, p + 999));
    ck_assert_uint_eq(base, p);
    ck_assert_uint_eq(n_bytes, 1000);
    gives(cu.cuMemGetAddressRange_v2(&base, &n_bytes, p + 1000), NOT_FOUND);
    ck_assert_uint_eq(cu.query("allocated_bytes"), 1000);
    gives(cu.cuMemFree_v2(p + 4), INVALID_VALUE);
    ok(cu.cuMemFree_v2(p));
    gives(cu.cuMemFree_v2(p), INVALID_VALUE);
    ok(cu.cuMemGetInfo_v2(&free_after, &total));
    ck_assert_uint_eq(free_before, free_after);
    gives(cu.cuMemAlloc_v2(&p, 0), INVALID_VALUE);
    gives(cu.cuMemAlloc_v2(&p, total + 1), OUT_OF_MEMORY);
    gives(cu.cuMemAlloc_v2(&p, SIZE_MAX), OUT_OF_MEMORY);
}
END_TEST

START_TEST(copies_of_every_direction)
{
    uint8_t in[300], out[300] = {0};
    CUdeviceptr a, b;
    begin();
    for (int i = 0; i < 300; i++)
        in[i] = (uint8_t)(i * 7);
    ok(cu.cuMemAlloc_v2(&a, 300));
    ok(cu.cuMemAlloc_v2(&b, 300));
    ok(cu.cuMemcpyHtoD_v2(a, in, 300));
    ok(cu.cuMemcpyDtoD_v2(b + 1, a, 299));
    ok(cu.cuMemcpyDtoH_v2(out, b, 300));
    ck_assert_int_eq(out[0], 0);
    ck_assert_int_eq(memcmp(out + 1, in, 299), 0);
    ok(cu.cuMemcpy((CUdeviceptr)(uintptr_t)out, a, 300));
    ck_assert_int_eq(memcmp(out, in, 300), 0);
    gives(cu.cuMemcpyHtoD_v2(a, in, 301), INVALID_VALUE);
    gives(cu.cuMemcpyHtoD_v2(a + 299, in, 2), INVALID_VALUE);
    gives(cu.cuMemcpyDtoH_v2(out, 0x1000, 4), INVALID_VALUE);
    gives(cu.cuMemcpyHtoD_v2(a, NULL, 4), INVALID_VALUE);
    ok(cu.cuMemcpyHtoD_v2(a, NULL, 0));
}
END_TEST

START_TEST(fills_of_every_width)
{
    uint32_t out[16];
    CUdeviceptr a;
    begin();
    ok(cu.cuMemAlloc_v2(&a, sizeof out));
    ok(cu.cuMemsetD8_v2(a, 0x12, 64));
    ok(cu.cuMemsetD16_v2(a + 4, 0x3456, 2));
    ok(cu.cuMemsetD32_v2(a + 8, 0x789abcde, 2));
    ok(cu.cuMemsetD2D8_v2(a + 16, 8, 0xff, 2, 3));
    ok(cu.cuMemcpyDtoH_v2(out, a, sizeof out));
    ck_assert_uint_eq(out[0], 0x12121212);
    ck_assert_uint_eq(out[1], 0x34563456);
    ck_assert_uint_eq(out[2], 0x789abcde);
    ck_assert_uint_eq(out[3], 0x789abcde);
    for (int i = 4; i < 10; i++)
        ck_assert_uint_eq(out[i], i % 2 == 0 ? 0x1212ffff : 0x12121212);
    ck_assert_uint_eq(out[10], 0x12121212);
    gives(cu.cuMemsetD32_v2(a + 2, 0, 1), INVALID_VALUE);
    gives(cu.cuMemsetD32_v2(a, 0, 17), INVALID_VALUE);
    gives(cu.cuMemsetD2D32_v2(a, 3, 0, 1, 2), INVALID_VALUE);
    gives(cu.cuMemsetD2D32_v2(a, 10, 0, 2, 2),
          INVALID_VALUE); /* a pitch that is no multiple of 4 */
    gives(cu.cuMemsetD2D16_v2(a, 5, 0, 2, 2), INVALID_VALUE);
    ok(cu.cuMemsetD2D32_v2(a, 10, 0, 2, 1)); /* one row: there is no pitch */
}
END_TEST

START_TEST(context_lives_until_its_last_detach)
{
    CUcontext ctx, same, now;
    begin();
    ok(cu.cuCtxCreate(&ctx, 0, 0));
    gives(cu.cuCtxAttach(&same, 1), INVALID_VALUE);
    ok(cu.cuCtxAttach(&same, 0));
    ck_assert_ptr_eq(same, ctx);
    ok(cu.cuCtxDetach(ctx));
    ok(cu.cuCtxGetCurrent(&now));
    ck_assert_ptr_eq(now, ctx);
    ok(cu.cuCtxPopCurrent(&now));
    gives(cu.cuCtxDetach(ctx), INVALID_CONTEXT);
    ok(cu.cuCtxPushCurrent(ctx));
    ok(cu.cuCtxDetach(ctx));
    gives(cu.cuCtxDetach(ctx), INVALID_CONTEXT);
    gives(cu.cuCtxSetCurrent(ctx), INVALID_CONTEXT);
}
END_TEST

START_TEST(large_memory_has_pages_of_its_own)
{
    CUdeviceptr small, odd, large;
    begin();
    ok(cu.cuMemAlloc_v2(&odd, 8));
    ok(cu.cuMemAlloc_v2(&large, 1 << 20));
    ok(cu.cuMemAlloc_v2(&small, (1 << 20) - 1));
    ck_assert_uint_eq(large % (2 << 20), 0);
    ck_assert_uint_eq(small % 512, 0);
    ck_assert_uint_ne(small % (2 << 20), 0);
}
END_TEST

START_TEST(copies_of_boxes)
{
    uint8_t host[4][5][6], back[4][5][6] = {0};
    CUdeviceptr d;
    size_t pitch;
    begin();
    for (int i = 0; i < 4 * 5 * 6; i++)
        (&host[0][0][0])[i] = (uint8_t)i;
    ok(cu.cuMemAllocPitch_v2(&d, &pitch, 6, 20, 4));
    ck_assert_uint_eq(pitch % 512, 0);
    CUDA_MEMCPY3D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = host,
                        .srcPitch = 6,
                        .srcHeight = 5,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = d,
                        .dstPitch = pitch,
                        .dstHeight = 5,
                        .WidthInBytes = 6,
                        .Height = 5,
                        .Depth = 4};
    ok(cu.cuMemcpy3D_v2(&up));
    /* A box of 2 x 3 x 4 from (2, 1, 1) to (1, 2, 0), the planes below each other. */
    CUDA_MEMCPY3D down = {.srcXInBytes = 1,
                          .srcY = 1,
                          .srcZ = 2,
                          .srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = d,
                          .srcPitch = pitch,
                          .srcHeight = 5,
                          .dstY = 2,
                          .dstZ = 1,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = back,
                          .dstPitch = 6,
                          .dstHeight = 5,
                          .WidthInBytes = 4,
                          .Height = 3,
                          .Depth = 2};
    ok(cu.cuMemcpy3D_v2(&down));
    for (int z = 0; z < 4; z++)
        for (int y = 0; y < 5; y++)
            for (int x = 0; x < 6; x++) {
                bool is_in = x < 4 && y >= 2 && y < 5 && z >= 1 && z < 3;
                ck_assert_int_eq(back[z][y][x], is_in ? host[z + 1][y - 1][x + 1] : 0);
            }
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = d,
                          .srcPitch = pitch,
                          .srcY = 19,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = back,
                          .WidthInBytes = 6,
                          .Height = 1};
    ok(cu.cuMemcpy2D_v2(&flat));
    ck_assert_int_eq(memcmp(back, host[3][4], 6), 0);
    flat.srcY = 20;
    gives(cu.cuMemcpy2D_v2(&flat), INVALID_VALUE);
    flat.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    gives(cu.cuMemcpy2D_v2(&flat), NOT_SUPPORTED);
    up.dstPitch = 5;
    gives(cu.cuMemcpy3D_v2(&up), INVALID_VALUE);
}
END_TEST

START_TEST(host_memory_is_seen_by_kernels)
{
    struct fixture f = begin();
    static uint32_t mine[16];
    uint32_t *pinned;
    CUdeviceptr p, managed;
    unsigned flags;
    ok(cu.cuMemHostAlloc((void **)&pinned, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cu.cuMemHostGetDevicePointer_v2(&p, pinned, 0));
    ok(cu.cuMemHostGetFlags(&flags, pinned));
    ck_assert_uint_eq(flags & CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_DEVICEMAP);
    ok(launch_store(f.store, NULL, p + 8, 77));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(pinned[2], 77);
    ok(cu.cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    ok(launch_store(f.store, NULL, managed, 78));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(*(uint32_t *)(uintptr_t)managed, 78);
    ok(cu.cuMemHostRegister_v2(mine, sizeof mine, 0));
    gives(cu.cuMemHostRegister_v2(mine, 4, 0), HOST_MEMORY_ALREADY_REGISTERED);
    ok(launch_store(f.store, NULL, (CUdeviceptr)(uintptr_t)&mine[3], 79));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(mine[3], 79);
    ok(cu.cuMemHostUnregister(mine));
    gives(cu.cuMemHostUnregister(mine), HOST_MEMORY_NOT_REGISTERED);
    ok(cu.cuMemFree_v2(managed));
    gives(cu.cuMemFree_v2(p), INVALID_VALUE); /* it is the host's */
    ok(cu.cuMemFreeHost(pinned));
    ck_assert_uint_eq(cu.query("allocations"), 0);
}
END_TEST

/* __managed__ in CUDA C++: host and device use it at one address, with what it is initialised to. */
START_TEST(managed_variable_is_seen_by_both)
{
    static const char text[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                               ".global .attribute(.managed) .align 64 .u32 both[20] = {5, 6};\n"
                               ".global .u32 plain;\n"
                               ".visible .entry k() { .reg .b32 v; ld.global.u32 v, [both];\n"
                               "  mad.lo.u32 v, v, 3, 1; st.global.u32 [both + 76], v; ret; }\n";
    struct fixture f = begin();
    CUmodule m;
    CUfunction k;
    CUdeviceptr p, plain;
    size_t n_bytes;
    int is_managed = -1;
    (void)f;
    ok(cu.cuModuleLoadData(&m, text));
    ok(cu.cuModuleGetFunction(&k, m, "k"));
    ok(cu.cuModuleGetGlobal_v2(&p, &n_bytes, m, "both"));
    ck_assert_uint_eq(n_bytes, 80);
    ck_assert_uint_eq(p % 64, 0);
    ok(cu.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p + 4));
    ck_assert_int_eq(is_managed, 1);
    ok(cu.cuModuleGetGlobal_v2(&plain, NULL, m, "plain"));
    ok(cu.cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, plain));
    ck_assert_int_eq(is_managed, 0);
    volatile uint32_t *both = (uint32_t *)(uintptr_t)p;
    ck_assert_uint_eq(both[1], 6);
    ck_assert_uint_eq(both[19], 0);
    both[0] = 100;
    ok(cu.cuLaunchKernel(k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    ok(cu.cuCtxSynchronize());
    ck_assert_uint_eq(both[19], 301);
    ok(cu.cuModuleUnload(m));
}
END_TEST

START_TEST(pointers_are_described)
{
    struct fixture f = begin();
    CUdeviceptr d, start;
    size_t n_bytes;
    void *host;
    unsigned type;
    int ordinal = -1, is_managed;
    CUcontext ctx;
    uint64_t id_a, id_b;
    ok(cu.cuMemAlloc_v2(&d, 100));
    ok(cu.cuMemHostAlloc(&host, 100, 0));
    ok(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d + 50));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
    ok(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)host));
    ck_assert_uint_eq(type, CU_MEMORYTYPE_HOST);
    ok(cu.cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, d));
    ck_assert_ptr_eq(ctx, f.ctx);
    ok(cu.cuPointerGetAttribute(&id_a, CU_POINTER_ATTRIBUTE_BUFFER_ID, d));
    ok(cu.cuPointerGetAttribute(&id_b, CU_POINTER_ATTRIBUTE_BUFFER_ID, (uintptr_t)host));
    ck_assert_uint_ne(id_a, id_b);
    gives(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&type),
          INVALID_VALUE);
    gives(cu.cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, d), INVALID_VALUE);
    CUpointer_attribute attrs[] = {
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
    void *data[] = {&ordinal, &start, &n_bytes, &is_managed};
    ok(cu.cuPointerGetAttributes(4, attrs, data, d + 99));
    ck_assert_int_eq(ordinal, 0);
    ck_assert_uint_eq(start, d);
    ck_assert_uint_eq(n_bytes, 100);
    ck_assert_int_eq(is_managed, 0);
    ok(cu.cuPointerGetAttributes(4, attrs, data, (uintptr_t)&ordinal)); /* unknown: no error */
    ck_assert_int_eq(ordinal, -2);
    ck_assert_uint_eq(n_bytes, 0);
}
END_TEST

START_TEST(pools_and_stream_order)
{
    struct fixture f = begin();
    CUmemoryPool pool, mine;
    CUstream s;
    CUdeviceptr p, q;
    uint64_t used;
    ok(cu.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    ok(cu.cuDeviceGetDefaultMemPool(&pool, 0));
    ok(cu.cuMemAllocAsync(&p, 256, s));
    ok(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    ck_assert_uint_eq(used, 256);
    ok(launch_store(f.store, s, p, 5));
    ok(cu.cuMemFreeAsync(p, s));
    ok(cu.cuStreamSynchronize(s));
    ok(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    ck_assert_uint_eq(used, 0);
    used = 5;
    gives(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used), INVALID_VALUE);
    ok(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
    ck_assert_uint_eq(used, 256);
    used = 0; /* set back to what is used now */
    ok(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
    ok(cu.cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
    ck_assert_uint_eq(used, 0);
    gives(cu.cuMemFreeAsync(p, s), INVALID_VALUE);
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    ok(cu.cuMemPoolCreate(&mine, &props));
    ok(cu.cuMemAllocFromPoolAsync(&q, 64, mine, s));
    ok(cu.cuMemPoolDestroy(mine));
    gives(cu.cuMemPoolTrimTo(mine, 0), INVALID_VALUE);
    ok(cu.cuMemFree_v2(q)); /* a pool's memory may be freed either way */
    gives(cu.cuMemPoolDestroy(pool), INVALID_VALUE);
    ck_assert_uint_eq(cu.query("allocations"), 0);
}
END_TEST

START_TEST(two_devices)
{
    CUcontext a, b;
    CUdeviceptr p, q;
    uint32_t v = 123;
    int ordinal, can;
    ck_assert_int_eq(cu.configure("devices", "sm_90a,sm_100a"), 0);
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&a, 0, 0));
    ok(cu.cuMemAlloc_v2(&p, 4));
    ok(cu.cuCtxCreate_v2(&b, 0, 1));
    ok(cu.cuMemAlloc_v2(&q, 4));
    ck_assert_uint_ne(p, q); /* one address space for all */
    ok(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    ck_assert_int_eq(ordinal, 0);
    ok(cu.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q));
    ck_assert_int_eq(ordinal, 1);
    ok(cu.cuMemcpyHtoD_v2(p, &v, 4)); /* with the context of the other device current */
    ok(cu.cuMemcpyPeer(q, b, p, a, 4));
    ck_assert_uint_eq(read_word(q), 123);
    ok(cu.cuDeviceCanAccessPeer(&can, 0, 1));
    ck_assert_int_eq(can, 0);
    gives(cu.cuCtxEnablePeerAccess(a, 0), PEER_ACCESS_UNSUPPORTED);
    gives(cu.cuCtxEnablePeerAccess(b, 0), INVALID_CONTEXT); /* the current one */
}
END_TEST

/* ---- modules ----------------------------------------------------------------------------------------------------------- */

START_TEST(module_names_what_it_has)
{
    struct fixture f = begin();
    unsigned count;
    CUfunction all[8] = {0}, none;
    CUdeviceptr p;
    size_t n_bytes;
    const char *name;
    size_t offset;
    ok(cu.cuModuleGetFunctionCount(&count, f.module));
    ck_assert_uint_eq(count, 4);
    ok(cu.cuModuleEnumerateFunctions(all, 8, f.module));
    ck_assert_ptr_nonnull(all[3]);
    ck_assert_ptr_null(all[4]);
    gives(cu.cuModuleGetFunction(&none, f.module, "nothing"), NOT_FOUND);
    ok(cu.cuModuleGetGlobal_v2(&p, &n_bytes, f.module, "counter"));
    ck_assert_uint_eq(n_bytes, 4);
    ck_assert_uint_eq(read_word(p), 41);
    gives(cu.cuModuleGetGlobal_v2(&p, &n_bytes, f.module, "nothing"), NOT_FOUND);
    ok(cu.cuFuncGetName(&name, f.add));
    ck_assert_str_eq(name, "add");
    ok(cu.cuFuncGetParamInfo(f.add, 3, &offset, &n_bytes));
    ck_assert_uint_eq(offset, 24);
    ck_assert_uint_eq(n_bytes, 4);
    gives(cu.cuFuncGetParamInfo(f.add, 4, &offset, &n_bytes), INVALID_VALUE);
    ok(cu.cuModuleUnload(f.module));
    gives(cu.cuModuleUnload(f.module), INVALID_HANDLE);
    gives(launch_one(f.fault, NULL, NULL), INVALID_HANDLE);
    ck_assert_uint_eq(cu.query("loads"), 1);
    ck_assert_uint_eq(cu.query("unloads"), 1);
}
END_TEST

static CUresult load_with_log(const char *text, char *log, size_t log_n_bytes, size_t *used)
{
    CUmodule m;
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)log_n_bytes};
    CUresult r = cu.cuModuleLoadDataEx(&m, text, 2, options, values);
    *used = (size_t)(uintptr_t)values[1];
    return r;
}

START_TEST(bad_images_are_refused_with_words)
{
    char log[2000], fault[2000];
    size_t used;
    begin();
    ck_assert_int_eq(load_with_log("\x7f"
                                   "ELF and so on",
                                   log, sizeof log, &used),
                     CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_assert_ptr_nonnull(strstr(log, "PL8400"));
    ck_assert_uint_eq(used, strlen(log) + 1);
    ck_assert_int_eq(
        load_with_log("\x50\xed\x55\xba\x01\x00\x10\x00\x00\x00\x00\x00\x00\x00\x00\x00", log,
                      sizeof log, &used),
        CUDA_ERROR_NO_BINARY_FOR_GPU);
    ck_assert_ptr_nonnull(strstr(log, "PL8401"));
    ck_assert_int_eq(load_with_log("int main(void) {}", log, sizeof log, &used),
                     CUDA_ERROR_INVALID_IMAGE);
    ck_assert_ptr_nonnull(strstr(log, "PL8402"));
    ck_assert_int_eq(
        load_with_log("// later\n.version 9.2\n.target sm_90\n", log, sizeof log, &used),
        CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    ck_assert_ptr_nonnull(strstr(log, "PL8403"));
    cu.last_fault(fault, sizeof fault);
    ck_assert_str_eq(fault, log);
    ck_assert_int_eq(load_with_log(".version 7.8\n.target sm_80\n.address_size 64\n"
                                   ".entry bad() { bogus.instruction; }\n",
                                   log, sizeof log, &used),
                     CUDA_ERROR_INVALID_PTX);
    ck_assert_msg(strncmp(log, "PL80", 4) == 0 && strstr(log, "line 4") != NULL, "%s", log);
    ck_assert_int_eq(load_with_log("int", log, 4, &used), CUDA_ERROR_INVALID_IMAGE); /* cut */
    ck_assert_uint_eq(used, 4);
}
END_TEST

START_TEST(library_limit)
{
    CUlibrary l[3];
    char fault[1000];
    CUcontext ctx;
    ck_assert_int_eq(cu.configure("max_libraries", "2"), 0);
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&ctx, 0, 0));
    ok(cu.cuLibraryLoadData(&l[0], test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    ok(cu.cuLibraryLoadData(&l[1], test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    gives(cu.cuLibraryLoadData(&l[2], test_ptx, NULL, NULL, 0, NULL, NULL, 0), OUT_OF_MEMORY);
    cu.last_fault(fault, sizeof fault);
    ck_assert_ptr_nonnull(strstr(fault, "PL8404"));
    ok(cu.cuLibraryUnload(l[0]));
    ok(cu.cuLibraryLoadData(&l[2], test_ptx, NULL, NULL, 0, NULL, NULL, 0));
}
END_TEST

START_TEST(library_is_of_no_context)
{
    CUlibrary lib, of;
    CUkernel k, all[8];
    CUcontext a, b;
    CUfunction fa, fb;
    CUdeviceptr p;
    CUmodule m;
    unsigned count;
    size_t offset, n_bytes;
    const char *name;
    ok(cu.cuInit(0));
    ok(cu.cuLibraryLoadData(&lib, test_ptx, NULL, NULL, 0, NULL, NULL, 0)); /* no context at all */
    ok(cu.cuLibraryGetKernelCount(&count, lib));
    ck_assert_uint_eq(count, 4);
    ok(cu.cuLibraryEnumerateKernels(all, 8, lib));
    ok(cu.cuLibraryGetKernel(&k, lib, "store"));
    gives(cu.cuLibraryGetKernel(&k, lib, "nothing"), NOT_FOUND);
    ok(cu.cuKernelGetName(&name, k));
    ck_assert_str_eq(name, "store");
    ok(cu.cuKernelGetLibrary(&of, k));
    ck_assert_ptr_eq(of, lib);
    ok(cu.cuKernelGetParamInfo(k, 1, &offset, &n_bytes));
    ck_assert_uint_eq(offset, 8);
    ck_assert_uint_eq(n_bytes, 4);
    gives(cu.cuKernelGetFunction(&fa, k), INVALID_CONTEXT);
    ok(cu.cuCtxCreate_v2(&a, 0, 0));
    ok(cu.cuKernelGetFunction(&fa, k));
    ok(cu.cuLibraryGetModule(&m, lib));
    gives(cu.cuModuleUnload(m), INVALID_HANDLE); /* it is the library's */
    ok(cu.cuCtxCreate_v2(&b, 0, 0));
    ok(cu.cuKernelGetFunction(&fb, k));
    ck_assert_ptr_ne(fa, fb);
    ok(cu.cuMemAlloc_v2(&p, 4));
    gives(launch_store(fa, NULL, p, 1), INVALID_CONTEXT); /* the other context's function */
    ok(launch_store(fb, NULL, p, 1));
    ck_assert_uint_eq(read_word(p), 1);
    ok(launch_store((CUfunction)k, NULL, p, 2)); /* a kernel in a function's place */
    ck_assert_uint_eq(read_word(p), 2);
    ok(cu.cuLibraryUnload(lib));
    gives(launch_store((CUfunction)k, NULL, p, 2), INVALID_HANDLE);
    gives(launch_store(fb, NULL, p, 2), INVALID_HANDLE);
    ck_assert_uint_eq(cu.query("modules"), 0);
}
END_TEST

START_TEST(library_globals_are_of_each_context)
{
    CUlibrary lib;
    CUcontext a, b;
    CUdeviceptr in_a, in_b;
    size_t n_bytes;
    ok(cu.cuInit(0));
    ok(cu.cuLibraryLoadData(&lib, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    ok(cu.cuCtxCreate_v2(&a, 0, 0));
    ok(cu.cuLibraryGetGlobal(&in_a, &n_bytes, lib, "counter"));
    ok(cu.cuMemsetD32_v2(in_a, 7, 1));
    ok(cu.cuCtxCreate_v2(&b, 0, 0));
    ok(cu.cuLibraryGetGlobal(&in_b, &n_bytes, lib, "counter"));
    ck_assert_uint_ne(in_a, in_b);
    ck_assert_uint_eq(read_word(in_b), 41);
    gives(cu.cuLibraryGetManaged(&in_b, &n_bytes, lib, "counter"), NOT_FOUND);
}
END_TEST

START_TEST(link_gives_the_text_back)
{
    CUlinkState state;
    void *out;
    size_t n_bytes;
    CUmodule m;
    begin();
    ok(cu.cuLinkCreate_v2(0, NULL, NULL, &state));
    gives(cu.cuLinkComplete(state, &out, &n_bytes), INVALID_IMAGE);
    ok(cu.cuLinkAddData_v2(state, CU_JIT_INPUT_PTX, (void *)(uintptr_t)test_ptx, sizeof test_ptx,
                           "x", 0, NULL, NULL));
    ok(cu.cuLinkComplete(state, &out, &n_bytes));
    ck_assert_uint_eq(n_bytes, sizeof test_ptx);
    ck_assert_str_eq(out, test_ptx);
    ok(cu.cuModuleLoadData(&m, out));
    ok(cu.cuLinkDestroy(state));
    gives(cu.cuLinkDestroy(state), INVALID_HANDLE);
}
END_TEST

/* ---- functions ------------------------------------------------------------------------------------------------------------ */

START_TEST(attributes_of_functions)
{
    CUlibrary lib;
    CUkernel k;
    CUfunction fn;
    int v;
    struct fixture f = begin();
    ok(cu.cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f.add));
    ck_assert_int_eq(v, 1024);
    ok(cu.cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f.add));
    ck_assert_int_eq(v, 49152);
    gives(cu.cuLaunchKernel(f.fault, 1, 1, 1, 1, 1, 1, 49153, NULL, NULL, NULL), INVALID_VALUE);
    gives(cu.cuFuncSetAttribute(f.add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232449),
          INVALID_VALUE);
    ok(cu.cuFuncSetAttribute(f.add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
    gives(cu.cuFuncSetAttribute(f.add, CU_FUNC_ATTRIBUTE_NUM_REGS, 1), INVALID_VALUE);
    gives(cu.cuFuncGetAttribute(&v, (CUfunction_attribute)99, f.add), INVALID_VALUE);
    ok(cu.cuLibraryLoadData(&lib, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    ok(cu.cuLibraryGetKernel(&k, lib, "add"));
    ok(cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000, k, 0));
    ok(cu.cuKernelGetFunction(&fn, k));
    ok(cu.cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, fn));
    ck_assert_int_eq(v, 100000);
    ok(cu.cuFuncSetAttribute(fn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
    ok(cu.cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 70000, k, 0));
    ok(cu.cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, fn));
    ck_assert_int_eq(v, 60000); /* the function's own wins, in any order */
    gives(cu.cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_NUM_REGS, k, 5), INVALID_DEVICE);
    CUfunctionLoadingState state;
    ok(cu.cuFuncIsLoaded(&state, fn));
    ck_assert_int_eq(state, CU_FUNCTION_LOADING_STATE_UNLOADED);
    ok(cu.cuFuncLoad(fn));
    ok(cu.cuFuncIsLoaded(&state, fn));
    ck_assert_int_eq(state, CU_FUNCTION_LOADING_STATE_LOADED);
}
END_TEST

static size_t shared_of_block(int block_threads) { return (size_t)block_threads * 64; }

START_TEST(occupancy_figures)
{
    int n, block;
    size_t dyn;
    struct fixture f = begin();
    ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f.add, 1024, 0));
    ck_assert_int_eq(n, 2);
    ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f.add, 32, 0));
    ck_assert_int_eq(n, 32);
    ok(cu.cuFuncSetAttribute(f.add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 232448));
    ok(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f.add, 128, 232448));
    ck_assert_int_eq(n, 1);
    ok(cu.cuOccupancyMaxPotentialBlockSize(&n, &block, f.add, NULL, 0, 0));
    ck_assert_int_eq(block, 1024);
    ck_assert_int_eq(n, 8); /* 4 SMs */
    ok(cu.cuOccupancyMaxPotentialBlockSize(&n, &block, f.add, shared_of_block, 0, 512));
    ck_assert_int_eq(block % 32, 0);
    ck_assert_int_le(block, 512);
    ok(cu.cuOccupancyAvailableDynamicSMemPerBlock(&dyn, f.add, 2, 128));
    ck_assert_uint_le(dyn, 233472 / 2 - 1024);
    ck_assert_uint_gt(dyn, 100000);
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                           .value = {.clusterDim = {4, 1, 1}}};
    CUlaunchConfig c = {8, 1, 1, 128, 1, 1, 0, NULL, &a, 1};
    ok(cu.cuOccupancyMaxActiveClusters(&n, f.add, &c));
    ck_assert_int_ge(n, 1);
    ok(cu.cuOccupancyMaxPotentialClusterSize(&n, f.add, &c));
    ck_assert_int_eq(n, 8);
    ok(cu.cuFuncSetAttribute(f.add, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    ok(cu.cuOccupancyMaxPotentialClusterSize(&n, f.add, &c));
    ck_assert_int_eq(n, 16);
}
END_TEST

/* ---- tensor maps -------------------------------------------------------------------------------------------------------------- */

static CUresult encode(CUtensorMap *m, CUdeviceptr p, uint64_t stride_bytes, uint32_t rank)
{
    const cuuint64_t dims[] = {64, 32}, strides[] = {stride_bytes};
    const cuuint32_t box[] = {32, 8}, steps[] = {1, 1};
    return cu.cuTensorMapEncodeTiled(m, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, rank, (void *)(uintptr_t)p,
                                     dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                     CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

START_TEST(tensor_maps)
{
    CUtensorMap a, b;
    CUdeviceptr p;
    char fault[1000];
    begin();
    ok(cu.cuMemAlloc_v2(&p, 64 * 32 * 2 + 256));
    ok(encode(&a, p, 128, 2));
    ok(encode(&b, p + 128, 128, 2));
    ck_assert_int_ne(memcmp(&a, &b, sizeof a), 0);
    ok(cu.cuTensorMapReplaceAddress(&a, (void *)(uintptr_t)(p + 128)));
    ck_assert_int_eq(memcmp(&a, &b, sizeof a), 0);
    gives(cu.cuTensorMapReplaceAddress(&a, (void *)(uintptr_t)(p + 8)), INVALID_VALUE);
    gives(encode(&a, p, 136, 2), INVALID_VALUE); /* stride no multiple of 16 */
    ck_assert_uint_gt(cu.last_fault(fault, sizeof fault), 20);
    ck_assert_ptr_nonnull(strstr(fault, "PL82"));
    gives(encode(&a, p, 128, 6), INVALID_VALUE);
    memset(&a, 0, sizeof a);
    gives(cu.cuTensorMapReplaceAddress(&a, (void *)(uintptr_t)p), INVALID_VALUE);
}
END_TEST

START_TEST(tensor_maps_need_sm_90)
{
    CUtensorMap a;
    CUcontext ctx;
    ck_assert_int_eq(cu.configure("arch", "sm_80"), 0);
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&ctx, 0, 0));
    gives(encode(&a, 0x1000, 128, 2), NOT_SUPPORTED);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_ctx");
    TCase *t = tcase_create("contexts");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, primary_context_keeps_its_handle);
    tcase_add_test(t, primary_reset_frees_memory);
    tcase_add_test(t, stack_of_contexts);
    tcase_add_test(t, stack_has_a_limit);
    tcase_add_test(t, context_destroyed_by_another_thread);
    tcase_add_test(t, limits_and_configurations);
    tcase_add_test(t, limits_are_kept);
    suite_add_tcase(s, t);
    t = tcase_create("memory");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, memory_is_accounted);
    tcase_add_test(t, copies_of_every_direction);
    tcase_add_test(t, fills_of_every_width);
    tcase_add_test(t, context_lives_until_its_last_detach);
    tcase_add_test(t, large_memory_has_pages_of_its_own);
    tcase_add_test(t, copies_of_boxes);
    tcase_add_test(t, host_memory_is_seen_by_kernels);
    tcase_add_test(t, managed_variable_is_seen_by_both);
    tcase_add_test(t, pointers_are_described);
    tcase_add_test(t, pools_and_stream_order);
    tcase_add_test(t, two_devices);
    suite_add_tcase(s, t);
    t = tcase_create("code");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, module_names_what_it_has);
    tcase_add_test(t, bad_images_are_refused_with_words);
    tcase_add_test(t, library_limit);
    tcase_add_test(t, library_is_of_no_context);
    tcase_add_test(t, library_globals_are_of_each_context);
    tcase_add_test(t, link_gives_the_text_back);
    tcase_add_test(t, attributes_of_functions);
    tcase_add_test(t, occupancy_figures);
    tcase_add_test(t, tensor_maps);
    tcase_add_test(t, tensor_maps_need_sm_90);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
