/*
 * Results of lowered bodies, end to end on the emulated driver: each group of operations in small kernels of its own, over chips,
 * element types, ways to copy, swizzles, sizes with tails, strides and asynchronous policies.
 */
#include "tests/plan_data.h"

enum { N_CHIPS = 4 };
static const int chips[N_CHIPS] = {80, 90, 100, 120};

/* ---- copies ---- */

struct copy_params {
    int64_t tile[4];
    int32_t rank, how_in, how_out, swizzle_bytes;
};

static void copy_tile_body(pl_builder *b, const void *params)
{
    const struct copy_params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_shape s = {.rank = p->rank};
    pl_offs at = {.rank = p->rank};
    pl_val left = pl_program_id(b, 0);
    for (int i = p->rank - 1; i >= 0; i--) {
        s.d[i] = p->tile[i];
        pl_val n = pl_cast(b, pl_cdiv(b, pl_dim(b, x, i), p->tile[i]), PL_I32);
        at.o[i] = i == 0 ? left : pl_rem(b, left, n);
        left = pl_div(b, left, n);
    }
    pl_ref tile = pl_smem(b, pl_dtype_of(b, x), s, swizzled(pl_dtype_of(b, x), p->swizzle_bytes));
    pl_bar full = pl_barrier(b, 1);
    const pl_copy_opt in = {.how = (pl_how)p->how_in}, out = {.how = (pl_how)p->how_out};
    pl_copy_gmem_to_smem_ex(b, pl_tile(b, x, at, s), tile, full, &in);
    pl_barrier_wait(b, full);
    pl_store(b, tile, pl_load(b, tile)); /* through registers: the arrangement must agree */
    pl_commit_smem(b);
    pl_copy_smem_to_gmem_ex(b, tile, pl_tile(b, y, at, s), &out);
    pl_wait_smem_to_gmem(b, 0);
}
TENSORS(copy_tile, 1, 1);

static void check_copy(const struct copy_params *p, int arch, pl_dtype t, pl_shape s, int64_t pitch,
                       int64_t offset)
{
    pl_tensor x = tensor_new(t, s, pitch, offset), y = tensor_new(t, s, pitch, offset);
    void *want = fill_random(&x);
    fill_bytes(&y, 0x5a);
    struct ask a = {.kernel = &copy_tile,
                    .params = p,
                    .params_bytes = sizeof *p,
                    .arch = arch,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    for (int i = 0; i < s.rank; i++)
        a.grid[0] *= (uint32_t)cdiv(s.d[i], p->tile[i]);
    run_ok(&a);
    char *got = fetch(&y);
    const size_t es = (size_t)pl_dtype_bits(t) / 8;
    for (int64_t i = 0; i < pl_tensor_n_elems(&x); i++) {
        const size_t at = (size_t)place_of(&x, i) * es;
        ck_assert_msg(memcmp(got + at, (char *)want + at, es) == 0,
                      "sm_%d %s how %d %d swizzle %d: element %lld differs", arch, pl_dtype_name(t),
                      p->how_in, p->how_out, p->swizzle_bytes, (long long)i);
    }
    /* Between the rows nothing was written. */
    for (int64_t r = 0; s.rank == 2 && pitch > 0 && r + 1 < s.d[0]; r++)
        for (int64_t c = s.d[1]; c < x.strides[0]; c++)
            for (size_t k = 0; k < es; k++)
                ck_assert_int_eq((unsigned char)got[(size_t)(r * x.strides[0] + c) * es + k], 0x5a);
    free(want);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}

START_TEST(copies_are_exact_in_every_way)
{
    random_turn(&rnd, _i);
    static const int swizzles[] = {0, 32, 64, 128, PL_SWIZZLE_CHOOSE};
    static const pl_dtype types[] = {PL_BF16, PL_F32, PL_I8, PL_F64};
    static const char *const policies[] = {"eager", "late", "random:7"};
    const int arch = chips[_i % N_CHIPS];
    for (int n = 0; n < 12; n++) {
        const pl_dtype t = types[random_below(&rnd, 4)];
        const int es = pl_dtype_bits(t) / 8;
        struct copy_params p = {.rank = 2, .tile = {16, 256 / es}};
        p.how_in = (int32_t)random_below(&rnd, 2) * PL_HOW_ELEMENTS;
        p.how_out = (int32_t)random_below(&rnd, 2) * PL_HOW_ELEMENTS;
        p.swizzle_bytes = swizzles[random_below(&rnd, 5)];
        const int64_t rows = 1 + (int64_t)random_below(&rnd, 40),
                      cols = (1 + (int64_t)random_below(&rnd, 40)) * 16 / es;
        driver_use(arch, policies[random_below(&rnd, 3)]);
        check_copy(&p, arch, t, PL_SHAPE(rows, cols), (int64_t)random_below(&rnd, 2) * 16 / es, 0);
    }
}
END_TEST

START_TEST(copies_of_odd_sizes_and_unaligned_bases_are_exact)
{
    random_turn(&rnd, _i);
    const int arch = chips[_i % N_CHIPS];
    driver_use(arch, "late");
    for (int n = 0; n < 8; n++) {
        static const pl_dtype types[] = {PL_BF16, PL_F32, PL_I8};
        const pl_dtype t = types[random_below(&rnd, 3)];
        const int es = pl_dtype_bits(t) / 8;
        struct copy_params p = {.rank = 2, .tile = {8, 64}, .swizzle_bytes = PL_SWIZZLE_CHOOSE};
        check_copy(
            &p, arch, t,
            PL_SHAPE(1 + (int64_t)random_below(&rnd, 20), 1 + (int64_t)random_below(&rnd, 140)),
            (int64_t)random_below(&rnd, 5), es * (int64_t)random_below(&rnd, 4));
    }
}
END_TEST

START_TEST(copies_of_every_rank_are_exact)
{
    random_turn(&rnd, _i);
    const int arch = chips[_i % N_CHIPS];
    driver_use(arch, "random:3");
    const struct copy_params rank1 = {.rank = 1, .tile = {256}},
                             rank3 = {.rank = 3, .tile = {2, 8, 64}, .swizzle_bytes = 64},
                             rank4 = {.rank = 4, .tile = {1, 2, 4, 32}};
    check_copy(&rank1, arch, PL_F32, PL_SHAPE(1000), 0, 0);
    check_copy(&rank1, arch, PL_BF16, PL_SHAPE(1024), 0, 0);
    check_copy(&rank3, arch, PL_BF16, PL_SHAPE(3, 20, 72), 0, 0);
    check_copy(&rank4, arch, PL_F32, PL_SHAPE(2, 3, 5, 36), 0, 0);
}
END_TEST

/* Slots that are no multiple of 16 bytes lie apart: written whole and read one by one, and the other way round. */
static void slots_body(pl_builder *b, const void *params)
{
    (void)params;
    const pl_shape s = PL_SHAPE(3, 5, 7), slot = PL_SHAPE(5, 7);
    pl_ref x = pl_window(b, pl_param(b, 0), PL_OFF(b, 0, 0, 0), s),
           y = pl_window(b, pl_param(b, 1), PL_OFF(b, 0, 0, 0), s);
    pl_ref whole = pl_smem(b, pl_dtype_of(b, x), s, PL_SWIZZLE_NONE),
           parts = pl_smem(b, pl_dtype_of(b, x), s, PL_SWIZZLE_NONE);
    pl_store(b, whole, pl_load(b, x));
    PL_FOR(b, i, 0, 3)
    {
        pl_ref from = pl_window(b, pl_at(b, whole, i), PL_OFF(b, 0, 0), slot);
        pl_store(b, pl_at(b, parts, i), pl_load(b, from));
    }
    pl_store(b, y, pl_load(b, parts));
}
TENSORS(slots, 1, 1);

START_TEST(slots_lie_apart)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_I8, PL_BF16, PL_F32, PL_F64};
    const pl_dtype t = types[_i];
    driver_use(chips[_i], "late");
    pl_tensor x = tensor_new(t, PL_SHAPE(3, 5, 7), 0, 0),
              y = tensor_new(t, PL_SHAPE(3, 5, 7), 0, 0);
    void *want = fill_random(&x);
    const struct ask a = {.kernel = &slots,
                          .arch = chips[_i],
                          .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                          .grid = {1, 1, 1},
                          .facts = all_facts};
    run_ok(&a);
    void *got = fetch(&y);
    ck_assert_mem_eq(got, want, tensor_span(&x));
    free(want);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

