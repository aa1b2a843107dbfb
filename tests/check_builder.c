/*
 * What the builder's operations mean, run: one small kernel each through pl_launch on the emulated driver, on three chips, against the same
 * computed on the CPU (in double where the operation rounds). x, y are f32 (16, 64); q, z are i32 (16, 64).
 */
#include <plaunch.h>

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, COLS = 64, N = ROWS * COLS };
#define TILE PL_SHAPE(ROWS, COLS)
#define HALF PL_SHAPE(ROWS / 2, COLS)

enum { X, Q, Y, Z };
static const pl_param_decl decls[] = {
    {.name = "x",
     .role = PL_ROLE_IN,
     .min_rank = 2,
     .max_rank = 2,
     .dtypes = PL_DT(F32),
     .specialised = 15},
    {.name = "q",
     .role = PL_ROLE_IN,
     .min_rank = 2,
     .max_rank = 2,
     .dtypes = PL_DT(I32),
     .specialised = 15},
    {.name = "y",
     .role = PL_ROLE_OUT,
     .min_rank = 2,
     .max_rank = 2,
     .dtypes = PL_DT(F32),
     .specialised = 15},
    {.name = "z",
     .role = PL_ROLE_OUT,
     .min_rank = 2,
     .max_rank = 2,
     .dtypes = PL_DT(I32),
     .specialised = 15},
};

static float xs[N];
static int32_t qs[N];

static pl_ref whole(pl_builder *b, int32_t i)
{
    return pl_window(b, pl_param(b, i), PL_OFF(b, 0, 0), TILE);
}
static pl_ref half_of(pl_builder *b, int32_t i, pl_val which)
{
    return pl_tile(b, pl_param(b, i), PL_OFF(b, which, 0), HALF);
}
static pl_val spread(pl_builder *b, pl_val scalar)
{
    return pl_broadcast(b, pl_broadcast(b, scalar, 0, ROWS), 1, COLS);
}

/* A case: body_NAME stores `value` (of x and q) to y or z; want_NAME computes element i. */
#define FLOAT_CASE(name, value, want)                                                              \
    static void body_##name(pl_builder *b, const void *params)                                     \
    {                                                                                              \
        pl_val x = pl_load(b, whole(b, X)), q = pl_load(b, whole(b, Q));                           \
        (void)params, (void)x, (void)q;                                                            \
        pl_store(b, whole(b, Y), value);                                                           \
    }                                                                                              \
    static double want_##name(int i)                                                               \
    {                                                                                              \
        double x = (double)xs[i], q = qs[i];                                                       \
        (void)x, (void)q;                                                                          \
        return want;                                                                               \
    }
#define INT_CASE(name, value, want)                                                                \
    static void body_##name(pl_builder *b, const void *params)                                     \
    {                                                                                              \
        pl_val x = pl_load(b, whole(b, X)), q = pl_load(b, whole(b, Q));                           \
        (void)params, (void)x, (void)q;                                                            \
        pl_store(b, whole(b, Z), value);                                                           \
    }                                                                                              \
    static double want_##name(int i)                                                               \
    {                                                                                              \
        float x = xs[i];                                                                           \
        int32_t q = qs[i];                                                                         \
        (void)x, (void)q;                                                                          \
        return (double)(want);                                                                     \
    }

static int32_t bits_of(float f)
{
    int32_t i;
    memcpy(&i, &f, sizeof i);
    return i;
}

static double row_sum(int row)
{
    double sum = 0;
    for (int c = 0; c < COLS; c++)
        sum += (double)xs[row * COLS + c];
    return sum;
}
static double sum_of_all(void)
{
    double sum = 0;
    for (int r = 0; r < ROWS; r++)
        sum += row_sum(r);
    return sum;
}
static double column_max(int col)
{
    double most = -INFINITY;
    for (int r = 0; r < ROWS; r++)
        most = fmax(most, (double)xs[r * COLS + col]);
    return most;
}
static int32_t row_or(int row)
{
    int32_t all = 0;
    for (int c = 0; c < COLS; c++)
        all |= qs[row * COLS + c];
    return all;
}

