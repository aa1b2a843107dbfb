#include "emu/device.h"

#include "base/diag.h"
#include "base/os.h"
#include "emu/faults.h"
#include "emu/machine.h"
#include "emu/ops.h"
#include "emu/program.h"
#include "emu/race.h"
#include "emu/rows.h"
#include "emu/sched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- device ---------------------------------------------------------------------------------------------------------------------------- */

struct pl_emu_config pl_emu_config_complete(struct pl_emu_config c)
{
    static const struct pl_emu_config least = {.sm = 90,
                                               .n_sms = 4,
                                               .threads_per_sm = 1536,
                                               .ctas_per_sm = 16,
                                               .regs_per_sm = 65536,
                                               .shared_per_sm_bytes = 228 * 1024,
                                               .shared_per_cta_bytes = 227 * 1024,
                                               .memory_bytes = (uint64_t)16 << 30,
                                               .stack_bytes = 64 * 1024,
                                               .heap_bytes = (uint64_t)8 << 20};
#define DEFAULT(field) c.field = c.field != 0 ? c.field : least.field
    DEFAULT(sm);
    DEFAULT(n_sms);
    DEFAULT(threads_per_sm);
    DEFAULT(ctas_per_sm);
    DEFAULT(regs_per_sm);
    DEFAULT(shared_per_sm_bytes);
    DEFAULT(shared_per_cta_bytes);
    DEFAULT(memory_bytes);
    DEFAULT(stack_bytes);
    DEFAULT(heap_bytes);
#undef DEFAULT
    if (c.n_threads == 0)
        c.n_threads = pl_os_n_cpus();
    return c;
}

/*
 * What the system reserves of a CTA's window comes first from sm_90 on, and behind the CTA's own memory before: so ptxas 13.0
 * assembles, whatever older .target the text names, and so it computes %reserved_smem_offset_begin.
 */
static uint32_t shared_base(uint16_t sm) { return sm < 90 ? 0 : PL_EMU_SHARED_RESERVED_BYTES; }

struct pl_emu_device *pl_emu_device_create(const struct pl_emu_config *config)
{
    struct pl_emu_device *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    pl_emu_ops_init(PL_EMU_ISA_COUNT - 1);
    d->config = pl_emu_config_complete(*config);
    d->shared_base_bytes = shared_base(d->config.sm);
    d->memory = pl_emu_memory_create(d->config.memory_bytes, d->config.index);
    d->pool = pl_emu_pool_create();
    d->rows = pl_emu_rows_create();
    pthread_mutex_init(&d->lock, NULL);
    if (d->memory != NULL && d->pool != NULL)
        return d;
    pl_emu_device_destroy(d);
    return NULL;
}