/* Windows of 8 x 64 that begin above and left of the tensor: nothing is written there, and no box begins there. */
static void corner_body(pl_builder *b, const void *params)
{
    (void)params;
    const pl_shape s = PL_SHAPE(8, 64);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_ref tile = pl_smem(b, pl_dtype_of(b, x), s, PL_SWIZZLE_NONE);
    pl_val row = pl_sub(b, pl_program_id(b, 0), 4), col = pl_mul(b, row, 8);
    pl_store(b, tile, pl_load(b, pl_window(b, x, PL_OFF(b, 0, 0), s)));
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, tile,
                         pl_window(b, pl_at(b, y, pl_program_id(b, 0)), PL_OFF(b, row, col), s));
    pl_wait_smem_to_gmem(b, 0);
}
TENSORS(corner, 1, 1);

START_TEST(copies_may_begin_before_the_tensor)
{
    enum { N = 7 };
    static const pl_dtype types[] = {PL_F32, PL_BF16, PL_I8, PL_F64};
    const pl_dtype t = types[_i];
    driver_use(chips[_i], _i % 2 == 0 ? "late" : "eager");
    pl_tensor x = tensor_new(t, PL_SHAPE(8, 64), 0, 0), y = tensor_new(t, PL_SHAPE(N, 8, 64), 0, 0);
    void *in = fill_random(&x);
    fill_bytes(&y, 0);
    const struct ask a = {.kernel = &corner,
                          .arch = chips[_i],
                          .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                          .grid = {N, 1, 1},
                          .facts = all_facts};
    run_ok(&a);
    void *got = fetch(&y);
    for (int i = 0; i < N * 8 * 64; i++) {
        const int n = i / 512, row = i / 64 % 8 - (n - 4), col = i % 64 - (n - 4) * 8;
        const bool is_in = row >= 0 && row < 8 && col >= 0 && col < 64;
        ck_assert(get_elem(got, t, i) == (is_in ? get_elem(in, t, row * 64 + col) : 0));
    }
    free(in);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

/* ---- copies that only the engine makes ---- */

struct engine_params {
    int64_t tile;
    int32_t how, op, oob, is_clipped, is_split;
};

/* y = op(y, x), tile by tile through shared memory. */
static void reduce_out_body(pl_builder *b, const void *params)
{
    const struct engine_params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    const pl_shape s = PL_SHAPE(p->tile);
    const pl_offs at = PL_OFF(b, pl_program_id(b, 0));
    pl_ref tile = pl_smem(b, pl_dtype_of(b, x), s, PL_SWIZZLE_NONE), to = pl_tile(b, y, at, s);
    const pl_copy_opt o = {.how = (pl_how)p->how, .reduce = (pl_op2)p->op, .oob = (pl_oob)p->oob};
    pl_store(b, tile, pl_load(b, pl_tile(b, x, at, s)));
    pl_commit_smem(b);
    pl_copy_smem_to_gmem_ex(b, tile, p->is_clipped ? pl_clip(b, to, 0, 100) : to, &o);
    pl_wait_smem_to_gmem(b, 0);
}
TENSORS(reduce_out, 1, 1);

/* A tile to both CTAs of a cluster, by the first or half by each; CTA n writes it to row n of y. */
static void multicast_body(pl_builder *b, const void *params)
{
    const struct engine_params *p = params;
    pl_block_cluster(b, 2, 1, 1);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    const int64_t n = p->is_split ? p->tile / 2 : p->tile;
    pl_ref tile = pl_smem(b, pl_dtype_of(b, x), PL_SHAPE(p->tile / n, n), PL_SWIZZLE_NONE);
    pl_val rank = pl_cluster_rank(b), first = pl_mul(b, pl_div(b, pl_program_id(b, 0), 2), p->tile);
    pl_bar bar = pl_barrier(b, p->is_split ? 2 : 1);
    const pl_copy_opt o = {.how = (pl_how)p->how, .multicast_mask = 3};
    if (p->is_split) {
        pl_ref half = pl_window(b, x, PL_OFF(b, pl_add(b, first, pl_mul(b, rank, n))), PL_SHAPE(n));
        pl_copy_gmem_to_smem_ex(b, half, pl_at(b, tile, rank), bar, &o);
    } else {
        PL_IF(b, pl_eq(b, rank, 0))
        {
            pl_ref all = pl_window(b, x, PL_OFF(b, first), PL_SHAPE(n));
            pl_copy_gmem_to_smem_ex(b, p->is_clipped ? pl_clip(b, all, 0, 100) : all,
                                    pl_at(b, tile, 0), bar, &o);
        }
    }
    pl_barrier_wait(b, bar);
    for (int64_t i = 0; i < p->tile / n; i++)
        pl_store(b,
                 pl_window(b, pl_at(b, y, rank), PL_OFF(b, pl_add(b, first, i * n)), PL_SHAPE(n)),
                 pl_load(b, pl_at(b, tile, (int)i)));
}
TENSORS(multicast, 1, 1);

static double reduced(int op, double x, double y)
{
    return op == PL_ADD ? x + y : (op == PL_MIN) == (x < y) ? x : y;
}

static struct ask engine_ask(const pl_kernel *k, const struct engine_params *p, int arch,
                             const pl_tensor *x, const pl_tensor *y)
{
    return (struct ask){.kernel = k,
                        .params = p,
                        .params_bytes = sizeof *p,
                        .arch = arch,
                        .args = {pl_arg_tensor(*x), pl_arg_tensor(*y)},
                        .grid = {(uint32_t)cdiv(x->shape[0], p->tile), 1, 1},
                        .facts = all_facts};
}

START_TEST(reducing_copies_combine_also_in_the_last_tile)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_I32, PL_BF16, PL_F16, PL_U32, PL_F32};
    static const int ops[] = {PL_ADD, PL_MIN, PL_MAX};
    static const int64_t sizes[] = {1024, 1000, 3, 257};
    const pl_dtype t = types[_i];
    for (int k = 0; k < (t == PL_F32 ? 1 : 3) * 4; k++) {
        struct engine_params p = {.tile = 256, .op = ops[k / 4]};
        if (sizes[k % 4] % p.tile == 0) { /* the promise is kept: rows that no box takes */
            p.tile = 512;
            p.how = PL_HOW_BULK;
            p.oob = PL_OOB_PROMISE;
        }
        const int arch = chips[1 + k % 3];
        driver_use(arch, k % 2 == 0 ? "late" : "eager");
        pl_tensor x = tensor_new(t, PL_SHAPE(sizes[k % 4]), 0, 0),
                  y = tensor_new(t, PL_SHAPE(sizes[k % 4]), 0, 0);
        void *add = fill_random(&x), *before = fill_random(&y);
        const struct ask a = engine_ask(&reduce_out, &p, arch, &x, &y);
        run_ok(&a);
        void *got = fetch(&y);
        for (int64_t i = 0; i < x.shape[0]; i++) {
            const double want = reduced(p.op, get_elem(before, t, i), get_elem(add, t, i));
            ck_assert_msg(get_elem(got, t, i) == want,
                          "%s op %d of %lld: element %lld is %g, not %g", pl_dtype_name(t), p.op,
                          (long long)x.shape[0], (long long)i, get_elem(got, t, i), want);
        }
        free(add);
        free(before);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

START_TEST(multicast_copies_reach_every_cta)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_F32, PL_BF16};
    static const int64_t sizes[] = {512, 300, 1000, 5};
    for (int k = 0; k < 16; k++) {
        const pl_dtype t = types[k % 2];
        const struct engine_params p = {.tile = k & 2 ? 256 : 128, .is_split = _i};
        const int64_t n = sizes[k / 4];
        driver_use(chips[1 + k % 2], k % 3 == 0 ? "late" : k % 3 == 1 ? "eager" : "random:5");
        pl_tensor x = tensor_new(t, PL_SHAPE(n), 0, 0),
                  y = tensor_new(t, PL_SHAPE(2, n), (8 - n % 8) % 8, 0);
        const size_t row_bytes = (size_t)(y.strides[0] * pl_dtype_bits(t) / 8);
        void *want = fill_random(&x);
        struct ask a = engine_ask(&multicast, &p, chips[1 + k % 2], &x, &y);
        a.grid[0] *= 2;
        run_ok(&a);
        char *got = fetch(&y);
        for (int row = 0; row < 2; row++)
            ck_assert_msg(memcmp(got + (size_t)row * row_bytes, want, tensor_span(&x)) == 0,
                          "%s of %lld, tile %lld: row %d differs", pl_dtype_name(t), (long long)n,
                          (long long)p.tile, row);
        free(want);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

/* What would need the elements way at run time. */
START_TEST(engine_copies_that_may_need_elements_are_refused)
{
    static const struct {
        const pl_kernel *kernel;
        struct engine_params p;
    } cases[] = {
        {&reduce_out, {.tile = 512, .op = PL_ADD}},
        {&reduce_out, {.tile = 256, .op = PL_MAX, .how = PL_HOW_BULK}},
        {&reduce_out, {.tile = 256, .op = PL_ADD, .is_clipped = 1}},
        {&multicast, {.tile = 512}},
        {&multicast, {.tile = 256, .how = PL_HOW_BULK}},
        {&multicast, {.tile = 256, .is_clipped = 1}},
    };
    const pl_tensor x = pl_tensor_make(4096, PL_I32, PL_SHAPE(1024)),
                    y = pl_tensor_make(1 << 20, PL_I32, PL_SHAPE(2, 1024));
    for (size_t i = 0; i < PL_COUNT(cases); i++) {
        const struct ask a = engine_ask(cases[i].kernel, &cases[i].p, 90, &x,
                                        cases[i].kernel == &multicast ? &y : &x);
        struct build *b = build_new(&a, 0);
        ck_assert_msg(b->status == PL_E_UNSUPPORTED, "case %d: %d", (int)i, (int)b->status);
        ck_assert_uint_eq(b->diags.list.n, 1);
        ck_assert_int_eq(b->diags.list.data[0].info->code, 3190);
        build_free(b);
    }
}
END_TEST

/* ---- pipes and pipelines: sums over steps ---- */

struct pipe_params {
    int32_t stages, is_pipeline, lag, n_consumers;
};

enum { PIPE_TILE = 512 };

static void stage_copies(pl_builder *b, pl_val step, pl_val slot, pl_bar full, void *user)
{
    const pl_ref *r = user;
    pl_copy_gmem_to_smem(b, pl_tile(b, r[0], PL_OFF(b, step), PL_SHAPE(PIPE_TILE)),
                         pl_at(b, r[1], slot), full);
}

/* y[i] = sum over steps of x[step * tile + i] */
static void sum_steps_body(pl_builder *b, const void *params)
{
    const struct pipe_params *p = params;
    const int n_wg = p->is_pipeline ? 1 : 1 + p->n_consumers;
    pl_block_warpgroups(b, n_wg);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_val n = pl_cdiv(b, pl_dim(b, x, 0), PIPE_TILE);
    pl_ref buf = pl_smem(b, PL_F32, PL_SHAPE(p->stages, PIPE_TILE), PL_SWIZZLE_NONE);
    if (p->is_pipeline) {
        pl_ref both[2] = {x, buf};
        const pl_pipeline_desc d = {.stages = p->stages,
                                    .n_copies = 1,
                                    .lag = p->lag,
                                    .copies = stage_copies,
                                    .user = both};
        pl_ref sum = pl_regs(b, PL_F32, PL_SHAPE(PIPE_TILE), pl_layout_auto(), 0.0f);
        PL_PIPELINE(b, step, slot, n, &d)
        {
            (void)step;
            pl_store(b, sum, pl_add(b, pl_load(b, sum), pl_load(b, pl_at(b, buf, slot))));
        }
        pl_store(b, y, pl_load(b, sum));
        return;
    }
    const pl_pipe_desc d = {.stages = p->stages,
                            .producer = PL_BY_COPIES,
                            .consumer = PL_BY_THREADS,
                            .n_consumers = p->n_consumers};
    pl_pipe pipe = pl_pipe_make(b, &d);
    PL_WARP(b, 0, 1)
    {
        PL_FOR(b, i, 0, n)
        {
            PL_PRODUCE(b, pipe, slot)
            {
                pl_copy_gmem_to_smem(b, pl_tile(b, x, PL_OFF(b, i), PL_SHAPE(PIPE_TILE)),
                                     pl_at(b, buf, slot), pl_full_now(b));
            }
        }
    }
    for (int c = 0; c < p->n_consumers; c++) {
        PL_WARPGROUP(b, 1 + c)
        {
            pl_ref sum = pl_regs(b, PL_F32, PL_SHAPE(PIPE_TILE), pl_layout_auto(), 0.0f);
            PL_FOR(b, i, 0, n)
            {
                (void)i;
                PL_CONSUME(b, pipe, slot)
                {
                    pl_store(b, sum, pl_add(b, pl_load(b, sum), pl_load(b, pl_at(b, buf, slot))));
                }
            }
            if (c == 0)
                pl_store(b, y, pl_load(b, sum));
        }
    }
}

static const pl_param_decl sum_steps_params[] = {
    {.name = "x", .role = PL_ROLE_IN, .min_rank = 1, .max_rank = 1, .dtypes = PL_DT(F32)},
    {.name = "y",
     .role = PL_ROLE_OUT,
     .min_rank = 1,
     .max_rank = 1,
     .dtypes = PL_DT(F32),
     .baked_dims = 1},
};
static const pl_kernel sum_steps = {.struct_size = sizeof(pl_kernel),
                                    .name = "sum_steps",
                                    .params = sum_steps_params,
                                    .n_params = 2,
                                    .params_bytes = sizeof(struct pipe_params),
                                    .n_configs = 1,
                                    .body = sum_steps_body};

static void check_sum_steps(const struct pipe_params *p, int arch, int64_t n_elems)
{
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(n_elems > 0 ? n_elems : 1), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(PIPE_TILE), 0, 0);
    x.shape[0] = n_elems;
    void *host = fill_random(&x);
    struct ask a = {.kernel = &sum_steps,
                    .params = p,
                    .params_bytes = sizeof *p,
                    .arch = arch,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    run_ok(&a);
    void *got = fetch(&y);
    for (int64_t i = 0; i < PIPE_TILE; i++) {
        double want = 0;
        for (int64_t k = i; k < n_elems; k += PIPE_TILE)
            want += get_elem(host, PL_F32, k);
        ck_assert_msg(get_elem(got, PL_F32, i) == want,
                      "sm_%d stages %d %s lag %d, %lld elements: element %lld is %g, not %g", arch,
                      p->stages, p->is_pipeline ? "pipeline" : "pipe", p->lag, (long long)n_elems,
                      (long long)i, get_elem(got, PL_F32, i), want);
    }
    free(host);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}

/* stages 1..5; steps 0..11, the last one short in some. */
START_TEST(pipes_are_right_for_every_number_of_steps)
{
    random_turn(&rnd, _i);
    static const char *const policies[] = {"eager", "late", "random:1", "random:2"};
    const int stages = _i % 5 + 1;
    for (int steps = 0; steps <= 11; steps++) {
        const int64_t n =
            (int64_t)steps * PIPE_TILE - (steps > 0 ? (int64_t)random_below(&rnd, 3) * 100 : 0);
        for (int c = 0; c < 3; c++) {
            const struct pipe_params p = {.stages = stages,
                                          .is_pipeline = c > 0,
                                          .lag = c == 2,
                                          .n_consumers = 1 + (int)random_below(&rnd, 2)};
            const int arch = chips[random_below(&rnd, 2)];
            driver_use(arch, policies[random_below(&rnd, 4)]);
            check_sum_steps(&p, arch, n);
        }
    }
}
END_TEST

/* ---- elementwise ---- */

struct elem_params {
    int32_t is_unary, op, n;
};

static void elementwise_body(pl_builder *b, const void *params)
{
    const struct elem_params *p = params;
    pl_ref x = pl_param(b, 0), z = pl_param(b, 1), y = pl_param(b, 2);
    const pl_shape s = PL_SHAPE(p->n);
    pl_val v = pl_load(b, pl_window(b, x, PL_OFF(b, 0), s)),
           w = pl_load(b, pl_window(b, z, PL_OFF(b, 0), s));
    pl_val r = p->is_unary ? pl_op1_at(b, (pl_op1)p->op, v, PL_LOC)
                           : pl_op2_at(b, (pl_op2)p->op, v, w, PL_LOC);
    if (pl_dtype_of_val(b, r) == PL_PRED)
        r = pl_cast(b, r, pl_dtype_of(b, y));
    pl_store(b, pl_window(b, y, PL_OFF(b, 0), s), r);
}
TENSORS(elementwise, 2, 1);

static double ref_binary(pl_op2 op, double x, double y)
{
    switch ((int)op) {
    case PL_ADD: return x + y;
    case PL_SUB: return x - y;
    case PL_MUL: return x * y;
    case PL_MIN: return x < y ? x : y;
    case PL_MAX: return x > y ? x : y;
    case PL_EQ: return x == y;
    case PL_NE: return x != y;
    case PL_LT: return x < y;
    case PL_LE: return x <= y;
    case PL_GT: return x > y;
    case PL_GE: return x >= y;
    default: return NAN;
    }
}

START_TEST(elementwise_operations_are_right_in_every_type)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_F64, PL_F32, PL_F16, PL_BF16, PL_I16,
                                     PL_I32, PL_I64, PL_U16, PL_U32,  PL_U64};
    static const pl_op2 ops[] = {PL_ADD, PL_SUB, PL_MUL, PL_MIN, PL_MAX, PL_EQ,
                                 PL_NE,  PL_LT,  PL_LE,  PL_GT,  PL_GE};
    const pl_dtype t = types[_i];
    for (size_t o = 0; o < PL_COUNT(ops); o++) {
        const int arch = chips[random_below(&rnd, 2)];
        driver_use(arch, "late");
        const struct elem_params p = {.op = ops[o], .n = o % 2 == 0 ? 512 : 100};
        const int64_t extra = (int64_t)random_below(&rnd, 2);
        pl_tensor x = tensor_new(t, PL_SHAPE(p.n), 0, extra * pl_dtype_bits(t) / 8),
                  z = tensor_new(t, PL_SHAPE(p.n), 0, 0), y = tensor_new(t, PL_SHAPE(p.n), 0, 0);
        void *hx = fill_random(&x), *hz = fill_random(&z);
        struct ask a = {.kernel = &elementwise,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = arch,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(z), pl_arg_tensor(y)},
                        .grid = {1, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&y);
        char cell[8];
        for (int64_t i = 0; i < p.n; i++) {
            set_elem(cell, t, 0, ref_binary(ops[o], get_elem(hx, t, i), get_elem(hz, t, i)));
            ck_assert_msg(get_elem(got, t, i) == get_elem(cell, t, 0),
                          "sm_%d %s op %d element %lld: %g op %g is %g", arch, pl_dtype_name(t),
                          (int)ops[o], (long long)i, get_elem(hx, t, i), get_elem(hz, t, i),
                          get_elem(got, t, i));
        }
        free(hx);
        free(hz);
        free(got);
        free_tensor(&x);
        free_tensor(&z);
        free_tensor(&y);
    }
}
END_TEST