FLOAT_CASE(neg, pl_neg(b, x), -x)
FLOAT_CASE(abs, pl_abs(b, x), fabs(x))
FLOAT_CASE(sqrt, pl_sqrt(b, pl_abs(b, x)), sqrt(fabs(x)))
FLOAT_CASE(rsqrt, pl_rsqrt(b, pl_add(b, pl_abs(b, x), 1)), 1 / sqrt(fabs(x) + 1))
FLOAT_CASE(rcp, pl_rcp(b, pl_add(b, pl_abs(b, x), 1.0f)), 1 / (fabs(x) + 1))
FLOAT_CASE(exp, pl_exp(b, x), exp(x))
FLOAT_CASE(exp2, pl_exp2(b, x), exp2(x))
FLOAT_CASE(log, pl_log(b, pl_add(b, pl_abs(b, x), 0.5)), log(fabs(x) + 0.5))
FLOAT_CASE(log2, pl_log2(b, pl_add(b, pl_abs(b, x), 0.5)), log2(fabs(x) + 0.5))
FLOAT_CASE(sin, pl_sin(b, x), sin(x))
FLOAT_CASE(cos, pl_cos(b, x), cos(x))
FLOAT_CASE(tanh, pl_tanh(b, x), tanh(x))
FLOAT_CASE(floor, pl_floor(b, x), floor(x))
FLOAT_CASE(ceil, pl_ceil(b, x), ceil(x))
FLOAT_CASE(round, pl_round(b, x), rint(x))
FLOAT_CASE(trunc, pl_trunc(b, x), trunc(x))
FLOAT_CASE(div, pl_div(b, x, 3.0f), (double)((float)x / 3.0f))
FLOAT_CASE(min, pl_min(b, x, 0.25f), fmin(x, 0.25))
FLOAT_CASE(max, pl_max(b, x, 0.25f), fmax(x, 0.25))
FLOAT_CASE(fma, pl_fma(b, x, x, 1.0f), (double)fmaf((float)x, (float)x, 1.0f))
FLOAT_CASE(select, pl_select(b, pl_gt(b, x, 0), x, -1.0f), x > 0 ? x : -1)
FLOAT_CASE(from_int, pl_cast(b, q, PL_F32), q)
FLOAT_CASE(half, pl_cast(b, pl_mul(b, pl_cast(b, x, PL_F16), 2), PL_F32),
           2 * x) /* x has 8 bits: exact */
FLOAT_CASE(bfloat, pl_cast(b, pl_add(b, pl_cast(b, x, PL_BF16), 0), PL_F32), x)
FLOAT_CASE(wide, pl_cast(b, pl_mul(b, pl_cast(b, x, PL_F64), 1.5), PL_F32), 1.5 * x)
INT_CASE(iadd, pl_add(b, q, 7), q + 7)
INT_CASE(imul, pl_mul(b, q, -3), q * -3)
INT_CASE(idiv, pl_div(b, q, 7), q / 7)
INT_CASE(irem, pl_rem(b, q, 7), q % 7)
INT_CASE(shl, pl_shl(b, q, 3), q * 8)
INT_CASE(shr, pl_shr(b, q, 3), q >> 3)
INT_CASE(and, pl_and(b, q, 0xff), q & 0xff)
INT_CASE(or, pl_or(b, q, 0x50), q | 0x50)
INT_CASE(xor, pl_xor(b, q, 0x55), q ^ 0x55)
INT_CASE(not, pl_not(b, q), ~q)
INT_CASE(ineg, pl_neg(b, q), -q)
INT_CASE(iabs, pl_abs(b, q), abs(q))
INT_CASE(popc, pl_popc(b, q), __builtin_popcount((unsigned)q))
INT_CASE(clz, pl_clz(b, q), q == 0 ? 32 : __builtin_clz((unsigned)q))
INT_CASE(imin, pl_min(b, q, 5), q < 5 ? q : 5)
INT_CASE(to_int, pl_cast(b, x, PL_I32), (int32_t)x)
INT_CASE(bitcast, pl_bitcast(b, x, PL_I32), bits_of(x))
INT_CASE(short_, pl_cast(b, pl_add(b, pl_cast(b, q, PL_I16), 1), PL_I32), (int16_t)(q + 1))
INT_CASE(long_, pl_cast(b, pl_mul(b, pl_cast(b, q, PL_I64), 5), PL_I32), q * 5)
INT_CASE(char_, pl_cast(b, pl_cast(b, q, PL_I8), PL_I32), (int8_t)q)
INT_CASE(byte, pl_cast(b, pl_cast(b, q, PL_U8), PL_I32), (uint8_t)q)
INT_CASE(pred, pl_cast(b, pl_and(b, pl_gt(b, q, 0), pl_lt(b, x, 0.5f)), PL_I32), q > 0 && x < 0.5f)
INT_CASE(rows, pl_iota(b, PL_I32, TILE, 0), i / COLS)
INT_CASE(cols, pl_iota(b, PL_I32, TILE, 1), i % COLS)
FLOAT_CASE(reduce_cols, pl_broadcast(b, pl_reduce(b, PL_ADD, x, 1, PL_SCOPE_WARPGROUP), 1, COLS),
           row_sum(i / COLS))
