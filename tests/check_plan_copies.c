/*
 * Copies, engine copies and pipes of lowered bodies, end to end on the emulated driver: over chips, element types, ways to copy,
 * swizzles, sizes with tails, strides and asynchronous policies.
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

/* Rows, from column 1 on, out of an array in panels of 4 columns: a box begins at 128 bytes, and so does not every panel of one row. */
struct panels_params {
    int32_t n_rows, swizzle;
};

static void panels_body(pl_builder *b, const void *params)
{
    const struct panels_params *p = params;
    const pl_shape s = PL_SHAPE(p->n_rows, 128);
    pl_ref rows = pl_smem(b, PL_F64, s, pl_transforms_make(0, 4, p->swizzle));
    pl_store(b, rows, pl_load(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0, 0), s)));
    pl_commit_smem(b);
    pl_copy_smem_to_gmem(b, rows, pl_window(b, pl_param(b, 1), PL_OFF(b, 0, 1), s));
    pl_wait_smem_to_gmem(b, 0);
}
TENSORS(panels, 1, 1);

START_TEST(rows_in_panels_are_copied)
{
    static const struct panels_params cases[] = {{1, 0}, {1, 32}, {3, 32}};
    const struct panels_params *p = &cases[_i / N_CHIPS];
    const int arch = chips[_i % N_CHIPS];
    driver_use(arch, "late");
    pl_tensor x = tensor_new(PL_F64, PL_SHAPE(p->n_rows, 128), 0, 0),
              y = tensor_new(PL_F64, PL_SHAPE(p->n_rows, 130), 0, 0);
    double *in = fill_random(&x);
    fill_bytes(&y, 0);
    const struct ask a = {.kernel = &panels,
                          .params = p,
                          .params_bytes = sizeof *p,
                          .arch = arch,
                          .args = {pl_arg_tensor(x), pl_arg_tensor(y)},
                          .grid = {1, 1, 1},
                          .facts = all_facts};
    run_ok(&a);
    double *got = fetch(&y);
    for (int i = 0; i < p->n_rows * 130; i++) {
        const int row = i / 130, col = i % 130;
        ck_assert(got[i] == (col == 0 || col == 129 ? 0 : in[row * 128 + col - 1]));
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

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_copies");
    Suite *s = suite_create("plan_copies");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, copies_are_exact_in_every_way, 0, 2 * N_CHIPS);
    tcase_add_loop_test(t, copies_of_odd_sizes_and_unaligned_bases_are_exact, 0, N_CHIPS);
    tcase_add_loop_test(t, copies_of_every_rank_are_exact, 0, N_CHIPS);
    tcase_add_loop_test(t, pipes_are_right_for_every_number_of_steps, 0, 5);
    tcase_add_loop_test(t, slots_lie_apart, 0, 4);
    tcase_add_loop_test(t, copies_may_begin_before_the_tensor, 0, 4);
    tcase_add_loop_test(t, rows_in_panels_are_copied, 0, 3 * N_CHIPS);
    tcase_add_loop_test(t, reducing_copies_combine_also_in_the_last_tile, 0, 5);
    tcase_add_loop_test(t, multicast_copies_reach_every_cta, 0, 2);
    tcase_add_test(t, engine_copies_that_may_need_elements_are_refused);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
