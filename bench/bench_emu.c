/*
 * How fast the emulated driver executes scalar code, in lane-operations a second: 16 independent fma.f32 chains; a mixed loop of
 * a load, a store, integer arithmetic, compares and fma; how many of the smallest launches fit into a second; and how long a matmul
 * of 1024 x 1024 x 1024 in bf16 takes by wgmma and by tcgen05. On one thread and on two.
 */
#include "base/os.h"
#include "bench/bench.h"
#include "bench/emu_matmul.h"
#include "tools/driver.h"

#include <stdio.h>
#include <string.h>

enum { N_MATMULS = 3, N_SAMPLES = 7, N_SMALL = 200, N_BLOCKS = 8, N_THREADS = 256, N_LOOPS = 2000 };

#define HEAD(name)                                                                                 \
    ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry " name                         \
    "(.param .u64 out, .param .u32 n)\n{\n"                                                        \
    ".reg .pred %p<4>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .f32 %f<32>;\n"                    \
    "ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; mov.u32 %r3, "          \
    "%ctaid.x; mov.u32 %r4, %ntid.x;\n"                                                            \
    "mad.lo.s32 %r5, %r3, %r4, %r2; mul.wide.s32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; "         \
    "cvt.rn.f32.s32 %f30, %r5;\n"

#define FMA4(a, b, c, d)                                                                           \
    "fma.rn.f32 %f" a ", %f" a ", %f30, %f31;\nfma.rn.f32 %f" b ", %f" b ", %f30, %f31;\n"         \
    "fma.rn.f32 %f" c ", %f" c ", %f30, %f31;\nfma.rn.f32 %f" d ", %f" d ", %f30, %f31;\n"

static const char fma_text[] = HEAD(
    "fma16") "mov.f32 %f31, 0f3F000000;\nmov.u32 %r6, 0;\n"
             "L:\n" FMA4("0", "1", "2", "3") FMA4("4", "5", "6", "7") FMA4("8", "9", "10", "11")
                 FMA4("12", "13", "14", "15") "add.s32 %r6, %r6, 1;\nsetp.lt.s32 %p1, %r6, %r1;\n"
                                              "@%p1 bra L;\nst.global.f32 [%rd3], %f0;\nret;\n}\n";

static const char mix_text[] =
    HEAD("mix15") "mov.f32 %f31, 0f3F000000;\nmov.u32 %r6, 0;\n"
                  "L:\nld.global.f32 %f1, [%rd3];\nadd.s32 %r7, %r6, %r5;\nshl.b32 %r8, %r7, "
                  "2;\nxor.b32 %r9, %r8, %r5;\n"
                  "and.b32 %r10, %r9, 255;\nmul.lo.s32 %r11, %r10, %r6;\nmin.s32 %r12, %r11, "
                  "%r7;\nsetp.gt.s32 %p2, %r12, 7;\n"
                  "selp.f32 %f2, %f30, %f31, %p2;\nfma.rn.f32 %f3, %f1, %f2, %f31;\nmax.f32 %f4, "
                  "%f3, %f31;\n"
                  "mul.f32 %f5, %f4, %f31;\nst.global.f32 [%rd3], %f5;\nadd.s32 %r6, %r6, "
                  "1;\nsetp.lt.s32 %p1, %r6, %r1;\n"
                  "@%p1 bra L;\nret;\n}\n";

struct bench_kernel {
    const char *name, *text;
    double
        ops_per_loop; /* lane-operations that are counted: arithmetic and memory, not the loop's own three */
};
static const struct bench_kernel kernels[] = {{"fma16", fma_text, 16}, {"mix15", mix_text, 13}};

struct machine {
    struct pl_tool_driver api;
    uint64_t memory;
};

/* The driver anew, as the benches before may have opened it: device 0 has wgmma, device 1 tcgen05. */
static bool open_machine(struct pl_bench *b, struct machine *m)
{
    if (!pl_tool_driver_load(&m->api, "emulator", b->note, sizeof b->note))
        return false;
    b->note[0] = '\0';
    if (m->api.emu_configure != NULL) {
        m->api.emu_configure("reset", "1");
        m->api.emu_configure("devices", "sm_90,sm_100");
    }
    return m->api.init(0) == 0;
}

static bool use_device(struct machine *m, int ordinal)
{
    void *ctx = NULL;
    int device = 0;
    return m->api.device_get(&device, ordinal) == 0 && m->api.ctx_retain(&ctx, device) == 0 &&
           m->api.ctx_set(ctx) == 0;
}

static bool launch(struct machine *m, void *function, unsigned n_blocks, unsigned n_threads,
                   uint32_t n_loops)
{
    void *params[2] = {&m->memory, &n_loops};
    const struct pl_tool_launch_config config = {.grid = {n_blocks, 1, 1},
                                                 .block = {n_threads, 1, 1}};
    return m->api.launch_ex(&config, function, params, NULL) == 0 && m->api.synchronize() == 0;
}

static bool measure(struct pl_bench *b, struct machine *m, const struct bench_kernel *k,
                    unsigned n_threads)
{
    void *module = NULL, *function = NULL;
    if (m->api.load(&module, k->text) != 0 || m->api.get_function(&function, module, k->name) != 0)
        return false;
    double rate[N_SAMPLES], small[N_SMALL];
    for (int i = 0; i < N_SAMPLES; i++) {
        const uint64_t start = pl_os_now_ns();
        if (!launch(m, function, N_BLOCKS, N_THREADS, N_LOOPS))
            return false;
        rate[i] =
            k->ops_per_loop * N_LOOPS * N_BLOCKS * N_THREADS / (double)(pl_os_now_ns() - start);
    }
    for (int i = 0; i < N_SMALL; i++) {
        const uint64_t start = pl_os_now_ns();
        if (!launch(m, function, 1, 32, 1))
            return false;
        small[i] = 1e9 / (double)(pl_os_now_ns() - start);
    }
    pl_bench_add(b, "Glane-op/s", rate, N_SAMPLES, "emu/%s/threads=%u", k->name, n_threads);
    pl_bench_add(b, "launch/s", small, N_SMALL, "emu/%s/small/threads=%u", k->name, n_threads);
    return true;
}

/* All elements are 1: then each sum is the length of a row. */
static bool fill_with_ones(struct machine *m, uint64_t operands[3])
{
    enum { N = PL_BENCH_MATMUL_SIZE * PL_BENCH_MATMUL_SIZE, ONE = 0x3f80 };
    static uint16_t ones[N];
    for (size_t i = 0; i < N; i++)
        ones[i] = ONE;
    for (int i = 0; i < 2; i++)
        if (m->api.mem_alloc(&operands[i], sizeof ones) != 0 ||
            m->api.to_device(operands[i], ones, sizeof ones) != 0)
            return false;
    return m->api.mem_alloc(&operands[2], (size_t)N * 4) == 0;
}

static bool measure_matmul(struct pl_bench *b, struct machine *m, bool is_tcgen05,
                           unsigned n_threads)
{
    static char text[PL_BENCH_MATMUL_TEXT_BYTES];
    struct pl_bench_matmul shape = pl_bench_matmul_of(is_tcgen05, text, sizeof text);
    void *module = NULL, *function = NULL;
    uint64_t operands[3];
    double ms[N_MATMULS];
    if (m->api.load(&module, text) != 0 || m->api.get_function(&function, module, "matmul") != 0 ||
        !fill_with_ones(m, operands))
        return false;
    void *params[3] = {&operands[0], &operands[1], &operands[2]};
    const struct pl_tool_launch_config config = {.grid = {shape.grid_x, shape.grid_y, 1},
                                                 .block = {128, 1, 1}};
    for (int i = 0; i < N_MATMULS; i++) {
        const uint64_t start = pl_os_now_ns();
        if (m->api.launch_ex(&config, function, params, NULL) != 0 || m->api.synchronize() != 0)
            return false;
        ms[i] = (double)(pl_os_now_ns() - start) / 1e6;
    }
    float last = 0;
    uint64_t at = operands[2] + (uint64_t)PL_BENCH_MATMUL_SIZE * PL_BENCH_MATMUL_SIZE * 4 - 4;
    if (m->api.to_host(&last, at, sizeof last) != 0 || last != (float)PL_BENCH_MATMUL_SIZE) {
        snprintf(b->note, sizeof b->note, "the matmul gives %g", (double)last);
        return false;
    }
    pl_bench_add(b, "ms", ms, N_MATMULS, "emu/matmul_1024_bf16/%s/threads=%u",
                 is_tcgen05 ? "tcgen05" : "wgmma", n_threads);
    return true;
}

static bool measure_all(struct pl_bench *b, struct machine *m, unsigned n_threads)
{
    const char *const counts[] = {"0", "1", "2"};
    bool is_ok = true;
    if (m->api.emu_configure != NULL)
        m->api.emu_configure("threads", counts[n_threads]);
    for (size_t i = 0; i < sizeof kernels / sizeof kernels[0] && is_ok; i++)
        is_ok = measure(b, m, &kernels[i], n_threads);
    return is_ok;
}

static bool measure_matmuls(struct pl_bench *b, struct machine *m)
{
    for (int device = 0; device < 2; device++)
        for (unsigned n_threads = 1; n_threads <= 2; n_threads++) {
            if (!use_device(m, device))
                return false;
            m->api.emu_configure("threads", n_threads == 1 ? "1" : "2");
            if (!measure_matmul(b, m, device == 1, n_threads))
                return false;
        }
    return true;
}

bool pl_bench_emu(struct pl_bench *b)
{
    struct machine m = {0};
    bool is_ok = open_machine(b, &m) && use_device(&m, 0) &&
                 m.api.mem_alloc(&m.memory, N_BLOCKS * N_THREADS * 4) == 0;
    for (unsigned n_threads = 1; n_threads <= 2 && is_ok; n_threads++)
        is_ok = measure_all(b, &m, n_threads);
    is_ok = is_ok && (m.api.emu_configure == NULL || measure_matmuls(b, &m));
    if (!is_ok && b->note[0] == '\0') {
        if (m.api.last_fault == NULL || m.api.last_fault(b->note, sizeof b->note) == 0)
            snprintf(b->note, sizeof b->note, "a driver call failed");
    }
    return is_ok;
}