FLOAT_CASE(reduce_rows, pl_broadcast(b, pl_reduce(b, PL_MAX, x, 0, PL_SCOPE_WARPGROUP), 0, ROWS),
           column_max(i % COLS))
FLOAT_CASE(reduce_all,
           spread(b, pl_reduce(b, PL_ADD, pl_reduce(b, PL_ADD, x, 1, PL_SCOPE_WARPGROUP), 0,
                               PL_SCOPE_WARPGROUP)),
           sum_of_all())
INT_CASE(reduce_or, pl_broadcast(b, pl_reduce(b, PL_OR, q, 1, PL_SCOPE_CTA), 1, COLS),
         row_or(i / COLS))
FLOAT_CASE(extract, spread(b, pl_extract(b, x, PL_OFF(b, 3, 7))), (double)xs[3 * COLS + 7])

/* ---- places and blocks ---- */

static void body_transpose(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref s = pl_smem(b, PL_F32, PL_SHAPE(COLS, ROWS), PL_SWIZZLE_NONE);
    pl_store(b, pl_transpose(b, s), pl_load(b, whole(b, X)));
    pl_commit_smem(b);
    pl_store(b, whole(b, Y), pl_load(b, pl_reshape(b, s, TILE)));
}
static double want_transpose(int i) { return (double)xs[i % ROWS * COLS + i / ROWS]; }

static void body_swap(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref s = pl_smem(b, PL_F32, TILE, PL_SWIZZLE_AUTO);
    pl_store(b, s, pl_load(b, whole(b, X)));
    pl_commit_smem(b);
    pl_val old = pl_swap(b, s, pl_cast(b, pl_load(b, whole(b, Q)), PL_F32));
    pl_commit_smem(b);
    pl_store(b, whole(b, Y), pl_sub(b, pl_load(b, s), old));
}
static double want_swap(int i) { return (double)((float)qs[i] - xs[i]); }

static void body_union(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref s = pl_smem(b, PL_F32, TILE, PL_SWIZZLE_NONE),
           same = pl_union(b, s, PL_I32, TILE, PL_SWIZZLE_NONE);
    pl_store(b, s, pl_load(b, whole(b, X)));
    pl_commit_smem(b);
    pl_store(b, whole(b, Z), pl_load(b, same));
}
static double want_union(int i) { return bits_of(xs[i]); }

static void body_clip(pl_builder *b, const void *params)
{
    (void)params;
    const pl_load_opt fill = {.oob = PL_OOB_FILL, .fill = -5};
    pl_ref clipped =
        pl_clip(b, pl_clip(b, whole(b, X), 1, 40), 0, pl_sub(b, pl_dim(b, pl_param(b, X), 0), 1));
    pl_store(b, whole(b, Y), pl_load_ex(b, clipped, &fill));
}
static double want_clip(int i) { return i % COLS < 40 && i / COLS < ROWS - 1 ? (double)xs[i] : -5; }

static void body_while(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref n = pl_regs(b, PL_I32, PL_SHAPE_SCALAR, pl_layout_auto(), 0);
    pl_ref sum = pl_regs(b, PL_I32, TILE, pl_layout_auto(), 0);
    PL_WHILE(b, pl_lt(b, pl_load(b, n), 10))
    {
        PL_IF(b, pl_eq(b, pl_rem(b, pl_load(b, n), 2), 0))
        {
            pl_store(b, sum, pl_add(b, pl_load(b, sum), pl_load(b, whole(b, Q))));
        }
        PL_ELSE(b) { pl_store(b, sum, pl_add(b, pl_load(b, sum), 1)); }
        pl_store(b, n, pl_add(b, pl_load(b, n), 1));
        pl_break_if(b, pl_eq(b, pl_load(b, n), 7)); /* n was 0 .. 6: four even, three odd */
    }
    pl_store(b, whole(b, Z), pl_load(b, sum));
}
static double want_while(int i) { return 4 * qs[i] + 3; }

