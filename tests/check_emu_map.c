/*
 * The emulated driver: memory apart from its addresses.
 */
#include "tests/emu_driver.h"

#define PAGE_BYTES ((size_t)2 << 20)

static const CUmemAllocationProp on_device = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                              .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
static const CUmemAccessDesc writable = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static const CUmemAccessDesc readable = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};

static CUmemGenericAllocationHandle new_memory(size_t n_pages)
{
    CUmemGenericAllocationHandle h;
    ok(cu.cuMemCreate(&h, n_pages * PAGE_BYTES, &on_device, 0));
    return h;
}

static CUdeviceptr new_range(size_t n_pages)
{
    CUdeviceptr p;
    ok(cu.cuMemAddressReserve(&p, n_pages * PAGE_BYTES, 0, 0, 0));
    ck_assert_uint_eq(p % PAGE_BYTES, 0);
    return p;
}

static size_t free_bytes(void)
{
    size_t n, total;
    ok(cu.cuMemGetInfo_v2(&n, &total));
    return n;
}

/* A range that grows: what lies across two mappings is one piece for copies, fills and kernels. */
START_TEST(neighbours_are_one_piece)
{
    struct fixture f = begin();
    size_t before = free_bytes();
    CUdeviceptr p = new_range(4), base;
    uint32_t words[4] = {1, 2, 3, 4}, back[4] = {0};
    size_t n = 0;
    CUmemGenericAllocationHandle a = new_memory(1), b = new_memory(2);
    ok(cu.cuMemMap(p, PAGE_BYTES, 0, a, 0));
    ok(cu.cuMemSetAccess(p, PAGE_BYTES, &writable, 1));
    ok(launch_store(f.store, NULL, p + 4, 77));
    ck_assert_uint_eq(read_word(p + 4), 77);
    ck_assert_uint_eq(read_word(p), 0); /* new memory is zero here */
    gives(cu.cuMemcpyHtoD_v2(p + PAGE_BYTES - 8, words, sizeof words), INVALID_VALUE);
    ok(cu.cuMemMap(p + PAGE_BYTES, 2 * PAGE_BYTES, 0, b, 0));
    ok(cu.cuMemSetAccess(p + PAGE_BYTES, 2 * PAGE_BYTES, &writable, 1));
    ck_assert_uint_eq(read_word(p + 4), 77);
    ok(cu.cuMemcpyHtoD_v2(p + PAGE_BYTES - 8, words, sizeof words));
    ok(cu.cuMemcpyDtoH_v2(back, p + PAGE_BYTES - 8, sizeof back));
    ck_assert_mem_eq(back, words, sizeof back);
    ok(launch_store(f.store, NULL, p + 3 * PAGE_BYTES - 4, 5));
    ok(cu.cuMemsetD32_v2(p, 9, 3 * PAGE_BYTES / 4));
    ck_assert_uint_eq(read_word(p + 3 * PAGE_BYTES - 4), 9);
    ok(cu.cuMemGetAddressRange_v2(&base, &n, p + 2 * PAGE_BYTES));
    ck_assert_uint_eq(base, p);
    ck_assert_uint_eq(n, 3 * PAGE_BYTES);
    ck_assert_uint_eq(free_bytes(), before - 3 * PAGE_BYTES);
    ok(cu.cuMemRelease(a));
    ok(cu.cuMemRelease(b));
    ck_assert_uint_eq(free_bytes(), before - 3 * PAGE_BYTES); /* still mapped */
    gives(cu.cuMemFree_v2(p), INVALID_VALUE);
    gives(cu.cuMemAddressFree(p, 4 * PAGE_BYTES), INVALID_VALUE);
    ok(cu.cuMemUnmap(p, 3 * PAGE_BYTES));
    ck_assert_uint_eq(free_bytes(), before);
    ok(cu.cuMemAddressFree(p, 4 * PAGE_BYTES));
    gives(cu.cuMemAddressFree(p, 4 * PAGE_BYTES), INVALID_VALUE);
}
END_TEST

/* One memory at two addresses, as rings have it; it outlives its first place. */
START_TEST(one_memory_twice)
{
    struct fixture f = begin();
    CUdeviceptr p = new_range(2);
    CUmemGenericAllocationHandle h = new_memory(1), again;
    CUmemAllocationProp prop;
    unsigned long long flags;
    ok(cu.cuMemMap(p, PAGE_BYTES, 0, h, 0));
    ok(cu.cuMemMap(p + PAGE_BYTES, PAGE_BYTES, 0, h, 0));
    ok(cu.cuMemSetAccess(p, 2 * PAGE_BYTES, &writable, 1));
    ok(launch_store(f.store, NULL, p + 12, 3));
    ck_assert_uint_eq(read_word(p + PAGE_BYTES + 12), 3);
    ok(cu.cuMemGetAccess(&flags, &writable.location, p + 12));
    ck_assert_uint_eq(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    ok(cu.cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 12)));
    ck_assert_uint_eq(again, h);
    ok(cu.cuMemRelease(again));
    ok(cu.cuMemGetAllocationPropertiesFromHandle(&prop, h));
    ck_assert_int_eq(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
    ok(cu.cuMemRelease(h));
    gives(cu.cuMemRelease(h), INVALID_VALUE);
    ok(cu.cuMemUnmap(p, PAGE_BYTES));
    gives(cu.cuMemcpyDtoH_v2(&flags, p, 4), INVALID_VALUE);
    ck_assert_uint_eq(read_word(p + PAGE_BYTES + 12), 3);
    ok(cu.cuMemUnmap(p + PAGE_BYTES, PAGE_BYTES));
    ok(cu.cuMemAddressFree(p, 2 * PAGE_BYTES));
}
END_TEST