/* ---- casts ---- */

struct cast_params {
    int32_t from, to;
};

enum { N_CAST = 384 };

static void casts_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_val v = pl_load(b, pl_window(b, x, PL_OFF(b, 0), PL_SHAPE(N_CAST)));
    pl_store(b, pl_window(b, y, PL_OFF(b, 0), PL_SHAPE(N_CAST)), pl_cast(b, v, pl_dtype_of(b, y)));
}
TENSORS(casts, 1, 1);

/* An independent conversion of bit patterns: exact arithmetic of base/num.h. */
static uint64_t ref_cast(pl_dtype from, pl_dtype to, uint64_t bits)
{
    if (from == to)
        return bits;
    const int fb = pl_dtype_bits(from), tb = pl_dtype_bits(to);
    const bool from_signed = pl_dtype_kind_of(from) == PL_KIND_INT;
    const uint64_t mask = tb == 64 ? UINT64_MAX : ((uint64_t)1 << tb) - 1;
    if (!is_float(from)) {
        const int64_t wide =
            from_signed ? (int64_t)(bits << (64 - fb)) >> (64 - fb) : (int64_t)bits;
        if (!is_float(to))
            return to == PL_PRED ? wide != 0 : (uint64_t)wide & mask;
        struct pl_num n = from_signed ? pl_num_of_i64(wide) : pl_num_of_u64(bits);
        const struct pl_num_rule rule = {.is_satfinite = to == PL_E4M3 || to == PL_E5M2};
        return pl_num_pack(format_of(to), n, &rule);
    }
    struct pl_num n = pl_num_unpack(format_of(from), bits);
    if (to == PL_PRED)
        return n.class != PL_NUM_ZERO;
    if (!is_float(to)) {
        const struct pl_num_int_rule rule = {.round = PL_NUM_RZ,
                                             .n_bits = (uint8_t)tb,
                                             .is_signed = pl_dtype_kind_of(to) == PL_KIND_INT,
                                             .nan = 0};
        return pl_num_to_int(n, &rule);
    }
    const struct pl_num_rule rule = {.is_satfinite = to == PL_E4M3 || to == PL_E5M2};
    return pl_num_pack(format_of(to), n, &rule);
}