static void body_warpgroups(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_warpgroups(b, 2);
    pl_val g = pl_warpgroup_id(b),
           rows = pl_reduce(b, PL_ADD, pl_load(b, half_of(b, X, g)), 1, PL_SCOPE_WARPGROUP);
    pl_store(b, half_of(b, Y, g), pl_reduce(b, PL_ADD, rows, 0, PL_SCOPE_CTA));
}
static double want_warpgroups(int i) { return (void)i, sum_of_all(); }

static void body_cluster(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    pl_val r = pl_cluster_rank(b),
           rows = pl_reduce(b, PL_ADD, pl_load(b, half_of(b, X, r)), 1, PL_SCOPE_WARPGROUP);
    pl_store(b, half_of(b, Y, r), pl_reduce(b, PL_ADD, rows, 0, PL_SCOPE_CLUSTER));
}
static double want_cluster(int i) { return (void)i, sum_of_all(); }

static void body_peer(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_cluster(b, 2, 1, 1);
    pl_val r = pl_cluster_rank(b);
    pl_ref s = pl_smem(b, PL_F32, HALF, PL_SWIZZLE_NONE);
    pl_store(b, pl_peer(b, s, pl_sub(b, 1, r)), pl_load(b, half_of(b, X, r)));
    pl_cluster_sync(b);
    pl_store(b, half_of(b, Y, r), pl_load(b, s));
    pl_cluster_sync(b);
}
static double want_peer(int i) { return (double)xs[(i + N / 2) % N]; }

static void body_arrive(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_warpgroups(b, 2);
    pl_ref s = pl_smem(b, PL_F32, TILE, PL_SWIZZLE_NONE);
    pl_bar ready = pl_barrier(b, 1);
    PL_WARPGROUP(b, 0)
    {
        pl_store(b, s, pl_mul(b, pl_load(b, whole(b, X)), 3.0f));
        pl_barrier_arrive(b, ready);
    }
    PL_WARPGROUP(b, 1)
    {
        pl_barrier_wait(b, ready);
        pl_store(b, whole(b, Y), pl_load(b, s));
    }
}
static double want_arrive(int i) { return 3 * (double)xs[i]; }

static void body_reduce_out(pl_builder *b, const void *params)
{
    (void)params;
    const pl_copy_opt add = {.reduce = PL_ADD};
    pl_ref s = pl_smem(b, PL_F32, TILE, PL_SWIZZLE_AUTO);
    pl_store(b, whole(b, Y), 1.0f);
    pl_store(b, s, pl_load(b, whole(b, X)));
    pl_commit_smem(b);
    pl_copy_smem_to_gmem_ex(b, s, whole(b, Y), &add);
    pl_wait_smem_to_gmem(b, 0);
}
static double want_reduce_out(int i) { return 1 + (double)xs[i]; }

/* Of two copies to one place the one whose predicate is false moves nothing, and arrives. */
static void body_predicate(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref s = pl_smem(b, PL_F32, TILE, PL_SWIZZLE_AUTO),
           other = pl_union(b, s, PL_I32, TILE, PL_SWIZZLE_AUTO);
    pl_bar both = pl_barrier(b, 2);
    pl_val rows = pl_dim(b, pl_param(b, X), 0);
    const pl_copy_opt no = {.pred = pl_lt(b, rows, 3)}, yes = {.pred = pl_gt(b, rows, 3)};
    pl_copy_gmem_to_smem_ex(b, whole(b, Q), other, both, &no);
    pl_copy_gmem_to_smem_ex(b, whole(b, X), s, both, &yes);
    pl_barrier_wait(b, both);
    pl_store(b, whole(b, Y), pl_load(b, s));
}
static double want_predicate(int i) { return (double)xs[i]; }

/* ---- running ---- */