void pl_emu_device_destroy(struct pl_emu_device *d)
{
    if (d == NULL)
        return;
    pl_emu_pool_destroy(d->pool);
    pl_emu_memory_destroy(d->memory);
    pl_emu_rows_destroy(d->rows);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

struct pl_emu_memory *pl_emu_device_memory(struct pl_emu_device *d) { return d->memory; }

const struct pl_emu_config *pl_emu_device_config(const struct pl_emu_device *d)
{
    return &d->config;
}

void pl_emu_device_configure(struct pl_emu_device *d, const struct pl_emu_config *config)
{
    struct pl_emu_config c = pl_emu_config_complete(*config);
    d->config.check = c.check;
    d->config.policy = c.policy;
    d->config.seed = c.seed;
    d->config.n_threads = c.n_threads;
    d->config.step_limit = c.step_limit;
    d->config.stack_bytes = c.stack_bytes;
    d->config.print = c.print;
    d->config.print_user = c.print_user;
}

struct pl_emu_counters pl_emu_device_counters(const struct pl_emu_device *d)
{
    pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&d->lock;
    pthread_mutex_lock(lock);
    struct pl_emu_counters c = d->counters;
    pthread_mutex_unlock(lock);
    return c;
}

/* ---- launch ---------------------------------------------------------------------------------------------------------------------------- */

static uint64_t volume(const uint32_t v[3]) { return (uint64_t)v[0] * v[1] * v[2]; }

static uint32_t shared_bytes(const struct pl_emu_func *f, uint32_t dynamic_bytes)
{
    uint32_t align = f->dynamic_align_bytes;
    return dynamic_bytes == 0 ? f->shared_bytes
                              : (f->shared_bytes + align - 1) / align * align + dynamic_bytes;
}

/* The cluster a launch asks for: its own, else the entry's, else single CTAs. */
static void choose_cluster(const struct pl_emu_launch *l, uint32_t out[3])
{
    const struct pl_emu_func_info *info = &l->func->info;
    for (int k = 0; k < 3; k++) {
        out[k] = l->cluster[k] > 1 ? l->cluster[k] : 1;
        if (volume(l->cluster) <= 1 && info->req_cluster[k] != 0)
            out[k] = info->req_cluster[k];
    }
}

static void check_most(struct pl_diags *diags, const char *what, uint64_t seen, uint64_t most)
{
    if (seen > most || seen == 0)
        pl_d_emu_launch_size(diags, (struct pl_where){0}, what, seen, most);
}

static bool check_sizes(const struct pl_emu_device *d, const struct pl_emu_launch *l,
                        const uint32_t cluster[3], struct pl_diags *diags)
{
    static const uint32_t most_grid[3] = {INT32_MAX, 65535, 65535},
                          most_block[3] = {1024, 1024, 64};
    for (int k = 0; k < 3; k++) {
        check_most(diags, "a grid dimension", l->grid[k], most_grid[k]);
        check_most(diags, "a block dimension", l->block[k], most_block[k]);
        if (diags->n_errors == 0 && l->grid[k] % cluster[k] != 0)
            pl_d_emu_launch_cluster(diags, (struct pl_where){0}, l->grid[k], k, cluster[k]);
    }
    check_most(diags, "the number of threads of a CTA", volume(l->block),
               l->func->info.max_threads);
    check_most(diags, "the number of CTAs of a cluster", volume(cluster), PL_EMU_MAX_CLUSTER);
    if (diags->n_errors == 0)
        check_most(diags, "the number of CTAs", volume(l->grid), UINT32_MAX);
    uint64_t shared = (uint64_t)shared_bytes(l->func, 0) + l->dynamic_shared_bytes;
    if (shared > d->config.shared_per_cta_bytes)
        check_most(diags, "the shared memory of a CTA in bytes", shared,
                   d->config.shared_per_cta_bytes);
    return diags->n_errors == 0;
}

uint32_t pl_emu_occupancy(const struct pl_emu_device *d, const struct pl_emu_func *func,
                          uint32_t n_threads, uint32_t dynamic_shared_bytes)
{
    uint32_t warps = (n_threads + PL_EMU_LANES - 1) / PL_EMU_LANES;
    uint32_t shared = shared_bytes(func, dynamic_shared_bytes);
    if (n_threads == 0 || n_threads > func->info.max_threads ||
        shared > d->config.shared_per_cta_bytes)
        return 0;
    uint32_t n = d->config.ctas_per_sm;
    uint32_t by_threads = d->config.threads_per_sm / (warps * PL_EMU_LANES);
    uint32_t regs_of_warp = (func->info.n_regs * PL_EMU_LANES + 255) / 256 * 256;
    uint32_t by_regs = d->config.regs_per_sm / (regs_of_warp * warps);
    if (by_regs == 0 && func->info.least_regs * warps * PL_EMU_LANES <= d->config.regs_per_sm)
        by_regs = 1;
    uint32_t by_shared = d->config.shared_per_sm_bytes / (shared + PL_EMU_SHARED_RESERVED_BYTES);
    n = by_threads < n ? by_threads : n;
    n = by_regs < n ? by_regs : n;
    return by_shared < n ? by_shared : n;
}

static bool fail_memory(struct pl_emu_fault *fault)
{
    *fault = (struct pl_emu_fault){.code = pl_di_emu_no_memory.code, .result = 2};
    return false;
}

/*
 * What a cooperative grid synchronises on: its size and a barrier that starts at 0. The layout is that of grid_workspace in
 * cooperative_groups/details/driver_abi.h of the CUDA toolkit.
 */
static bool add_workspace(const struct pl_emu_device *d, struct pl_emu_grid *g)
{
    const struct pl_emu_allocation *a =
        pl_emu_memory_alloc(d->memory, 2 * sizeof(uint32_t), sizeof(uint64_t), "grid workspace");
    if (a == NULL)
        return false;
    uint32_t workspace[2] = {sizeof workspace, 0};
    memcpy(a->host, workspace, sizeof workspace);
    g->workspace = a->address;
    return true;
}

static uint32_t stack_bytes(const struct pl_emu_device *d, const struct pl_emu_launch *l)
{
    enum { MOST = 1 << 28 };
    uint32_t wanted = l->stack_bytes < MOST ? (uint32_t)l->stack_bytes : MOST;
    return wanted > d->config.stack_bytes ? wanted : d->config.stack_bytes;
}

static bool run(struct pl_emu_device *d, const struct pl_emu_launch *l, const uint32_t cluster[3],
                struct pl_emu_fault *fault)
{
    const struct pl_emu_func *f = l->func;
    uint32_t occupancy =
        pl_emu_occupancy(d, f, (uint32_t)volume(l->block), l->dynamic_shared_bytes);
    uint32_t n_ctas = (uint32_t)volume(cluster);
    uint64_t n_resident = (uint64_t)(occupancy == 0 ? 1 : occupancy) * d->config.n_sms / n_ctas;
    uint8_t small[1024];
    uint8_t *params = f->info.param_n_bytes <= sizeof small ? small : malloc(f->info.param_n_bytes);
    if (params == NULL)
        return fail_memory(fault);
    if (f->info.param_n_bytes != 0)
        memcpy(params, l->params, f->info.param_n_bytes);
    struct pl_emu_grid g = {.device = d,
                            .program = f->program,
                            .entry = f,
                            .n_clusters = (uint32_t)(volume(l->grid) / n_ctas),
                            .dynamic_shared_bytes = l->dynamic_shared_bytes,
                            .params = params,
                            .params_n_bytes = f->info.param_n_bytes,
                            .stack_bytes = stack_bytes(d, l),
                            .heap_bytes = l->heap_bytes != 0 ? l->heap_bytes : d->config.heap_bytes,
                            .is_explicit_cluster = n_ctas > 1 || f->info.is_explicit_cluster};
    memcpy(g.grid, l->grid, sizeof g.grid);
    memcpy(g.block, l->block, sizeof g.block);
    memcpy(g.cluster, cluster, sizeof g.cluster);
    pthread_mutex_lock(&d->lock);
    g.id = ++d->n_grids;
    pthread_mutex_unlock(&d->lock);
    if (l->is_cooperative && !add_workspace(d, &g)) {
        if (params != small)
            free(params);
        return fail_memory(fault);
    }
    /* What the race check remembers of device memory is shared by all clusters: one thread, and the same report each time. */
    const bool is_racing = d->config.check == PL_EMU_CHECK_RACE;
    g.race = is_racing ? pl_race_grid_create() : NULL;
    bool is_ok = pl_emu_sched_run(d->pool, &g, is_racing ? 1 : d->config.n_threads,
                                  n_resident == 0     ? 1
                                  : n_resident > 4096 ? 4096
                                                      : (uint32_t)n_resident,
                                  fault);
    pl_race_grid_destroy(g.race);
    if (g.workspace != 0)
        pl_emu_memory_free(d->memory, g.workspace);
    if (params != small)
        free(params);
    return is_ok;
}

bool pl_emu_launch(struct pl_emu_device *d, const struct pl_emu_launch *launch,
                   struct pl_emu_fault *fault)
{
    struct pl_arena arena = {0};
    struct pl_diags diags;
    uint32_t cluster[3];
    *fault = (struct pl_emu_fault){0};
    pl_diags_init(&diags, &arena);
    choose_cluster(launch, cluster);
    bool is_ok = check_sizes(d, launch, cluster, &diags);
    if (!is_ok) {
        const struct pl_diag *first = &diags.list.data[0];
        *fault = (struct pl_emu_fault){.code = first->info->code,
                                       .result = pl_emu_result_of(first->info->code)};
        snprintf(fault->entry, sizeof fault->entry, "%s", launch->func->info.name);
        snprintf(fault->text, sizeof fault->text, "%s", first->text != NULL ? first->text : "");
    }
    pl_arena_fini(&arena);
    return is_ok && run(d, launch, cluster, fault);
}