static bool same_number(pl_dtype t, uint64_t x, uint64_t y)
{
    if (x == y || !is_float(t))
        return x == y;
    return pl_num_unpack(format_of(t), x).class == PL_NUM_NAN &&
           pl_num_unpack(format_of(t), y).class == PL_NUM_NAN;
}

static uint64_t random_bits(pl_dtype t)
{
    switch ((int)t) {
    case PL_F64:
        return random_below(&rnd, 2) ? random_float(&rnd, 11, 52)
                                     : (uint64_t)pl_num_of_double(
                                           PL_NUM_F64, (double)(int64_t)random_u64(&rnd) / 1e12);
    case PL_F32: return random_float(&rnd, 8, 23);
    case PL_BF16: return random_float(&rnd, 8, 7);
    case PL_F16: return random_float(&rnd, 5, 10);
    case PL_E4M3:
    case PL_E5M2: return random_u64(&rnd) & 0xff;
    default: return random_int(&rnd, (unsigned)pl_dtype_bits(t));
    }
}

static void check_cast(pl_dtype from, pl_dtype to, int arch)
{
    const int fb = pl_dtype_bits(from) / 8, tb = pl_dtype_bits(to) / 8;
    const int64_t extra = (int64_t)random_below(&rnd, 2);
    pl_tensor x = tensor_new(from, PL_SHAPE(N_CAST), 0, extra * fb),
              y = tensor_new(to, PL_SHAPE(N_CAST), 0, 0);
    unsigned char *in = calloc(N_CAST, 8);
    for (int i = 0; i < N_CAST; i++) {
        const uint64_t v = random_bits(from);
        memcpy(in + i * fb, &v, (size_t)fb);
    }
    ck_assert_int_eq(emu.HtoD(x.address, in, tensor_span(&x)), 0);
    struct ask a = {.kernel = &casts,
                    .arch = arch,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    const struct cast_params p = {from, to};
    a.params = &p;
    a.params_bytes = sizeof p;
    run_ok(&a);
    unsigned char *got = fetch(&y);
    for (int i = 0; i < N_CAST; i++) {
        uint64_t v = 0, r = 0;
        memcpy(&v, in + i * fb, (size_t)fb);
        memcpy(&r, got + i * tb, (size_t)tb);
        const uint64_t want = ref_cast(from, to, v);
        ck_assert_msg(same_number(to, r, want), "sm_%d %s to %s: %llx gives %llx, not %llx", arch,
                      pl_dtype_name(from), pl_dtype_name(to), (unsigned long long)v,
                      (unsigned long long)r, (unsigned long long)want);
    }
    free(in);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}

static void ceiling_body(pl_builder *b, const void *params)
{
    (void)params;
    const pl_shape s = PL_SHAPE(N_CAST);
    pl_ref x = pl_window(b, pl_param(b, 0), PL_OFF(b, 0), s);
    pl_ref z = pl_window(b, pl_param(b, 1), PL_OFF(b, 0), s);
    pl_store(b, pl_window(b, pl_param(b, 2), PL_OFF(b, 0), s),
             pl_cdiv(b, pl_load(b, x), pl_load(b, z)));
}
TENSORS(ceiling, 2, 1);

/* Quotients up to the largest number of the type. */
START_TEST(ceiling_division_has_no_overflow)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_U64, PL_U32, PL_U16, PL_I64, PL_I32, PL_I16};
    const pl_dtype t = types[_i];
    const int bits = pl_dtype_bits(t), es = bits / 8;
    const unsigned n_bits = (unsigned)bits - (pl_dtype_kind_of(t) == PL_KIND_INT);
    driver_use(90, "late");
    pl_tensor x = tensor_new(t, PL_SHAPE(N_CAST), 0, 0), z = tensor_new(t, PL_SHAPE(N_CAST), 0, 0),
              y = tensor_new(t, PL_SHAPE(N_CAST), 0, 0);
    unsigned char in[2][N_CAST * 8];
    for (int i = 0; i < N_CAST; i++) {
        const uint64_t v = random_int(&rnd, n_bits), by = random_int(&rnd, n_bits);
        memcpy(in[0] + i * es, &v, (size_t)es);
        memcpy(in[1] + i * es, by == 0 ? &(uint64_t){1} : &by, (size_t)es);
    }
    ck_assert_int_eq(emu.HtoD(x.address, in[0], tensor_span(&x)), 0);
    ck_assert_int_eq(emu.HtoD(z.address, in[1], tensor_span(&z)), 0);
    const struct ask a = {.kernel = &ceiling,
                          .arch = 90,
                          .args = {pl_arg_tensor(x), pl_arg_tensor(z), pl_arg_tensor(y)},
                          .grid = {1, 1, 1},
                          .facts = all_facts};
    run_ok(&a);
    unsigned char *got = fetch(&y);
    for (int i = 0; i < N_CAST; i++) {
        uint64_t v = 0, by = 0, r = 0;
        memcpy(&v, in[0] + i * es, (size_t)es);
        memcpy(&by, in[1] + i * es, (size_t)es);
        memcpy(&r, got + i * es, (size_t)es);
        ck_assert_msg(r == v / by + (v % by != 0), "%s: cdiv of %llx and %llx is %llx",
                      pl_dtype_name(t), (unsigned long long)v, (unsigned long long)by,
                      (unsigned long long)r);
    }
    free(got);
    free_tensor(&x);
    free_tensor(&z);
    free_tensor(&y);
}
END_TEST