static const struct {
    const char *name;
    void (*body)(pl_builder *b, const void *params);
    double (*want)(int i);
    double relative; /* bound on |got - want| / (1 + |want|); 0: exact */
    int output, n_blocks, first_arch;
} cases[] = {
#define C(name, relative, output) {#name, body_##name, want_##name, relative, output, 1, 0},
    C(neg, 0, Y) C(abs, 0, Y) C(sqrt, 1e-7, Y) C(rsqrt, 3e-7, Y) C(rcp, 2e-7, Y) C(exp, 1e-6, Y) C(
        exp2, 1e-6, Y) C(log, 1e-6, Y) C(log2, 1e-6, Y) C(sin, 1e-6, Y) C(cos, 1e-6, Y)
        C(tanh, 6e-4, Y) C(floor, 0, Y) C(ceil, 0, Y) C(round, 0, Y) C(trunc, 0, Y) C(div, 0, Y) C(
            min, 0, Y) C(max, 0, Y) C(fma, 0, Y) C(select, 0, Y) C(from_int, 0, Y) C(half, 0, Y)
            C(bfloat, 0, Y) C(wide, 0, Y) C(iadd, 0, Z) C(imul, 0, Z) C(idiv, 0, Z) C(irem, 0, Z) C(
                shl, 0, Z) C(shr, 0, Z) C(and, 0, Z) C(or, 0, Z) C(xor, 0, Z) C(not, 0, Z)
                C(ineg, 0, Z) C(iabs, 0, Z) C(popc, 0, Z) C(clz, 0, Z) C(imin, 0, Z) C(to_int, 0, Z)
                    C(bitcast, 0, Z) C(short_, 0, Z) C(long_, 0, Z) C(char_, 0, Z) C(byte, 0, Z)
                        C(pred, 0, Z) C(rows, 0, Z) C(cols, 0, Z) C(reduce_cols, 1e-6, Y)
                            C(reduce_rows, 0, Y) C(reduce_all, 1e-6, Y) C(reduce_or, 0, Z)
                                C(extract, 0, Y) C(transpose, 0, Y) C(swap, 0, Y) C(union, 0, Z)
                                    C(clip, 0, Y) C(while, 0, Z) C(warpgroups, 1e-6, Y)
                                        C(arrive, 0, Y) C(predicate, 0, Y)
#undef C
                                            {"cluster", body_cluster, want_cluster, 1e-6, Y, 2, 1},
    {"peer", body_peer, want_peer, 0, Y, 2, 1},
    {"reduce_out", body_reduce_out, want_reduce_out, 0, Y, 1, 1},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static const char *const archs[] = {"sm_80", "sm_90a", "sm_100a"};
static pl_context *contexts[3];
static uint64_t at[3][4];

static void open_contexts(void)
{
    pl_error err = {0};
    setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_90a,sm_100a", 1);
    for (int i = 0; i < N; i++) {
        xs[i] = (float)(i * 73 % 211 - 105) /
                32.0f; /* multiples of 1/32 below 4: sums and f16 are exact */
        qs[i] = i * 7919 % 2003 - 1000;
    }
    for (int d = 0; d < 3; d++) {
        const pl_context_options o = {.struct_size = sizeof o, .device = d, .cache_dir = ""};
        ck_assert_msg(pl_context_create(&contexts[d], &o, &err) == PL_OK, "%s", err.text);
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(pl_alloc(contexts[d], N * 4, &at[d][i], &err), PL_OK);
        ck_assert_int_eq(pl_upload(contexts[d], at[d][X], xs, sizeof xs, &err), PL_OK);
        ck_assert_int_eq(pl_upload(contexts[d], at[d][Q], qs, sizeof qs, &err), PL_OK);
    }
}

static void close_contexts(void)
{
    for (int d = 0; d < 3; d++)
        pl_context_destroy(contexts[d]);
}

static int n_blocks_now;
static void launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)request, (void)params;
    *out = (pl_launch_dims){{n_blocks_now, 1, 1}};
}

static void run(int which, int d)
{
    static pl_kernel kernels[3];
    pl_kernel *kernel = &kernels[d];
    *kernel = (pl_kernel){.struct_size = sizeof *kernel,
                          .name = "test",
                          .params = decls,
                          .n_params = 4,
                          .n_configs = 1,
                          .body = cases[which].body,
                          .launch_dims = launch_dims};
    n_blocks_now = cases[which].n_blocks;
    pl_arg args[4];
    for (int i = 0; i < 4; i++)
        args[i] = pl_arg_tensor(pl_tensor_make(at[d][i], i == X || i == Y ? PL_F32 : PL_I32, TILE));
    pl_error err = {0};
    pl_status st = pl_launch(contexts[d], kernel, NULL, args, 4, NULL, &err);
    int32_t got[N];
    if (st == PL_OK)
        st = pl_download(contexts[d], got, at[d][cases[which].output], sizeof got, &err);
    ck_assert_msg(st == PL_OK, "%s on %s: %s %s (%s:%d)", cases[which].name, archs[d],
                  pl_status_name(st), err.text, err.file, err.line);
    for (int i = 0; i < N; i++) {
        float f;
        memcpy(&f, &got[i], sizeof f);
        double have = cases[which].output == Y ? (double)f : got[i], want = cases[which].want(i);
        ck_assert_msg(fabs(have - want) <= cases[which].relative * (1 + fabs(want)),
                      "%s on %s: element %d is %.9g, not %.9g", cases[which].name, archs[d], i,
                      have, want);
    }
}

