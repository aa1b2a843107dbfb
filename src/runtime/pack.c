#include "src/runtime/launch.h"

static const int64_t most_x = INT32_MAX, most_yz = 65535;

/* ---- grid ---- */

static pl_status fail_grid(const struct pl_variant *v, int64_t n, struct pl_call *call)
{
    return pl_e_grid(call, PL_E_INVALID,
                     (struct pl_where){.has_values = true, .seen = n, .wanted = most_x},
                     v->kernel->name, (long long)n);
}

/*
 * y and z beyond the hardware's limit go into x; the body then takes its place from x alone (plan.h, "Folding"). True in
 * *is_folded when that was done.
 */
static pl_status make_grid(uint32_t grid[3], const struct pl_variant *v, const pl_launch_dims *d,
                           bool *is_folded, struct pl_call *call)
{
    const struct pl_plan_launch *l = &v->launch;
    int64_t x = d->grid[0], y = d->grid[1], z = d->grid[2];
    *is_folded = y > most_yz || z > most_yz;
    if (*is_folded) {
        if (!l->can_fold_grid || l->cluster[1] > 1 || l->cluster[2] > 1)
            return fail_grid(v, y > z ? y : z, call);
        if (y > most_x / x || z > most_x / (x * y))
            return fail_grid(v, INT64_MAX, call);
        x = x * y * z;
        y = z = 1;
    }
    if (x > most_x)
        return fail_grid(v, x, call);
    grid[0] = (uint32_t)x;
    grid[1] = (uint32_t)y;
    grid[2] = (uint32_t)z;
    for (int i = 0; i < 3; i++)
        if (l->cluster[i] > 1 && grid[i] % l->cluster[i] != 0)
            return pl_e_cluster_grid(call, PL_E_INVALID, (struct pl_where){.dim_plus1 = i + 1},
                                     v->kernel->name, i, grid[i], (int)l->cluster[i]);
    return PL_OK;
}

/* ---- tensor maps ---- */

static pl_status encode(struct pl_tmap_line *line, const struct pl_tmap_key *key,
                        const struct pl_plan_map *map, struct pl_run *run)
{
    struct pl_call *call = run->call;
    struct pl_context *ctx = call->ctx;
    struct pl_tmap_inputs in;
    pl_cu_tensor_map encoded;
    if (ctx->driver.cu.TensorMapEncodeTiled == NULL)
        return pl_e_driver_symbol(call, PL_E_DRIVER, (struct pl_where){0}, ctx->driver.path,
                                  "cuTensorMapEncodeTiled", 12, 0);
    pl_status st = pl_tmap_inputs_make(&in, key, map, call);
    if (st == PL_OK)
        st = pl_place_push(&run->place, ctx, call);
    if (st != PL_OK)
        return st;
    line->key.rank = 0;
    pl_cu_result r = ctx->driver.cu.TensorMapEncodeTiled(
        &encoded, in.dtype, key->rank, (void *)(uintptr_t)key->address, in.dims,
        &in.stride_bytes[1], in.box, in.ones, PL_CU_TMAP_INTERLEAVE_NONE, in.swizzle, in.l2,
        in.fill);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(call, "cuTensorMapEncodeTiled", r);
    memcpy(line->words, encoded.words, sizeof line->words);
    if (ctx->mends_maps)
        pl_tmap_mend(key, line->words);
    line->key = *key;
    pl_thread_count(run->thread, PL_STAT_maps_encoded, 1);
    return PL_OK;
}

static pl_status put_map(unsigned char *to, const struct pl_plan_map *map, const pl_arg *arg,
                         struct pl_run *run)
{
    struct pl_tmap_key key;
    if (arg->kind != PL_ARG_TENSOR) { /* an absent operand has no map, and nobody reads it */
        memset(to, 0, sizeof(pl_cu_tensor_map));
        return PL_OK;
    }
    pl_tmap_key_make(&key, map, &arg->u.tensor);
    struct pl_tmap_line *line = pl_tmap_line_of(&run->thread->maps, &key);
    if (memcmp(&line->key, &key, sizeof key) != 0) {
        pl_status st = encode(line, &key, map, run);
        if (st != PL_OK)
            return st;
    }
    memcpy(to, line->words, sizeof line->words);
    return PL_OK;
}

/* ---- the block ---- */

static inline void put_u32(unsigned char *to, uint64_t value)
{
    uint32_t low = (uint32_t)value;
    memcpy(to, &low, sizeof low);
}