START_TEST(casts_are_exact_between_all_types)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_F64, PL_F32, PL_F16,  PL_BF16, PL_I8,
                                     PL_I16, PL_I32, PL_I64,  PL_U8,   PL_U16,
                                     PL_U32, PL_U64, PL_E4M3, PL_E5M2, PL_PRED}; /* only to it */
    const pl_dtype from = types[_i];
    for (size_t k = 0; k < PL_COUNT(types); k++) {
        const bool is_fp8 =
            from == PL_E4M3 || from == PL_E5M2 || types[k] == PL_E4M3 || types[k] == PL_E5M2;
        const int arch = is_fp8 || random_below(&rnd, 2) != 0 ? 90 : 80;
        driver_use(arch, "late");
        check_cast(from, types[k], arch);
    }
}
END_TEST

/* ---- reductions, broadcasts, layouts ---- */

struct reduce_params {
    int32_t rows, cols, axis, op, scope, n_warpgroups, vec;
};

static void reduce_axis_body(pl_builder *b, const void *params)
{
    const struct reduce_params *p = params;
    pl_block_warpgroups(b, p->n_warpgroups);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_val v = pl_load(b, pl_window(b, x, PL_OFF(b, 0, 0), PL_SHAPE(p->rows, p->cols)));
    if (p->vec != 0)
        v = pl_layout_cast(b, v, pl_layout_strided(p->vec));
    pl_val r = pl_reduce(b, (pl_op2)p->op, v, p->axis, (pl_scope)p->scope);
    pl_val wide = pl_broadcast(b, r, p->axis, p->axis == 0 ? p->rows : p->cols);
    pl_store(b, pl_window(b, y, PL_OFF(b, 0, 0), PL_SHAPE(p->rows, p->cols)), wide);
}
TENSORS(reduce_axis, 1, 1);