START_TEST(operations_mean_what_they_say)
{
    for (int d = cases[_i].first_arch; d < 3; d++)
        run(_i, d);
}
END_TEST

/* ---- what is refused: everything that is wrong, with its place, and no text written ---- */

static int first_line;
static void body_wrong(pl_builder *b, const void *params)
{
    (void)params;
    pl_ref s = pl_smem(b, PL_F32, TILE, PL_SWIZZLE_NONE);
    first_line = __LINE__ + 1;
    pl_store(b, whole(b, X), 1.0f); /* an input: PL2010 */
    pl_bar_sync(b, PL_SCOPE_CTA);
    pl_barrier_wait(b, pl_barrier(b, 1)); /* nothing arrives: PL5010 */
    pl_store(b, s, 2.0f);
    pl_copy_smem_to_gmem(b, s, whole(b, Y)); /* not committed: PL5018 */
}

static void body_fill(pl_builder *b, const void *params)
{
    (void)params;
    pl_store(b, whole(b, Y), 1.0f);
}

static pl_status launch_refused(void (*body)(pl_builder *b, const void *params), pl_model model,
                                pl_report *report, pl_error *err)
{
    const pl_kernel kernel = {.struct_size = sizeof kernel,
                              .name = "test",
                              .params = decls,
                              .n_params = 4,
                              .n_configs = 1,
                              .body = body,
                              .model = model,
                              .launch_dims = launch_dims};
    pl_arg args[4];
    n_blocks_now = 1;
    for (int i = 0; i < 4; i++)
        args[i] = pl_arg_tensor(pl_tensor_make(at[1][i], i == X || i == Y ? PL_F32 : PL_I32, TILE));
    const pl_launch_options o = {.struct_size = sizeof o, .report = report};
    uint64_t emitted = pl_context_stats(contexts[1]).emitted;
    pl_status st = pl_launch(contexts[1], &kernel, NULL, args, 4, &o, err);
    ck_assert_uint_eq(pl_context_stats(contexts[1]).emitted, emitted);
    return st;
}

START_TEST(all_that_is_wrong_is_reported_and_nothing_written)
{
    static const int codes[] = {2010, 5010, 5018};
    static const int lines[] = {0, 2, 4};
    pl_report *report;
    pl_report_item item;
    pl_error err = {0};
    ck_assert_int_eq(pl_report_create(&report), PL_OK);
    ck_assert_int_eq(launch_refused(body_wrong, PL_MODEL_GPU, report, &err), PL_E_INVALID);
    ck_assert_int_eq(err.code, 2010);
    ck_assert_int_eq(err.line, first_line);
    ck_assert_uint_eq(pl_report_count(report), 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert(pl_report_get(report, i, &item));
        ck_assert_int_eq(item.code, codes[i]);
        ck_assert_int_eq(item.line, first_line + lines[i]);
        ck_assert_ptr_nonnull(strstr(item.file, "check_builder.c"));
        ck_assert_str_ne(item.remedy, "");
    }
    pl_report_destroy(report);
}
END_TEST

START_TEST(what_has_no_code_yet_is_unsupported)
{
    pl_error err = {0};
    ck_assert_int_eq(launch_refused(body_fill, PL_MODEL_TPU, NULL, &err), PL_E_UNSUPPORTED);
    ck_assert_int_eq(err.code, 2093);
    ck_assert_ptr_nonnull(strstr(err.text, "PL_MODEL_TPU"));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("builder");
    TCase *t = tcase_create("run");
    tcase_add_checked_fixture(t, open_contexts, close_contexts);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, operations_mean_what_they_say, 0, N_CASES);
    tcase_add_test(t, all_that_is_wrong_is_reported_and_nothing_written);
    tcase_add_test(t, what_has_no_code_yet_is_unsupported);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
