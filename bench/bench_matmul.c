/*
 * The matmul of sm_90a from nothing to a binary, beside a plain CUDA C++ kernel that multiplies with the same instructions: the text
 * (time, bytes) and its binary by nvJitLink (registers), and NVRTC compiling the other, in this run; what the other computes is
 * compared with float64 on the emulated driver. bench/sass.sh counts what lies between the tensor instructions of both.
 */
#include "base/os.h"
#include "bench/bench.h"
#include "bench/plain.h"
#include "bench/toolkit.h"
#include "tools/case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TEXTS = 51, N_COLD = 5, MAX_TEXT_BYTES = 1 << 19 };

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
    double us[N_TEXTS], cold[N_COLD], ratio[N_COLD], registers = 0, n_bytes;
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
        const uint64_t has_text = pl_os_now_ns();
        if (!assemble(&link, &t, &registers)) {
            snprintf(b->note, sizeof b->note, "nvJitLink refused the text for %s", name);
            return false;
        }
        const uint64_t end = pl_os_now_ns();
        cold[i] = (double)(end - start) / 1e3;
        ratio[i] = (double)(end - start) / (double)(end - has_text);
    }
    pl_bench_add(b, "us", cold, N_COLD, "matmul/sm_90a/%s/cold", name);
    *cold_us = b->rows[b->n_rows - 1].median;
    pl_bench_add(b, "ratio", ratio, N_COLD, "matmul/sm_90a/%s/cold_over_nvjitlink", name);
    pl_bench_add(b, "registers", &registers, 1, "matmul/sm_90a/%s/registers", name);
    return true;
}

/* The error of what NVRTC makes of the plain kernel, run on the emulated driver: at most 1. */
static bool check_plain(struct pl_bench *b, const struct pl_bench_nvrtc *nvrtc)
{
    static const char *const options[] = {"--gpu-architecture=compute_90a"};
    static char text[MAX_TEXT_BYTES];
    void *program = NULL;
    size_t n_bytes = 0;
    double worst;
    if (nvrtc->create(&program, pl_bench_plain_source, "plain.cu", 0, NULL, NULL) != 0)
        return false;
    const bool is_ok = nvrtc->compile(program, 1, options) == 0 &&
                       nvrtc->ptx_size(program, &n_bytes) == 0 && n_bytes <= sizeof text &&
                       nvrtc->ptx(program, text) == 0;
    nvrtc->destroy(&program);
    if (!is_ok)
        snprintf(b->note, sizeof b->note, "NVRTC gave no text of the plain kernel");
    else if (pl_bench_plain_run(text, &worst, b->note, sizeof b->note))
        pl_bench_add(b, "of the bound", &worst, 1, "matmul/sm_90a/plain/error");
    else
        return false;
    return is_ok;
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
        if (nvrtc.create(&program, pl_bench_plain_source, "plain.cu", 0, NULL, NULL) != 0)
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
    return check_plain(b, &nvrtc);
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