START_TEST(reductions_along_an_axis_are_right)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_F32, PL_BF16, PL_I32, PL_I16, PL_F64, PL_U64};
    static const pl_op2 ops[] = {PL_ADD, PL_MIN, PL_MAX};
    for (int n = 0; n < 10; n++) {
        const pl_dtype t = types[_i % 6];
        const int arch = chips[random_below(&rnd, N_CHIPS)];
        struct reduce_params p = {.rows = 1 + (int)random_below(&rnd, 40),
                                  .cols = 1 << random_below(&rnd, 8),
                                  .axis = (int)random_below(&rnd, 2),
                                  .op = (int)ops[random_below(&rnd, 3)],
                                  .scope = PL_SCOPE_WARPGROUP,
                                  .n_warpgroups = 1 + (int)random_below(&rnd, 2),
                                  .vec = (int)random_below(&rnd, 2)};
        if (n % 3 == 0)
            p.cols = 1 + (int)random_below(&rnd, 60);
        driver_use(arch, "late");
        pl_tensor x = tensor_new(t, PL_SHAPE(p.rows, p.cols), 0, 0),
                  y = tensor_new(t, PL_SHAPE(p.rows, p.cols), 0, 0);
        void *host = fill_random(&x);
        struct ask a = {.kernel = &reduce_axis,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = arch,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                        .grid = {1, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&y);
        for (int r = 0; r < p.rows; r++)
            for (int c = 0; c < p.cols; c++) {
                const int len = p.axis == 0 ? p.rows : p.cols;
                double want = get_elem(host, t, p.axis == 0 ? c : r * p.cols);
                for (int k = 1; k < len; k++)
                    want = ref_binary(
                        (pl_op2)p.op, want,
                        get_elem(host, t, p.axis == 0 ? k * p.cols + c : r * p.cols + k));
                char cell[8] = {0};
                set_elem(cell, t, 0, want);
                ck_assert_msg(get_elem(got, t, r * p.cols + c) == get_elem(cell, t, 0),
                              "sm_%d %s %dx%d axis %d op %d vec %d: (%d, %d) is %g, not %g", arch,
                              pl_dtype_name(t), p.rows, p.cols, p.axis, p.op, p.vec, r, c,
                              get_elem(got, t, r * p.cols + c), want);
            }
        free(host);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

struct total_params {
    int32_t n, n_warpgroups, cluster, op, scope;
};

/* Each warpgroup of each CTA reduces its own part; every one writes the total it sees. */
static void total_body(pl_builder *b, const void *params)
{
    const struct total_params *p = params;
    pl_block_warpgroups(b, p->n_warpgroups);
    if (p->cluster > 1)
        pl_block_cluster(b, p->cluster, 1, 1);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_val part = pl_add(b, pl_mul(b, pl_cluster_rank(b), p->n_warpgroups), pl_warpgroup_id(b));
    pl_val v = pl_load(b, pl_tile(b, x, PL_OFF(b, part), PL_SHAPE(p->n)));
    pl_val sum = pl_reduce(b, (pl_op2)p->op, v, 0, (pl_scope)p->scope);
    pl_val again =
        pl_reduce(b, (pl_op2)p->op, v, 0, (pl_scope)p->scope); /* scratch is used again */
    pl_store(b, pl_at(b, y, part), pl_select(b, pl_eq(b, sum, again), sum, pl_sub(b, sum, sum)));
}
TENSORS(total, 1, 1);

START_TEST(reductions_reach_their_scope)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_F32, PL_I32, PL_F64, PL_BF16, PL_U16};
    for (int n = 0; n < 8; n++) {
        const pl_dtype t = types[random_below(&rnd, 5)];
        struct total_params p = {.n = 1 + (int)random_below(&rnd, 300),
                                 .n_warpgroups = 1 + (int)random_below(&rnd, 3),
                                 .cluster = 1,
                                 .op = (int)(random_below(&rnd, 2) ? PL_MAX : PL_ADD),
                                 .scope = PL_SCOPE_WARPGROUP + (int)random_below(&rnd, 3)};
        const int arch = p.scope == PL_SCOPE_CLUSTER ? 90 : chips[random_below(&rnd, N_CHIPS)];
        if (p.scope == PL_SCOPE_CLUSTER)
            p.cluster = 1 << random_below(&rnd, 3);
        if (t == PL_BF16)
            p.op = PL_MAX;
        const int n_parts = p.n_warpgroups * p.cluster;
        driver_use(arch, "late");
        pl_tensor x = tensor_new(t, PL_SHAPE((int64_t)p.n * n_parts), 0, 0),
                  y = tensor_new(t, PL_SHAPE(n_parts), 0, 0);
        void *host = fill_random(&x);
        struct ask a = {.kernel = &total,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = arch,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                        .grid = {(uint32_t)p.cluster, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&y);
        for (int part = 0; part < n_parts; part++) {
            const int width = p.scope == PL_SCOPE_WARPGROUP ? 1
                              : p.scope == PL_SCOPE_CTA     ? p.n_warpgroups
                                                            : n_parts;
            const int64_t first = (int64_t)(part / width * width) * p.n, len = (int64_t)width * p.n;
            double want = get_elem(host, t, first);
            for (int64_t i = 1; i < len; i++)
                want = ref_binary((pl_op2)p.op, want, get_elem(host, t, first + i));
            ck_assert_msg(get_elem(got, t, part) == want,
                          "sm_%d %s n %d wg %d cluster %d op %d scope %d: part %d is %g, not %g",
                          arch, pl_dtype_name(t), p.n, p.n_warpgroups, p.cluster, p.op, p.scope,
                          part, get_elem(got, t, part), want);
        }
        free(host);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

/* The same of rows: every part has the result of its scope, along either axis. */
struct parts_params {
    int32_t rows, cols, axis, op, scope, n_warpgroups, cluster;
};

static void parts_body(pl_builder *b, const void *params)
{
    const struct parts_params *p = params;
    pl_block_warpgroups(b, p->n_warpgroups);
    pl_block_cluster(b, p->cluster, 1, 1);
    pl_val part = pl_add(b, pl_mul(b, pl_cluster_rank(b), p->n_warpgroups), pl_warpgroup_id(b));
    const pl_shape s = PL_SHAPE(p->rows, p->cols),
                   left = PL_SHAPE(p->axis == 0 ? p->cols : p->rows);
    pl_ref y = pl_window(b, pl_at(b, pl_param(b, 1), part), PL_OFF(b, 0), left);
    pl_val v = pl_load(b, pl_window(b, pl_at(b, pl_param(b, 0), part), PL_OFF(b, 0, 0), s));
    PL_FOR(b, i, 0, 2) /* scratch is used again */
    {
        (void)i;
        pl_store(b, y, pl_reduce(b, (pl_op2)p->op, v, p->axis, (pl_scope)p->scope));
    }
}
TENSORS(parts, 1, 1);

static double of_parts(const struct parts_params *p, const void *x, pl_dtype t, int part, int i)
{
    const int width = p->n_warpgroups * (p->scope == PL_SCOPE_CLUSTER ? p->cluster : 1);
    const int len = p->axis == 0 ? p->rows : p->cols;
    double want = 0;
    for (int k = 0; k < width * len; k++) {
        const int64_t first = (int64_t)(part / width * width + k / len) * p->rows * p->cols;
        const double v =
            get_elem(x, t, first + (p->axis == 0 ? k % len * p->cols + i : i * p->cols + k % len));
        want = k == 0 ? v : ref_binary((pl_op2)p->op, want, v);
    }
    return want;
}

START_TEST(reductions_along_an_axis_reach_their_scope)
{
    random_turn(&rnd, _i);
    static const pl_dtype types[] = {PL_F32, PL_I32, PL_U64, PL_F16, PL_I16};
    for (int n = 0; n < 8; n++) {
        const pl_dtype t = types[random_below(&rnd, 5)];
        const bool is_wide = random_below(&rnd, 2);
        const struct parts_params p = {.rows = 1 + (int)random_below(&rnd, 40),
                                       .cols = random_below(&rnd, 2)
                                                   ? 1 << random_below(&rnd, 7)
                                                   : 1 + (int)random_below(&rnd, 50),
                                       .axis = (int)random_below(&rnd, 2),
                                       .op = (int)(random_below(&rnd, 2) ? PL_MIN : PL_ADD),
                                       .scope = is_wide ? PL_SCOPE_CLUSTER : PL_SCOPE_CTA,
                                       .n_warpgroups = 1 + (int)random_below(&rnd, 3),
                                       .cluster = is_wide ? 1 << random_below(&rnd, 3) : 1};
        const int arch = is_wide ? 90 : chips[random_below(&rnd, N_CHIPS)],
                  n_parts = p.n_warpgroups * p.cluster, n_left = p.axis == 0 ? p.cols : p.rows;
        if (t == PL_F16 && p.op == PL_ADD && p.rows > 8)
            continue; /* sums beyond 2048 are rounded */
        driver_use(arch, n % 2 == 0 ? "late" : "random:4");
        pl_tensor x = tensor_new(t, PL_SHAPE(n_parts, p.rows, p.cols), 0, 0),
                  y = tensor_new(t, PL_SHAPE(n_parts, n_left), 0, 0);
        void *host = fill_random(&x);
        const struct ask a = {.kernel = &parts,
                              .params = &p,
                              .params_bytes = sizeof p,
                              .arch = arch,
                              .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                              .grid = {(uint32_t)p.cluster, 1, 1},
                              .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&y);
        for (int i = 0; i < n_parts * n_left; i++)
            ck_assert_msg(get_elem(got, t, i) == of_parts(&p, host, t, i / n_left, i % n_left),
                          "sm_%d %s %dx%d axis %d wg %d cluster %d op %d: %d is %g, not %g", arch,
                          pl_dtype_name(t), p.rows, p.cols, p.axis, p.n_warpgroups, p.cluster, p.op,
                          i, get_elem(got, t, i), of_parts(&p, host, t, i / n_left, i % n_left));
        free(host);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

/* Rounds that exchange an array by other threads than stored it: what is stored is the same everywhere, whatever its layout. */
static void rounds_body(pl_builder *b, const void *params)
{
    (void)params;
    const pl_shape s = PL_SHAPE(64);
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_ref buf = pl_smem(b, pl_dtype_of(b, x), s, PL_SWIZZLE_NONE);
    pl_ref sum = pl_regs(b, pl_dtype_of(b, x), s, pl_layout_strided(2), 0);
    pl_val first = pl_load(b, pl_window(b, x, PL_OFF(b, 0), s));
    pl_store(b, buf, pl_layout_cast(b, first, pl_layout_strided(2)));
    PL_FOR(b, i, 0, 3)
    {
        pl_val same = pl_broadcast(b, pl_cast(b, i, pl_dtype_of(b, x)), 0, 64);
        pl_val pairs = pl_layout_cast(b, same, pl_layout_strided(2));
        pl_val old = pl_swap(b, buf, pl_sub(b, pairs, pairs));
        pl_store(b, sum, pl_add(b, pl_load(b, sum), old));
    }
    pl_store(b, pl_window(b, y, PL_OFF(b, 0), s), pl_load(b, sum));
}
TENSORS(rounds, 1, 1);

START_TEST(rounds_wait_for_what_is_the_same_everywhere)
{
    driver_use(90, "late");
    ck_assert_int_eq(emu.configure("check", "race"), 0);
    pl_tensor x = tensor_new(PL_I32, PL_SHAPE(64), 0, 0),
              y = tensor_new(PL_I32, PL_SHAPE(64), 0, 0);
    void *in = fill_random(&x);
    const struct ask a = {.kernel = &rounds,
                          .arch = 90,
                          .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                          .grid = {1, 1, 1},
                          .facts = all_facts};
    run_ok(&a);
    ck_assert_int_eq(emu.configure("check", "faults"), 0);
    void *got = fetch(&y);
    for (int i = 0; i < 64; i++)
        ck_assert(get_elem(got, PL_I32, i) == get_elem(in, PL_I32, i));
    free(in);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

/* ---- control flow, iota, extract, transposed views ---- */

struct flow_params {
    int32_t n;
};

/* y[i] = i < k ? x[k - 1 - i'] ... : a while loop that counts, an if and an else, and iota against a bound */
static void flow_body(pl_builder *b, const void *params)
{
    const struct flow_params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    if (pl_has_tma(b)) {
        pl_griddep_wait(b);
        pl_griddep_launch(b);
    }
    pl_ref count = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    pl_ref odd = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    pl_val first = pl_cast(b, pl_load(b, pl_at(b, x, 0)), PL_I32);
    PL_WHILE(b, pl_lt(b, pl_load(b, count), first))
    {
        pl_val c = pl_load(b, count);
        PL_IF(b, pl_eq(b, pl_rem(b, c, 2), 1)) { pl_store(b, odd, pl_add(b, pl_load(b, odd), 10)); }
        PL_ELSE(b) { pl_store(b, odd, pl_add(b, pl_load(b, odd), 1)); }
        pl_break_if(b, pl_eq(b, c, 5));
        pl_store(b, count, pl_add(b, c, 1));
    }
    const pl_shape s = PL_SHAPE(p->n);
    pl_val i = pl_iota(b, PL_I32, s, 0);
    pl_val v = pl_cast(b, pl_load(b, pl_window(b, x, PL_OFF(b, 0), s)), PL_I32);
    pl_val w =
        pl_select(b, pl_lt(b, i, pl_load(b, count)), pl_add(b, v, pl_load(b, odd)), pl_neg(b, i));
    pl_store(b, pl_window(b, y, PL_OFF(b, 0), s), w);
}
TENSORS(flow, 1, 1);

START_TEST(control_flow_and_variables_are_right)
{
    for (int first = 0; first < 8; first++) {
        const int arch = chips[random_below(&rnd, N_CHIPS)];
        const struct flow_params p = {.n = 50 + 13 * first};
        driver_use(arch, "late");
        pl_tensor x = tensor_new(PL_F32, PL_SHAPE(p.n), 0, 0),
                  y = tensor_new(PL_I32, PL_SHAPE(p.n), 0, 0);
        void *host = fill_random(&x);
        set_elem(host, PL_F32, 0, first);
        ck_assert_int_eq(emu.HtoD(x.address, host, tensor_span(&x)), 0);
        struct ask a = {.kernel = &flow,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = arch,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                        .grid = {1, 1, 1},
                        .facts = all_facts};
        run_ok(&a);
        int32_t *got = fetch(&y);
        int count = 0, odd = 0;
        while (count < first) {
            odd += count % 2 == 1 ? 10 : 1;
            if (count == 5)
                break;
            count++;
        }
        for (int i = 0; i < p.n; i++)
            ck_assert_int_eq(got[i], i < count ? (int)get_elem(host, PL_F32, i) + odd : -i);
        free(host);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

struct turn_params {
    int32_t rows, cols, swizzle_bytes;
};

enum { TURN_ROUNDS = 5, TURN_ROWS = 8, TURN_COLS = 64 };

/* Rounds that turn a tile in one buffer: threads store what others copy out, and the next round's stores come behind those copies. */
static void turn_rounds_body(pl_builder *b, const void *params)
{
    const pl_copy_opt out = {.how = PL_HOW_ELEMENTS};
    (void)params;
    pl_ref tile = pl_smem(b, PL_F32, PL_SHAPE(TURN_ROWS, TURN_COLS), PL_SWIZZLE(0));
    PL_FOR(b, i, 0, TURN_ROUNDS)
    {
        const pl_offs at = PL_OFF(b, i, 0);
        pl_val v = pl_load(b, pl_tile(b, pl_param(b, 0), at, PL_SHAPE(TURN_COLS, TURN_ROWS)));
        pl_store(b, pl_transpose(b, tile), v);
        pl_commit_smem(b);
        pl_copy_smem_to_gmem_ex(
            b, tile, pl_tile(b, pl_param(b, 1), at, PL_SHAPE(TURN_ROWS, TURN_COLS)), &out);
        pl_wait_smem_to_gmem(b, 0);
    }
}
TENSORS(turn_rounds, 1, 1);

START_TEST(copies_of_a_round_are_made_before_the_next_stores)
{
    random_turn(&rnd, _i);
    driver_use(chips[_i], "eager");
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(TURN_ROUNDS * TURN_COLS, TURN_ROWS), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(TURN_ROUNDS * TURN_ROWS, TURN_COLS), 0, 0);
    struct ask a = {.kernel = &turn_rounds,
                    .arch = chips[_i],
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    void *from = fill_random(&x);
    run_ok(&a);
    void *to = fetch(&y);
    for (int64_t i = 0; i < TURN_ROUNDS * TURN_ROWS * TURN_COLS; i++) {
        const int64_t round = i / (TURN_ROWS * TURN_COLS), row = i / TURN_COLS % TURN_ROWS,
                      col = i % TURN_COLS;
        ck_assert_msg(get_elem(to, PL_F32, i) ==
                          get_elem(from, PL_F32, (round * TURN_COLS + col) * TURN_ROWS + row),
                      "sm_%d: round %d row %d column %d", chips[_i], (int)round, (int)row,
                      (int)col);
    }
    free(from);
    free(to);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

/* A loop left in the middle of a round: what its threads read there from each other is read before they store again. */
static void leave_body(pl_builder *b, const void *params)
{
    const pl_shape whole = PL_SHAPE(TURN_COLS, TURN_ROWS);
    (void)params;
    pl_ref tile = pl_smem(b, PL_F32, whole, PL_SWIZZLE(0)),
           x = pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), whole),
           y = pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), whole);
    pl_ref sum =
        pl_regs(b, PL_F32, PL_SHAPE(TURN_ROWS, TURN_COLS), pl_layout_auto(), pl_lit_f(b, 0));
    pl_ref round = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), pl_lit_i(b, 0));
    pl_store(b, tile, pl_load(b, x));
    pl_commit_smem(b);
    PL_LOOP(b)
    {
        pl_store(b, sum, pl_add(b, pl_load(b, sum), pl_load(b, pl_transpose(b, tile))));
        pl_store(b, round, pl_add(b, pl_load(b, round), 1));
        pl_break_if(b, pl_ge(b, pl_load(b, round), TURN_ROUNDS));
        pl_commit_smem(b);
    }
    pl_store(b, tile, pl_neg(b, pl_load(b, tile)));
    pl_store(b, pl_transpose(b, y), pl_add(b, pl_load(b, sum), pl_load(b, pl_transpose(b, tile))));
}
TENSORS(leave, 1, 1);

START_TEST(loads_before_the_end_of_a_loop_are_made_before_the_stores_behind_it)
{
    random_turn(&rnd, _i);
    driver_use(chips[_i], "eager");
    ck_assert_int_eq(emu.configure("check", "race"), 0);
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(TURN_COLS, TURN_ROWS), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(TURN_COLS, TURN_ROWS), 0, 0);
    struct ask a = {.kernel = &leave,
                    .arch = chips[_i],
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    float *from = fill_random(&x);
    run_ok(&a);
    emu.configure("check", "faults");
    float *to = fetch(&y);
    for (int i = 0; i < TURN_COLS * TURN_ROWS; i++) {
        float want = 0; /* in the order of the rounds */
        for (int round = 0; round < TURN_ROUNDS; round++)
            want += from[i];
        ck_assert_msg(to[i] == want - from[i], "sm_%d: element %d", chips[_i], i);
    }
    free(from);
    free(to);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

/* Copies out that only one way through the body waits for: shared memory outlives them on the others too. */
enum { PENDING_BRANCH, PENDING_BREAK, PENDING_NO_ROUNDS, N_PENDING };

static void pending_body(pl_builder *b, const void *params)
{
    const int32_t *where = params;
    const pl_shape whole = PL_SHAPE(TURN_ROWS, TURN_COLS);
    pl_ref y = pl_tile(b, pl_param(b, 1), PL_OFF(b, 0, 0), whole),
           tile = pl_smem(b, PL_F32, whole, PL_SWIZZLE(0));
    pl_val block = pl_program_id(b, 0); /* 0 */
    pl_store(b, tile, pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, 0, 0), whole)));
    pl_commit_smem(b);
    if (*where != PENDING_BREAK)
        pl_copy_smem_to_gmem(b, tile, y);
    if (*where == PENDING_BRANCH)
        PL_IF(b, pl_gt(b, block, 0)) { pl_wait_smem_to_gmem(b, 0); }
    if (*where == PENDING_NO_ROUNDS)
        PL_FOR(b, i, 0, block) { pl_wait_smem_to_gmem(b, 0); }
    if (*where == PENDING_BREAK)
        PL_LOOP(b)
        {
            pl_copy_smem_to_gmem(b, tile, y);
            pl_break_if(b, pl_eq(b, block, 0));
            pl_wait_smem_to_gmem(b, 0);
        }
}
TENSORS(pending, 1, 1);

START_TEST(copies_out_are_made_on_every_way_to_the_end)
{
    random_turn(&rnd, _i);
    const int32_t where = _i / N_CHIPS;
    const int arch = chips[_i % N_CHIPS];
    driver_use(arch, "late");
    pl_tensor x = tensor_new(PL_F32, PL_SHAPE(TURN_ROWS, TURN_COLS), 0, 0),
              y = tensor_new(PL_F32, PL_SHAPE(TURN_ROWS, TURN_COLS), 0, 0);
    struct ask a = {.kernel = &pending,
                    .params = &where,
                    .params_bytes = sizeof where,
                    .arch = arch,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    float *from = fill_random(&x);
    run_ok(&a);
    float *to = fetch(&y);
    ck_assert_int_eq(memcmp(to, from, tensor_span(&y)), 0);
    free(from);
    free(to);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

static void turn_body(pl_builder *b, const void *params)
{
    const struct turn_params *p = params;
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1);
    pl_offs at = PL_OFF(b, pl_program_id(b, 1), pl_program_id(b, 0)),
            to = PL_OFF(b, pl_program_id(b, 0), pl_program_id(b, 1));
    pl_ref tile = pl_smem(b, pl_dtype_of(b, x), PL_SHAPE(p->rows, p->cols),
                          swizzled(pl_dtype_of(b, x), p->swizzle_bytes));
    pl_bar full = pl_barrier(b, 1);
    pl_copy_gmem_to_smem(b, pl_tile(b, x, at, PL_SHAPE(p->rows, p->cols)), tile, full);
    pl_barrier_wait(b, full);
    pl_store(b, pl_tile(b, y, to, PL_SHAPE(p->cols, p->rows)), pl_load(b, pl_transpose(b, tile)));
}
TENSORS(turn, 1, 1);

START_TEST(transposed_views_of_swizzled_arrays_are_right)
{
    random_turn(&rnd, _i);
    static const int swizzles[] = {0, 32, 64, 128, PL_SWIZZLE_CHOOSE};
    static const pl_dtype types[] = {PL_BF16, PL_F32, PL_I8};
    for (int n = 0; n < 6; n++) {
        const pl_dtype t = types[random_below(&rnd, 3)];
        const int arch = chips[random_below(&rnd, N_CHIPS)], es = pl_dtype_bits(t) / 8;
        const struct turn_params p = {
            .rows = 32, .cols = 128 / es, .swizzle_bytes = swizzles[random_below(&rnd, 5)]};
        const int64_t rows = 1 + (int64_t)random_below(&rnd, 80),
                      cols = 16 / es * (1 + (int64_t)random_below(&rnd, 20));
        driver_use(arch, "random:5");
        pl_tensor x = tensor_new(t, PL_SHAPE(rows, cols), 0, 0),
                  y = tensor_new(t, PL_SHAPE(cols, rows), 0, 0);
        void *host = fill_random(&x);
        struct ask a = {.kernel = &turn,
                        .params = &p,
                        .params_bytes = sizeof p,
                        .arch = arch,
                        .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                        .grid = {(uint32_t)cdiv(cols, p.cols), (uint32_t)cdiv(rows, p.rows), 1},
                        .facts = all_facts};
        run_ok(&a);
        void *got = fetch(&y);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                ck_assert_msg(get_elem(got, t, c * rows + r) == get_elem(host, t, r * cols + c),
                              "sm_%d %s swizzle %d (%lld, %lld)", arch, pl_dtype_name(t),
                              p.swizzle_bytes, (long long)r, (long long)c);
        free(host);
        free(got);
        free_tensor(&x);
        free_tensor(&y);
    }
}
END_TEST

/* ---- what was read of a variable ---- */

enum pass { BITCAST, CAST, LAYOUT_CAST, ADD_0, SHIFT_0, DIVIDE_BY_1, SELECT, ABS, AXIS, N_PASSES };

/* The same numbers, by an operation that may have nothing to do. */
static pl_val pass_on(pl_builder *b, enum pass pass, pl_val x)
{
    switch (pass) {
    case BITCAST: return pl_bitcast(b, pl_bitcast(b, x, PL_F32), PL_U32);
    case CAST: return pl_cast(b, x, PL_U32);
    case LAYOUT_CAST: return pl_layout_cast(b, x, pl_layout_strided(1));
    case ADD_0: return pl_add(b, x, 0);
    case SHIFT_0: return pl_shl(b, x, 0);
    case DIVIDE_BY_1: return pl_div(b, x, 1);
    case SELECT: return pl_select(b, pl_eq(b, pl_cast(b, 1, PL_I32), 1), x, pl_add(b, x, 5));
    case ABS: return pl_abs(b, x);
    case AXIS: return pl_reduce(b, PL_ADD, pl_broadcast(b, x, 0, 1), 0, PL_SCOPE_WARPGROUP);
    case N_PASSES: break;
    }
    return x;
}

static void stays_body(pl_builder *b, const void *params)
{
    const int32_t *pass = params;
    const pl_shape s = PL_SHAPE(256);
    pl_ref x = pl_window(b, pl_param(b, 0), PL_OFF(b, 0), s),
           y = pl_window(b, pl_param(b, 1), PL_OFF(b, 0), s);
    pl_ref var = pl_regs(b, PL_U32, s, pl_layout_strided(1), 0);
    pl_store(b, var, pl_load(b, x));
    pl_val before = pass_on(b, (enum pass) * pass, pl_load(b, var));
    pl_store(b, var, 77);
    pl_store(b, y, before);
}
TENSORS(stays, 1, 1);

START_TEST(what_was_read_of_a_variable_stays)
{
    const int32_t pass = _i;
    driver_use(80, "late");
    pl_tensor x = tensor_new(PL_U32, PL_SHAPE(256), 0, 0),
              y = tensor_new(PL_U32, PL_SHAPE(256), 0, 0);
    void *host = fill_random(&x);
    struct ask a = {.kernel = &stays,
                    .params = &pass,
                    .params_bytes = sizeof pass,
                    .arch = 80,
                    .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                    .grid = {1, 1, 1},
                    .facts = all_facts};
    run_ok(&a);
    void *got = fetch(&y);
    ck_assert_mem_eq(got, host, tensor_span(&y));
    free(host);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_run");
    Suite *s = suite_create("plan_run");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, copies_are_exact_in_every_way, 0, 2 * N_CHIPS);
    tcase_add_loop_test(t, copies_of_odd_sizes_and_unaligned_bases_are_exact, 0, N_CHIPS);
    tcase_add_loop_test(t, copies_of_every_rank_are_exact, 0, N_CHIPS);
    tcase_add_loop_test(t, copies_of_a_round_are_made_before_the_next_stores, 0, N_CHIPS);
    tcase_add_loop_test(t, loads_before_the_end_of_a_loop_are_made_before_the_stores_behind_it, 0,
                        N_CHIPS);
    tcase_add_loop_test(t, copies_out_are_made_on_every_way_to_the_end, 0, N_PENDING * N_CHIPS);
    tcase_add_loop_test(t, pipes_are_right_for_every_number_of_steps, 0, 5);
    tcase_add_loop_test(t, elementwise_operations_are_right_in_every_type, 0, 10);
    tcase_add_loop_test(t, ceiling_division_has_no_overflow, 0, 6);
    tcase_add_loop_test(t, casts_are_exact_between_all_types, 0, 14);
    tcase_add_loop_test(t, reductions_along_an_axis_are_right, 0, 6);
    tcase_add_loop_test(t, reductions_reach_their_scope, 0, 4);
    tcase_add_loop_test(t, reductions_along_an_axis_reach_their_scope, 0, 4);
    tcase_add_test(t, rounds_wait_for_what_is_the_same_everywhere);
    tcase_add_test(t, control_flow_and_variables_are_right);
    tcase_add_loop_test(t, transposed_views_of_swizzled_arrays_are_right, 0, 3);
    tcase_add_loop_test(t, what_was_read_of_a_variable_stays, 0, N_PASSES);
    suite_add_tcase(s, t);
    t = tcase_create("engine");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, slots_lie_apart, 0, 4);
    tcase_add_loop_test(t, copies_may_begin_before_the_tensor, 0, 4);
    tcase_add_loop_test(t, reducing_copies_combine_also_in_the_last_tile, 0, 5);
    tcase_add_loop_test(t, multicast_copies_reach_every_cta, 0, 2);
    tcase_add_test(t, engine_copies_that_may_need_elements_are_refused);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
