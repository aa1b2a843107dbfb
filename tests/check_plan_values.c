/*
 * Elementwise operations, casts and reductions of lowered bodies, end to end on the emulated driver: over chips, element types,
 * layouts and scopes.
 */
#include "tests/plan_data.h"

enum { N_CHIPS = 4 };
static const int chips[N_CHIPS] = {80, 90, 100, 120};

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

static Suite *make_suite(void)
{
    rnd = random_start("check_plan_values");
    Suite *s = suite_create("plan_values");
    TCase *t = tcase_create("results");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, elementwise_operations_are_right_in_every_type, 0, 10);
    tcase_add_loop_test(t, ceiling_division_has_no_overflow, 0, 6);
    tcase_add_loop_test(t, casts_are_exact_between_all_types, 0, 14);
    tcase_add_loop_test(t, reductions_along_an_axis_are_right, 0, 6);
    tcase_add_loop_test(t, reductions_reach_their_scope, 0, 4);
    tcase_add_loop_test(t, reductions_along_an_axis_reach_their_scope, 0, 4);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