START_TEST(what_is_not_accessible)
{
    struct fixture f = begin();
    CUdeviceptr p = new_range(1);
    CUmemGenericAllocationHandle h = new_memory(1);
    uint32_t v;
    ok(cu.cuMemMap(p, PAGE_BYTES, 0, h, 0));
    gives(cu.cuMemcpyDtoH_v2(&v, p, 4), INVALID_VALUE); /* mapped, and nobody may use it */
    ok(cu.cuMemSetAccess(p, PAGE_BYTES, &readable, 1));
    ck_assert_uint_eq(read_word(p), 0);
    ok(launch_store(f.store, NULL, p, 1));
    gives(cu.cuCtxSynchronize(), ILLEGAL_ADDRESS);
}
END_TEST

START_TEST(mistakes)
{
    begin();
    CUdeviceptr p = new_range(4), q;
    CUmemGenericAllocationHandle h = new_memory(2), g;
    CUmemAllocationProp prop = on_device;
    CUmemAccessDesc access = writable;
    size_t n;
    ok(cu.cuMemGetAllocationGranularity(&n, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ck_assert_uint_eq(n, PAGE_BYTES);
    gives(cu.cuMemCreate(&g, PAGE_BYTES / 2, &prop, 0), INVALID_VALUE);
    gives(cu.cuMemCreate(&g, 0, &prop, 0), INVALID_VALUE);
    gives(cu.cuMemCreate(&g, PAGE_BYTES, &prop, 1), INVALID_VALUE);
    gives(cu.cuMemCreate(&g, (size_t)1 << 50, &prop, 0), OUT_OF_MEMORY);
    prop.location.id = 7;
    gives(cu.cuMemCreate(&g, PAGE_BYTES, &prop, 0), INVALID_DEVICE);
    prop = on_device;
    prop.requestedHandleTypes = 1;
    gives(cu.cuMemCreate(&g, PAGE_BYTES, &prop, 0), NOT_SUPPORTED);
    prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
    gives(cu.cuMemCreate(&g, PAGE_BYTES, &prop, 0), INVALID_VALUE);
    gives(cu.cuMemAddressReserve(&q, 100, 0, 0, 0), INVALID_VALUE);
    gives(cu.cuMemAddressReserve(&q, PAGE_BYTES, 3, 0, 0), INVALID_VALUE);
    gives(cu.cuMemMap(p, 3 * PAGE_BYTES, 0, h, 0), INVALID_VALUE);          /* more than there is */
    gives(cu.cuMemMap(p, 2 * PAGE_BYTES, PAGE_BYTES, h, 0), INVALID_VALUE); /* past its end */
    gives(cu.cuMemMap(p + 4096, PAGE_BYTES, 0, h, 0), INVALID_VALUE);
    gives(cu.cuMemMap(p + 3 * PAGE_BYTES, 2 * PAGE_BYTES, 0, h, 0), INVALID_VALUE);
    gives(cu.cuMemMap(p, PAGE_BYTES, 0, h + 16, 0), INVALID_VALUE);
    ok(cu.cuMemMap(p + PAGE_BYTES, 2 * PAGE_BYTES, 0, h, 0));
    gives(cu.cuMemMap(p, 2 * PAGE_BYTES, 0, h, 0), INVALID_VALUE); /* over another */
    gives(cu.cuMemSetAccess(p + PAGE_BYTES, PAGE_BYTES, &access, 1), INVALID_VALUE); /* a part */
    gives(cu.cuMemSetAccess(p, 3 * PAGE_BYTES, &access, 1), INVALID_VALUE);          /* a gap */
    access.location.id = 3;
    gives(cu.cuMemSetAccess(p + PAGE_BYTES, 2 * PAGE_BYTES, &access, 1), INVALID_DEVICE);
    access = writable;
    access.flags = (CUmemAccess_flags)2;
    gives(cu.cuMemSetAccess(p + PAGE_BYTES, 2 * PAGE_BYTES, &access, 1), INVALID_VALUE);
    gives(cu.cuMemUnmap(p + PAGE_BYTES, PAGE_BYTES), INVALID_VALUE);
    gives(cu.cuMemUnmap(p, 4 * PAGE_BYTES), INVALID_VALUE);
    ok(cu.cuMemUnmap(p + PAGE_BYTES, 2 * PAGE_BYTES));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_map");
    TCase *t = tcase_create("map");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_test(t, neighbours_are_one_piece);
    tcase_add_test(t, one_memory_twice);
    tcase_add_test(t, what_is_not_accessible);
    tcase_add_test(t, mistakes);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
