/*
 * How long the text takes. For each kernel of the library and each chip: trace, check, plan and emit of a cold request; and
 * NVRTC compiling CUDA C++ kernels of our own that do the same work, where NVRTC is found.
 */
#include "base/os.h"
#include "bench/bench.h"
#include "bench/toolkit.h"
#include "tools/case.h"

#include <stdio.h>
#include <string.h>

enum { N_SAMPLES = 101, N_NVRTC = 5 };

static void count(const char *text, size_t n_bytes, void *user)
{
    (void)text;
    *(size_t *)user += n_bytes;
}

static bool emit_kernel(struct pl_bench *b, const struct pl_case_kernel *k, const char *arch,
                        double *median_us)
{
    const struct pl_case_spec spec = {.shape = k->n_axes == 3 ? PL_SHAPE(4096, 4096, 4096)
                                                              : PL_SHAPE(512, 1024),
                                      .dtype = PL_BF16,
                                      .axis = -1,
                                      .has_no_values = true};
    struct pl_case c;
    if (!pl_case_make(k, &spec, &c, b->note, sizeof b->note))
        return false;
    b->note[0] = '\0';
    pl_arg args[PL_CASE_MAX_ARGS];
    for (size_t i = 0; i < c.n_args; i++)
        args[i] = c.args[i].kind == PL_ARG_TENSOR
                      ? pl_arg_tensor(pl_host_tensor(&c.args[i].host, (uint64_t)(i + 1) << 40))
                  : c.args[i].kind == PL_ARG_F32 ? pl_arg_f32(c.args[i].f32)
                                                 : pl_arg_none();
    double stage[5][N_SAMPLES];
    size_t n_bytes = 0;
    pl_error err = {0};
    bool is_ok = true;
    for (int i = 0; i < N_SAMPLES && is_ok; i++) {
        pl_stage_ns ns = {0};
        const pl_emit_options options = {.struct_size = sizeof options,
                                         .arch = arch,
                                         .params = c.has_options ? c.options : NULL,
                                         .stages = &ns};
        n_bytes = 0;
        is_ok = pl_emit(k->kernel, args, c.n_args, &options, count, &n_bytes, &err) == PL_OK;
        const uint64_t each[4] = {ns.trace, ns.check, ns.plan, ns.emit};
        stage[4][i] = 0;
        for (int s = 0; s < 4; s++) {
            stage[s][i] = (double)each[s] / 1e3;
            stage[4][i] += stage[s][i];
        }
    }
    pl_case_fini(&c);
    if (!is_ok) {
        snprintf(b->note, sizeof b->note, "%s on %s: %.180s", k->name, arch, err.text);
        return false;
    }
    static const char *const names[5] = {"trace", "check", "plan", "emit", "text"};
    for (int s = 0; s < 5; s++)
        pl_bench_add(b, "us", stage[s], N_SAMPLES, "compile/%s/%s/%s", k->name, arch, names[s]);
    double size = (double)n_bytes;
    pl_bench_add(b, "bytes", &size, 1, "compile/%s/%s/ptx", k->name, arch);
    *median_us = b->rows[b->n_rows - 2].median;
    return true;
}

