/*
 * The matmul of sm_90a from nothing to a binary, beside a plain CUDA C++ kernel that multiplies with the same instructions: the text
 * (time, bytes) and its binary by nvJitLink (registers), and NVRTC compiling the other, in this run. What lies between the tensor
 * core's instructions in the binaries would take a disassembler; there is none in the toolkit's compiler package.
 */
#include "base/os.h"
#include "bench/bench.h"
#include "bench/toolkit.h"
#include "tools/case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TEXTS = 51, N_COLD = 5, MAX_TEXT_BYTES = 1 << 19 };

/* A tile of 64 x 64 a block: threads fill swizzled tiles, one warpgroup multiplies. c (m, n) f32, a (m, k) and b (n, k) bf16. */
static const char plain_source[] =
    "__device__ unsigned long long desc(const void *p) {\n"
    "  unsigned long long s = __cvta_generic_to_shared(p);\n"
    "  return (s & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62; }\n"
    "#define R(i) \"+f\"(d[i]), \"+f\"(d[i + 1]), \"+f\"(d[i + 2]), \"+f\"(d[i + 3])\n"
    "__device__ void multiply(float *d, unsigned long long a, unsigned long long b) {\n"
    "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 \"\n"
    "    "
    "\"{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,\"\n"
    "    \"%24,%25,%26,%27,%28,%29,%30,%31}, %32, %33, 1, 1, 1, 0, 0;\"\n"
    "    : R(0), R(4), R(8), R(12), R(16), R(20), R(24), R(28) : \"l\"(a), \"l\"(b)); }\n"
    "extern \"C\" __global__ void __launch_bounds__(128) plain(const unsigned short *a,\n"
    "    const unsigned short *b, float *c, long m, long n, long k) {\n"
    "  __shared__ __align__(1024) unsigned short as[4096], bs[4096];\n"
    "  float d[32] = {}; int t = threadIdx.x; long row = blockIdx.y * 64L, col = blockIdx.x * "
    "64L;\n"
    "  for (long at = 0; at < k; at += 64) {\n"
    "    for (int i = t; i < 4096; i += 128) {\n"
    "      int r = i / 64, x = i % 64, to = r * 64 + (x ^ (r & 7) << 3);\n"
    "      as[to] = row + r < m && at + x < k ? a[(row + r) * k + at + x] : 0;\n"
    "      bs[to] = col + r < n && at + x < k ? b[(col + r) * k + at + x] : 0; }\n"
    "    asm volatile(\"fence.proxy.async.shared::cta;\" ::: \"memory\"); __syncthreads();\n"
    "    asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
    "    for (int s = 0; s < 4; s++) multiply(d, desc(as) + 2 * s, desc(bs) + 2 * s);\n"
    "    asm volatile(\"wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;\" ::: "
    "\"memory\");\n"
    "    __syncthreads(); }\n"
    "  for (int j = 0; j < 32; j++) {\n"
    "    long r = row + t / 32 * 16 + t % 32 / 4 + j / 2 % 2 * 8, x = col + j / 4 * 8 + t % 4 * 2 "
    "+ j % 2;\n"
    "    if (r < m && x < n) c[r * n + x] = d[j]; } }\n";

struct text {
    char *data;
    size_t n_bytes;
};

static void put(const char *data, size_t n_bytes, void *user)
{
    struct text *t = user;
    if (t->n_bytes + n_bytes < MAX_TEXT_BYTES)
        memcpy(t->data + t->n_bytes, data, n_bytes);
    t->n_bytes += n_bytes;
}

/* The text for large square matrices of one type, and the microseconds that it took. */
static bool emit(struct pl_bench *b, pl_dtype dtype, struct text *t, double *us)
{
    const pl_shape s = PL_SHAPE(8192, 8192);
    pl_arg args[3];
    for (int i = 0; i < 3; i++)
        args[i] = pl_arg_tensor(pl_tensor_make(
            (uint64_t)(i + 1) << 40, i < 2 || pl_dtype_bits(dtype) == 16 ? dtype : PL_F32, s));
    if (pl_dtype_bits(dtype) != 16) { /* K last in both */
        args[1].u.tensor.strides[0] = 1;
        args[1].u.tensor.strides[1] = 8192;
    }
    pl_stage_ns ns = {0};
    pl_error err = {0};
    const pl_emit_options o = {.struct_size = sizeof o, .arch = "sm_90a", .stages = &ns};
    t->n_bytes = 0;
    if (pl_emit(&pl_kernel_matmul, args, 3, &o, put, t, &err) != PL_OK) {
        snprintf(b->note, sizeof b->note, "%.200s", err.text);
        return false;
    }
    *us = (double)(ns.trace + ns.check + ns.plan + ns.emit) / 1e3;
    return true;
}