/* Parameters that are no copies of an argument. */
static pl_status put_other(unsigned char *to, const struct pl_plan_param *p,
                           const struct pl_variant *v, const struct pl_ask *ask,
                           const uint64_t logical_grid[3], struct pl_run *run)
{
    switch (p->kind) {
    case PL_PLAN_TENSOR_MAP: {
        const struct pl_plan_map *map = &v->maps[p->map];
        return put_map(to, map, &ask->request.args[map->arg], run);
    }
    case PL_PLAN_GRID: put_u32(to, logical_grid[p->axis]); return PL_OK;
    case PL_PLAN_WORKSPACE: memcpy(to, &ask->options.workspace, 8); return PL_OK;
    case PL_PLAN_ADDRESS:
    case PL_PLAN_EXTENT:
    case PL_PLAN_STRIDE:
    case PL_PLAN_SCALAR:
    case PL_PLAN_PARAM_KIND_COUNT: break;
    }
    memset(to, 0, p->n_bytes); /* of an absent argument */
    return PL_OK;
}

pl_status pl_pack_params(struct pl_packed *out, const struct pl_variant *v,
                         const struct pl_ask *ask, const pl_launch_dims *dims, struct pl_run *run)
{
    bool is_folded = false;
    pl_status st = make_grid(out->grid, v, dims, &is_folded, run->call);
    if (st != PL_OK)
        return st;
    uint64_t logical_grid[3] = {0, 0, 0};
    for (int i = 0; is_folded && i < 3; i++)
        logical_grid[i] = (uint64_t)dims->grid[i];

    const char *args = (const char *)ask->request.args;
    const struct pl_copy_op *c = v->copies;
    for (const struct pl_copy_op *end = c + v->n_copies8; c < end; c++)
        memcpy(out->block + c->to, args + c->from, 8);
    for (const struct pl_copy_op *end = c + v->n_copies4; c < end; c++)
        memcpy(out->block + c->to, args + c->from, 4);
    for (unsigned i = 0; st == PL_OK && i < v->n_others; i++) {
        const struct pl_plan_param *p = &v->others[i];
        st = put_other(out->block + p->offset_bytes, p, v, ask, logical_grid, run);
    }
    return st;
}

/* ---- the call ---- */

static void remember(struct pl_thread *t, const struct pl_variant *v, const uint32_t grid[3])
{
    pl_launch_record r = {.n_threads = v->launch.n_threads};
    memcpy(r.entry, v->entry, sizeof r.entry);
    memcpy(r.grid, grid, sizeof r.grid);
    pl_thread_remember(t, &r);
}

static unsigned make_attributes(pl_cu_launch_attr attrs[2], const struct pl_variant *v, bool is_pdl)
{
    const uint32_t *c = v->launch.cluster;
    unsigned n = 0;
    if (c[0] > 1 || c[1] > 1 || c[2] > 1) {
        attrs[n] = (pl_cu_launch_attr){.id = PL_CU_LAUNCH_CLUSTER_DIMENSION};
        attrs[n].value.cluster.x = c[0];
        attrs[n].value.cluster.y = c[1];
        attrs[n].value.cluster.z = c[2];
        n++;
    }
    /* Permission and wait come from one decision: a body that does not wait is never allowed to overlap. */
    if (is_pdl && v->launch.waits_for_predecessor) {
        attrs[n] = (pl_cu_launch_attr){.id = PL_CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION};
        attrs[n].value.flag = 1;
        n++;
    }
    return n;
}

pl_status pl_launch_packed(const struct pl_variant *v, struct pl_packed *packed, bool is_pdl,
                           struct pl_run *run)
{
    pl_cu_launch_attr attrs[2];
    pl_cu_launch_config config = {
        .grid = {packed->grid[0], packed->grid[1], packed->grid[2]},
        .block = {v->launch.n_threads, 1, 1},
        .dynamic_smem_bytes = v->launch.smem_bytes,
        .stream = run->stream,
        .attrs = attrs,
        .n_attrs = make_attributes(attrs, v, is_pdl),
    };
    size_t n_bytes = v->launch.params_bytes;
    void *extra[5] = {PL_CU_PARAM_BUFFER, packed->block, PL_CU_PARAM_BUFFER_BYTES, &n_bytes,
                      PL_CU_PARAM_END};
    remember(run->thread, v, packed->grid);
    /* A kernel handle serves as a function: the driver takes the context from the stream. */
    pl_cu_result r = run->call->ctx->driver.cu.LaunchKernelEx(
        &config, (pl_cu_function)(void *)v->handle, NULL, extra);
    if (r != PL_CU_SUCCESS)
        return pl_context_fail(run->call, "cuLaunchKernelEx", r);
    pl_thread_count(run->thread, PL_STAT_launches, 1);
    return PL_OK;
}

pl_status pl_launch_variant(struct pl_variant *v, const struct pl_ask *ask,
                            const pl_launch_dims *dims, struct pl_run *run)
{
    struct pl_memo *m = run->memo;
    m->owner = 0;
    m->variant = v;
    pl_status st = pl_pack_params(&m->packed, v, ask, dims, run);
    return st == PL_OK ? pl_launch_packed(v, &m->packed, ask->options.pdl, run) : st;
}