/* CUDA C++ that does what a kernel of the library does, for one dtype and any shape. */
static const struct {
    const char *kernel, *source;
} equivalents[] = {
    {"scale",
     "extern \"C\" __global__ void scale(const unsigned short *x, unsigned short *y, float s, long "
     "m, long n) {\n"
     "  for (long i = blockIdx.x * (long)blockDim.x + threadIdx.x; i < m * n; i += (long)gridDim.x "
     "* blockDim.x) {\n"
     "    float v = __uint_as_float((unsigned)x[i] << 16) * s; unsigned u = __float_as_uint(v);\n"
     "    y[i] = (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16); } }\n"},
    {"softmax",
     "extern \"C\" __global__ void softmax(const unsigned short *x, unsigned short *y, long n) {\n"
     "  __shared__ float part[32]; const unsigned short *r = x + blockIdx.x * n; float top = "
     "-3e38f, sum = 0;\n"
     "  for (long i = threadIdx.x; i < n; i += blockDim.x) { float v = "
     "__uint_as_float((unsigned)r[i] << 16);\n"
     "    float m = fmaxf(top, v); sum = sum * exp2f((top - m) * 1.44269504f) + exp2f((v - m) * "
     "1.44269504f); top = m; }\n"
     "  float mine = top; for (int o = 16; o; o /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, "
     "o));\n"
     "  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = top; __syncthreads();\n"
     "  for (int w = 0; w < blockDim.x / 32; w++) top = fmaxf(top, part[w]); __syncthreads();\n"
     "  sum *= exp2f((mine - top) * 1.44269504f); for (int o = 16; o; o /= 2) sum += "
     "__shfl_xor_sync(~0u, sum, o);\n"
     "  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum; __syncthreads();\n"
     "  sum = 0; for (int w = 0; w < blockDim.x / 32; w++) sum += part[w];\n"
     "  for (long i = threadIdx.x; i < n; i += blockDim.x) { float v = "
     "__uint_as_float((unsigned)r[i] << 16);\n"
     "    unsigned u = __float_as_uint(exp2f((v - top) * 1.44269504f) / sum);\n"
     "    y[blockIdx.x * n + i] = (unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16); } }\n"},
    {"transpose",
     "extern \"C\" __global__ void transpose(const unsigned short *x, unsigned short *y, long m, "
     "long n) {\n"
     "  __shared__ unsigned short t[64][66]; long r = blockIdx.y * 64L, c = blockIdx.x * 64L;\n"
     "  for (int i = threadIdx.x; i < 4096; i += blockDim.x) if (r + i / 64 < m && c + i % 64 < "
     "n)\n"
     "    t[i / 64][i % 64] = x[(r + i / 64) * n + c + i % 64]; __syncthreads();\n"
     "  for (int i = threadIdx.x; i < 4096; i += blockDim.x) if (c + i / 64 < n && r + i % 64 < "
     "m)\n"
     "    y[(c + i / 64) * m + r + i % 64] = t[i % 64][i / 64]; }\n"},
};

static bool compile_equivalent(struct pl_bench *b, const struct pl_bench_nvrtc *n, size_t which,
                               double ours_us)
{
    static const char *const options[] = {"--gpu-architecture=compute_90a"};
    double us[N_NVRTC];
    for (int i = 0; i < N_NVRTC; i++) {
        void *program = NULL;
        const uint64_t start = pl_os_now_ns();
        if (n->create(&program, equivalents[which].source, "equivalent.cu", 0, NULL, NULL) != 0)
            return false;
        const int rc = n->compile(program, 1, options);
        us[i] = (double)(pl_os_now_ns() - start) / 1e3;
        n->destroy(&program);
        if (rc != 0)
            return false;
    }
    pl_bench_add(b, "us", us, N_NVRTC, "compile/%s/sm_90a/nvrtc", equivalents[which].kernel);
    double ratio = b->rows[b->n_rows - 1].median / ours_us;
    pl_bench_add(b, "ratio", &ratio, 1, "compile/%s/sm_90a/nvrtc_over_ours",
                 equivalents[which].kernel);
    return true;
}

bool pl_bench_compile(struct pl_bench *b)
{
    static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
    double hopper_us[32] = {0};
    for (size_t k = 0; k < pl_case_n_kernels; k++)
        for (size_t a = 0; a < 3; a++) {
            double us = 0;
            if (!emit_kernel(b, &pl_case_kernels[k], archs[a], &us))
                return false;
            if (a == 1 && k < 32)
                hopper_us[k] = us;
        }
    struct pl_bench_nvrtc nvrtc;
    if (!pl_bench_find_nvrtc(&nvrtc)) {
        snprintf(b->note, sizeof b->note, "SKIP: NVRTC was not found; no comparison");
        return true;
    }
    for (size_t i = 0; i < sizeof equivalents / sizeof equivalents[0]; i++)
        for (size_t k = 0; k < pl_case_n_kernels && k < 32; k++)
            if (strcmp(pl_case_kernels[k].name, equivalents[i].kernel) == 0 &&
                !compile_equivalent(b, &nvrtc, i, hopper_us[k])) {
                snprintf(b->note, sizeof b->note, "NVRTC refused the %s kernel",
                         equivalents[i].kernel);
                return false;
            }
    return true;
}
