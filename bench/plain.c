#include "bench/plain.h"

#include "base/os.h"
#include "tools/driver.h"
#include "tools/host.h"

#include <math.h>
#include <stdio.h>

enum { M = 133, N = 70, K = 197, TILE = 64, N_THREADS = 128 };

struct product {
    struct pl_host x[3]; /* a (M, K), b (N, K), c (M, N) */
    uint64_t at[3];      /* of their bytes on the device */
};

static bool make(struct product *p)
{
    static const struct pl_host_place dense = {0};
    struct pl_rng r = {pl_os_now_ns()};
    const pl_shape shapes[3] = {PL_SHAPE(M, K), PL_SHAPE(N, K), PL_SHAPE(M, N)};
    for (int i = 0; i < 3; i++) {
        if (!pl_host_init(&p->x[i], i < 2 ? PL_BF16 : PL_F32, shapes[i], &dense))
            return false;
        if (i < 2)
            pl_host_fill_random(&p->x[i], &r);
    }
    return true;
}

/* On device 0 of the emulated driver, whatever benches before left there. */
static bool open_driver(struct pl_tool_driver *api, char *why, size_t n_bytes)
{
    void *ctx = NULL;
    int device = 0;
    if (!pl_tool_driver_load(api, "emulator", why, n_bytes))
        return false;
    if (api->emu_configure != NULL) {
        api->emu_configure("reset", "1");
        api->emu_configure("devices", "sm_90");
    }
    return api->init(0) == 0 && api->device_get(&device, 0) == 0 &&
           api->ctx_retain(&ctx, device) == 0 && api->ctx_set(ctx) == 0;
}

static bool compute(struct pl_tool_driver *api, struct product *p, const char *text)
{
    void *module = NULL, *function = NULL;
    uint64_t first[3];
    int64_t extents[3] = {M, N, K};
    for (int i = 0; i < 3; i++) {
        if (api->mem_alloc(&p->at[i], p->x[i].n_bytes) != 0 ||
            api->to_device(p->at[i], p->x[i].bytes, p->x[i].n_bytes) != 0)
            return false;
        first[i] = p->at[i] + p->x[i].offset_bytes;
    }
    void *params[6] = {&first[0], &first[1], &first[2], &extents[0], &extents[1], &extents[2]};
    const struct pl_tool_launch_config config = {
        .grid = {(N + TILE - 1) / TILE, (M + TILE - 1) / TILE, 1}, .block = {N_THREADS, 1, 1}};
    return api->load(&module, text) == 0 && api->get_function(&function, module, "plain") == 0 &&
           api->launch_ex(&config, function, params, NULL) == 0 && api->synchronize() == 0 &&
           api->to_host(p->x[2].bytes, p->at[2], p->x[2].n_bytes) == 0;
}

/* Of K sums in f32 that cut off each loses at most an ulp of what has been added so far (N. Higham, Accuracy and Stability, 3.1). */
static double error_of(const struct product *p, int64_t row, int64_t col)
{
    double sum = 0, size = 0;
    for (int64_t k = 0; k < K; k++) {
        const double v = pl_host_get(&p->x[0], row * K + k) * pl_host_get(&p->x[1], col * K + k);
        sum += v;
        size += fabs(v);
    }
    return fabs(pl_host_get(&p->x[2], row * N + col) - sum) / (K * 0x1p-23 * size + 0x1p-149);
}

bool pl_bench_plain_run(const char *text, double *worst, char *why, size_t n_bytes)
{
    struct pl_tool_driver api;
    struct product p = {0};
    *worst = 0;
    why[0] = '\0';
    bool is_ok = make(&p) && open_driver(&api, why, n_bytes) && compute(&api, &p, text);
    if (!is_ok && why[0] == '\0')
        snprintf(why, n_bytes, "the emulated driver did not run the plain kernel");
    for (int64_t i = 0; i < (int64_t)M * N && is_ok; i++) {
        const double e = error_of(&p, i / N, i % N);
        *worst = !(e <= *worst) ? e : *worst; /* not-a-number stays */
    }
    if (is_ok && !(*worst <= 1 && pl_host_is_gap_intact(&p.x[2]))) {
        snprintf(why, n_bytes, "the plain kernel computes something else: %g", *worst);
        is_ok = false;
    }
    for (int i = 0; i < 3; i++)
        pl_host_fini(&p.x[i]);
    return is_ok;
}