/* Registers that the assembler's own log tells of; 0: it does not. */
static double registers_of(const struct pl_bench_nvjitlink *n, void *h)
{
    static char log[65536];
    size_t n_bytes = 0;
    if (n->info_size(h, &n_bytes) != 0 || n_bytes == 0 || n_bytes > sizeof log ||
        n->info(h, log) != 0)
        return 0;
    const char *used = strstr(log, "Used ");
    return used != NULL ? atof(used + 5) : 0;
}

static bool assemble(const struct pl_bench_nvjitlink *n, const struct text *t, double *registers)
{
    const char *options[] = {"-arch=sm_90a", "-verbose"};
    void *h = NULL;
    size_t n_bytes = 0;
    if (n->create(&h, 2, options) != 0)
        return false;
    const bool is_ok = n->add(h, PL_BENCH_NVJITLINK_PTX, t->data, t->n_bytes + 1, "matmul") == 0 &&
                       n->complete(h) == 0 && n->cubin_size(h, &n_bytes) == 0 && n_bytes != 0;
    *registers = is_ok ? registers_of(n, h) : 0;
    n->destroy(&h);
    return is_ok;
}

/* Text and binary, N_COLD times from nothing. */
static bool measure_ours(struct pl_bench *b, pl_dtype dtype, double *cold_us)
{
    static char data[MAX_TEXT_BYTES];
    struct text t = {data, 0};
    double us[N_TEXTS], cold[N_COLD], registers = 0, n_bytes;
    const char *name = pl_dtype_name(dtype);
    struct pl_bench_nvjitlink link;
    for (int i = 0; i < N_TEXTS; i++)
        if (!emit(b, dtype, &t, &us[i]))
            return false;
    pl_bench_add(b, "us", us, N_TEXTS, "matmul/sm_90a/%s/text", name);
    n_bytes = (double)t.n_bytes;
    pl_bench_add(b, "bytes", &n_bytes, 1, "matmul/sm_90a/%s/ptx", name);
    if (!pl_bench_find_nvjitlink(&link)) {
        snprintf(b->note, sizeof b->note, "SKIP: nvJitLink was not found; no binary");
        return true;
    }
    for (int i = 0; i < N_COLD; i++) {
        const uint64_t start = pl_os_now_ns();
        double ignored;
        if (!emit(b, dtype, &t, &ignored))
            return false;
        data[t.n_bytes] = '\0';
        if (!assemble(&link, &t, &registers)) {
            snprintf(b->note, sizeof b->note, "nvJitLink refused the text for %s", name);
            return false;
        }
        cold[i] = (double)(pl_os_now_ns() - start) / 1e3;
    }
    pl_bench_add(b, "us", cold, N_COLD, "matmul/sm_90a/%s/cold", name);
    *cold_us = b->rows[b->n_rows - 1].median;
    pl_bench_add(b, "registers", &registers, 1, "matmul/sm_90a/%s/registers", name);
    return true;
}

static bool measure_plain(struct pl_bench *b, double ours_us)
{
    static const char *const options[] = {"--gpu-architecture=sm_90a"};
    struct pl_bench_nvrtc nvrtc;
    double us[N_COLD];
    if (!pl_bench_find_nvrtc(&nvrtc)) {
        snprintf(b->note, sizeof b->note, "SKIP: NVRTC was not found; no comparison");
        return true;
    }
    for (int i = 0; i < N_COLD; i++) {
        void *program = NULL;
        size_t n_bytes = 0;
        const uint64_t start = pl_os_now_ns();
        if (nvrtc.create(&program, plain_source, "plain.cu", 0, NULL, NULL) != 0)
            return false;
        const bool is_ok = nvrtc.compile(program, 1, options) == 0 &&
                           nvrtc.cubin_size(program, &n_bytes) == 0 && n_bytes != 0;
        us[i] = (double)(pl_os_now_ns() - start) / 1e3;
        nvrtc.destroy(&program);
        if (!is_ok) {
            snprintf(b->note, sizeof b->note, "NVRTC refused the plain kernel");
            return false;
        }
    }
    pl_bench_add(b, "us", us, N_COLD, "matmul/sm_90a/plain/nvrtc");
    if (ours_us > 0) {
        double ratio = b->rows[b->n_rows - 1].median / ours_us;
        pl_bench_add(b, "ratio", &ratio, 1, "matmul/sm_90a/plain/nvrtc_over_ours");
    }
    return true;
}

bool pl_bench_matmul(struct pl_bench *b)
{
    static const pl_dtype dtypes[] = {PL_E4M3, PL_TF32, PL_BF16};
    double cold_us = 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (!measure_ours(b, dtypes[i], &cold_us))
            return false;
    return measure_plain(b, cold_us);
}
