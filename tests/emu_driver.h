#ifndef PL_TESTS_EMU_DRIVER_H
#define PL_TESTS_EMU_DRIVER_H
/*
 * The emulated driver as a test sees it: every exported function by name, from the library that PLAUNCH_DRIVER names. The test
 * programs link nothing of it.
 */
#include "emu/cuda_abi.h"

#include <check.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* cu.cuInit(0), cu.cuMemAlloc_v2(…): one member a row of the table. */
static struct {
    void *lib;
#define CU(name, version, symbol, need, capture, variant, params, args) CUresult(*symbol) params;
#include "emu/api.def"
#undef CU
    const char *(*version)(void);
    int (*configure)(const char *key, const char *value);
    uint64_t (*query)(const char *counter);
    size_t (*last_fault)(char *text, size_t n_bytes);
} cu;

#define ok(call)          ck_assert_int_eq((call), CUDA_SUCCESS)
#define gives(call, code) ck_assert_int_eq((call), CUDA_ERROR_##code)

static void *driver_symbol(const char *name)
{
    void *p = dlsym(cu.lib, name);
    ck_assert_msg(p != NULL, "%s is not exported", name);
    return p;
}

static void driver_open(void)
{
    const char *path = getenv("PLAUNCH_DRIVER");
    ck_assert_msg(path != NULL, "PLAUNCH_DRIVER is not set");
    cu.lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(cu.lib != NULL, "%s", dlerror());
#define CU(name, version, symbol, need, capture, variant, params, args)                            \
    *(void **)&cu.symbol = driver_symbol(#symbol);
#include "emu/api.def"
#undef CU
    *(void **)&cu.version = driver_symbol("plaunch_emu_version");
    *(void **)&cu.configure = driver_symbol("plaunch_emu_configure");
    *(void **)&cu.query = driver_symbol("plaunch_emu_query");
    *(void **)&cu.last_fault = driver_symbol("plaunch_emu_last_fault");
    ck_assert_int_eq(cu.configure("reset", "all"), 0); /* where tests share a process */
}

/* Kernels of the tests. store: *p = v. spin: waits until *p is not 0. fault: writes to address 16. add: c = a + b. */
static const char test_ptx[] =
    ".version 7.8\n"
    ".target sm_80\n"
    ".address_size 64\n"
    ".visible .global .align 4 .u32 counter = 41;\n"
    ".visible .entry store(.param .u64 p, .param .u32 v)\n"
    "{\n"
    "    .reg .u64 %rd<2>;\n"
    "    .reg .u32 %r<2>;\n"
    "    ld.param.u64 %rd1, [p];\n"
    "    ld.param.u32 %r1, [v];\n"
    "    st.global.u32 [%rd1], %r1;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry spin(.param .u64 p)\n"
    "{\n"
    "    .reg .u64 %rd<2>;\n"
    "    .reg .u32 %r<2>;\n"
    "    .reg .pred %p<2>;\n"
    "    ld.param.u64 %rd1, [p];\n"
    "again:\n"
    "    ld.volatile.global.u32 %r1, [%rd1];\n"
    "    setp.eq.u32 %p1, %r1, 0;\n"
    "    @%p1 bra again;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry fault()\n"
    "{\n"
    "    .reg .u64 %rd<2>;\n"
    "    mov.u64 %rd1, 16;\n"
    "    st.global.u64 [%rd1], %rd1;\n"
    "    ret;\n"
    "}\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
    "{\n"
    "    .reg .u64 %rd<8>;\n"
    "    .reg .u32 %r<6>;\n"
    "    .reg .f32 %f<4>;\n"
    "    .reg .pred %p<2>;\n"
    "    mov.u32 %r1, %ctaid.x;\n"
    "    mov.u32 %r2, %ntid.x;\n"
    "    mov.u32 %r3, %tid.x;\n"
    "    mad.lo.u32 %r4, %r1, %r2, %r3;\n"
    "    ld.param.u32 %r5, [n];\n"
    "    setp.ge.u32 %p1, %r4, %r5;\n"
    "    @%p1 bra done;\n"
    "    ld.param.u64 %rd1, [a];\n"
    "    ld.param.u64 %rd2, [b];\n"
    "    ld.param.u64 %rd3, [c];\n"
    "    mul.wide.u32 %rd4, %r4, 4;\n"
    "    add.u64 %rd5, %rd1, %rd4;\n"
    "    add.u64 %rd6, %rd2, %rd4;\n"
    "    add.u64 %rd7, %rd3, %rd4;\n"
    "    ld.global.f32 %f1, [%rd5];\n"
    "    ld.global.f32 %f2, [%rd6];\n"
    "    add.rn.f32 %f3, %f1, %f2;\n"
    "    st.global.f32 [%rd7], %f3;\n"
    "done:\n"
    "    ret;\n"
    "}\n";

/* What most tests begin with: device 0 and a context on it that is current; the module of test_ptx. */
struct fixture {
    CUcontext ctx;
    CUmodule module;
    CUfunction store, spin, fault, add;
};

__attribute__((unused)) static struct fixture begin(void)
{
    struct fixture f;
    ok(cu.cuInit(0));
    ok(cu.cuCtxCreate_v2(&f.ctx, 0, 0));
    ok(cu.cuModuleLoadData(&f.module, test_ptx));
    ok(cu.cuModuleGetFunction(&f.store, f.module, "store"));
    ok(cu.cuModuleGetFunction(&f.spin, f.module, "spin"));
    ok(cu.cuModuleGetFunction(&f.fault, f.module, "fault"));
    ok(cu.cuModuleGetFunction(&f.add, f.module, "add"));
    return f;
}

__attribute__((unused)) static CUresult launch_one(CUfunction f, CUstream stream, void **params)
{
    return cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

__attribute__((unused)) static CUresult launch_store(CUfunction f, CUstream stream, CUdeviceptr p,
                                                     uint32_t v)
{
    void *params[] = {&p, &v};
    return launch_one(f, stream, params);
}

__attribute__((unused)) static uint32_t read_word(CUdeviceptr p)
{
    uint32_t v = 0;
    ok(cu.cuMemcpyDtoH_v2(&v, p, sizeof v));
    return v;
}
#endif
