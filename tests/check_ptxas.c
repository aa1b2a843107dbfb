/*
 * Every kernel of the library in every configuration, element type and chip, through the assembler with warnings as errors: no spills, and
 * the .version of the header is the lowest that is accepted; and bodies of the operations that no kernel of the library uses.
 * Facts turn; PL_LONG=1 takes all. Exit 77 where there is no toolkit.
 */
#include "base/debug.h"
#include "tests/tcgen05_case.h"

#include <unistd.h>

extern const pl_kernel pl_kernel_copy, pl_kernel_scale, pl_kernel_add, pl_kernel_cast,
    pl_kernel_transpose, pl_kernel_reduce, pl_kernel_softmax, pl_kernel_rmsnorm;
static const pl_kernel *const kernels[] = {
    &pl_kernel_copy,      &pl_kernel_scale,  &pl_kernel_add,     &pl_kernel_cast,
    &pl_kernel_transpose, &pl_kernel_reduce, &pl_kernel_softmax, &pl_kernel_rmsnorm};
static const int chips[] = {80, 90, 100, 120};

/* What ptxas says of text, and its exit status. */
static int run_ptxas(const char *ptxas, const char *text, const char *target, char log[4096])
{
    char path[256];
    snprintf(path, sizeof path, "ptxas_%ld.ptx", (long)getpid());
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        return 1;
    fputs(text, f);
    fclose(f);
    char command[2048];
    snprintf(command, sizeof command, "%s -arch=%s -v --warning-as-error -o /dev/null %s 2>&1",
             ptxas, target, path);
    FILE *p = popen(command, "r");
    size_t n = p == NULL ? 0 : fread(log, 1, 4095, p);
    log[n] = '\0';
    const int rc = p == NULL ? 1 : pclose(p);
    unlink(path);
    return rc;
}

/* The answer of -v has "0 bytes spill stores, 0 bytes spill loads" for each function. */
static bool spills(const char *log)
{
    const char *at = log;
    bool has_answer = false;
    while ((at = strstr(at, " bytes spill ")) != NULL) {
        has_answer = true;
        if (at[-1] != '0' || at[-2] != ' ')
            return true;
        at++;
    }
    return !has_answer;
}

static int assemble(const char *ptxas, const struct build *b, const char *what)
{
    char log[4096];
    const int rc = run_ptxas(ptxas, b->out.text, b->out.target, log);
    const bool is_ok = rc == 0 && !spills(log);
    if (!is_ok)
        printf("FAIL %s: %s\n", what, log);
    return !is_ok;
}

/* The header's .version is the lowest that serves: the one before is refused. (PTX ISA, "Release Notes") */
static int refuse_version_before(const char *ptxas, const struct build *b, const char *what)
{
    static const char *const versions[] = {"6.5", "7.0", "7.1", "7.2", "7.3", "7.4", "7.5",
                                           "7.6", "7.7", "7.8", "8.0", "8.1", "8.2", "8.3",
                                           "8.4", "8.5", "8.6", "8.7", "8.8", "9.0"};
    const size_t at = sizeof ".version " - 1;
    char log[4096] = "", *text = strdup(b->out.text);
    size_t i = 1;
    while (i < PL_COUNT(versions) && strncmp(text + at, versions[i], 3) != 0)
        i++;
    int rc = 0;
    if (i < PL_COUNT(versions)) {
        memcpy(text + at, versions[i - 1], 3);
        rc = run_ptxas(ptxas, text, b->out.target, log);
    }
    const bool is_refused = rc != 0 && strstr(log, "version") != NULL;
    if (!is_refused)
        printf("FAIL %s: not refused for its version: %.60s\n%s\n", what, text, log);
    free(text);
    return !is_refused;
}

static bool make(struct ask *a, unsigned char *params, const pl_kernel *k, int arch, pl_dtype t,
                 pl_fact_set facts, int config)
{
    const struct pl_target *target = pl_target_find(arch);
    const pl_device_info device = {.arch = arch,
                                   .n_sms = 4,
                                   .smem_bytes = target->smem_bytes,
                                   .max_cluster = target->max_cluster};
    *a = (struct ask){
        .kernel = k, .params = params, .arch = arch, .facts = facts, .grid = {1, 1, 1}};
    for (size_t i = 0; i < k->n_params; i++) {
        if (k->params[i].role == PL_ROLE_SCALAR) {
            a->args[i] = (k->params[i].dtypes & PL_DT(F32)) != 0 ? pl_arg_f32(1.5f) : pl_arg_i32(1);
            continue;
        }
        const int rank = k->params[i].max_rank < 2 ? k->params[i].max_rank : 2;
        if ((k->params[i].dtypes >> t & 1) == 0)
            return false;
        a->args[i] = pl_arg_tensor(
            pl_tensor_make(4096, t, rank == 2 ? PL_SHAPE(256, 1024) : PL_SHAPE(1024)));
    }
    const pl_request q = {.kernel = k,
                          .options = k->default_options,
                          .args = a->args,
                          .n_args = k->n_params,
                          .device = &device,
                          .facts = facts};
    memset(params, 0, PL_MAX_PARAMS_BYTES);
    return k->configure == NULL || k->configure(&q, config, params);
}

/* ---- operations that no kernel uses ---- */

struct op_params {
    int32_t n, op;
};

/* Registers to a cluster peer. */
static void send_body(pl_builder *b, const void *params)
{
    const struct op_params *p = params;
    const pl_dtype t = pl_dtype_of(b, pl_param(b, 0));
    pl_block_cluster(b, 2, 1, 1);
    pl_ref buf = pl_smem(b, t, PL_SHAPE(p->n), PL_SWIZZLE_NONE);
    pl_bar bar = pl_barrier(b, 1);
    pl_val v = pl_load(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0), PL_SHAPE(p->n)));
    pl_val other = pl_sub(b, 1, pl_cluster_rank(b));
    pl_async_store_smem_at(b, pl_peer(b, buf, other), v, bar, (pl_op2)p->op, PL_LOC);
    pl_barrier_wait(b, bar);
    pl_store(b, pl_window(b, pl_param(b, 1), PL_OFF(b, 0), PL_SHAPE(p->n)), pl_load(b, buf));
}

/* x (64, n) * x (64, n) transposed, 64 rows a warpgroup: K along the rows, or (op) across them. */
static void wgmma_body(pl_builder *b, const void *params)
{
    const struct op_params *p = params;
    const pl_dtype t = pl_dtype_of(b, pl_param(b, 0)), acc_type = t == PL_I8 ? PL_I32 : PL_F32;
    pl_ref buf = pl_smem(b, t, PL_SHAPE(64, p->n), pl_mma_transforms(b, t, p->n));
    pl_bar bar = pl_barrier(b, 1);
    const int64_t n = p->op ? p->n : 64;
    pl_ref acc = pl_acc(b, acc_type, PL_SHAPE(n, n));
    PL_FOR(b, i, 0, 10)
    {
        pl_copy_gmem_to_smem(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, i, 0), PL_SHAPE(64, p->n)),
                             buf, bar);
        pl_barrier_wait(b, bar);
        pl_wgmma(b, acc, p->op ? pl_transpose(b, buf) : buf, p->op ? buf : pl_transpose(b, buf));
        pl_wgmma_wait(b, 0);
    }
    pl_store(b, pl_window(b, pl_param(b, 1), PL_OFF(b, 0, 0), PL_SHAPE(n, n)),
             pl_cast(b, pl_acc_load(b, acc), t));
}

/* Through tensor memory: op rows, n columns. */
static void tmem_body(pl_builder *b, const void *params)
{
    const struct op_params *p = params;
    const pl_dtype t = pl_dtype_of(b, pl_param(b, 0));
    const pl_shape s = PL_SHAPE(p->op, p->n);
    pl_ref tm = pl_tmem(b, t, PL_SHAPE(2, p->op, p->n), 0);
    PL_FOR(b, i, 0, 10)
    {
        pl_ref at = pl_at(b, tm, pl_rem(b, i, 2));
        pl_async_store_tmem(b, at, pl_load(b, pl_tile(b, pl_param(b, 0), PL_OFF(b, i, 0), s)));
        pl_commit_tmem(b);
        pl_val v = pl_async_load_tmem(b, at);
        pl_store(b, pl_tile(b, pl_param(b, 1), PL_OFF(b, i, 0), s), v);
    }
}

/* Registers from one warpgroup to two. */
static void share_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_block_warpgroups(b, 3);
    for (int i = 0; i < 3; i++)
        PL_WARPGROUP(b, i)
        {
            pl_set_max_registers(b, i == 0 ? 40 : 232);
            pl_store(b, pl_window(b, pl_param(b, 1), PL_OFF(b, 128 * i), PL_SHAPE(128)), 1.0f);
        }
}

/* An atomic operation on global and on shared memory, with the old value, and without; 32-bit integers are semaphores too. */
static void atomic_body(pl_builder *b, const void *params)
{
    const struct op_params *p = params;
    const pl_dtype t = pl_dtype_of(b, pl_param(b, 1));
    const pl_shape s = PL_SHAPE(p->n);
    pl_ref to = pl_window(b, pl_param(b, 1), PL_OFF(b, 0), s),
           own = pl_smem(b, t, s, PL_SWIZZLE_NONE);
    const pl_atomic_opt old = {.want_old = 1,
                               .compare = p->op == PL_ATOMIC_CAS ? pl_lit_i(b, 3) : pl_val_none()};
    pl_val v = pl_load(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0), s));
    pl_store(b, own, v);
    pl_store(b, own, pl_atomic_ex(b, (pl_atomic)p->op, own, v, &old));
    const pl_atomic_opt none = {.compare = old.compare};
    (void)pl_atomic_ex(b, (pl_atomic)p->op, to, pl_load(b, own), &none);
    if (t != PL_I32 && t != PL_U32)
        return;
    pl_ref turns = pl_semaphore(b, pl_at(b, pl_param(b, 1), 0));
    pl_semaphore_wait(b, turns, 1);
    pl_semaphore_signal(b, turns, pl_semaphore_read(b, turns));
}

/* A window by boxes and a run by bytes, into L2; rows by index; the barrier asked instead of waited for. */
static void fetch_body(pl_builder *b, const void *params)
{
    const struct op_params *p = params;
    const pl_dtype t = pl_dtype_of(b, pl_param(b, 0));
    pl_ref x = pl_param(b, 0), y = pl_param(b, 1),
           buf = pl_smem(b, t, PL_SHAPE(32, p->n), p->op ? PL_SWIZZLE_AUTO : PL_SWIZZLE_NONE);
    pl_bar bar = pl_barrier(b, 1);
    if (pl_arch(b) >= 90) {
        pl_prefetch(b, pl_window(b, x, PL_OFF(b, 3, 0), PL_SHAPE(32, p->n)));
        pl_prefetch(b, pl_window(b, pl_at(b, x, 0), PL_OFF(b, 64), PL_SHAPE(64)));
    }
    if (pl_arch(b) >= 90) {
        const pl_copy_opt in = {.keep_in_l2 = 1}, out = {.keep_in_l2 = -1};
        pl_copy_gmem_to_smem_ex(b, pl_window(b, x, PL_OFF(b, 0, 0), PL_SHAPE(32, p->n)), buf, bar,
                                &in);
        pl_barrier_wait(b, bar);
        pl_copy_smem_to_gmem_ex(b, buf, pl_window(b, y, PL_OFF(b, 0, 0), PL_SHAPE(32, p->n)), &out);
        pl_wait_smem_to_gmem(b, 0);
    }
    pl_gather_rows(b, x, pl_iota(b, PL_I32, PL_SHAPE(32), 0), buf, bar);
    PL_WARP(b, 0, 0)
    {
        PL_LOOP(b) { pl_break_if(b, pl_barrier_test(b, bar)); }
    }
    pl_barrier_wait(b, bar);
    pl_store(b, pl_window(b, y, PL_OFF(b, 0, 0), PL_SHAPE(32, p->n)), pl_load(b, buf));
}

/* Two roles walk the tiles that clusters of n CTAs are given. */
static void tiles_body(pl_builder *b, const void *params)
{
    const struct op_params *p = params;
    pl_block_cluster(b, p->n, 1, 1);
    pl_block_warpgroups(b, 2);
    pl_ref y = pl_param(b, 1);
    pl_sched s = pl_sched_clc(b, pl_dim(b, y, 0));
    for (int i = 0; i < 2; i++)
        PL_WARPGROUP(b, i)
        {
            PL_TILES(b, t, s) { pl_store(b, pl_at(b, y, t), 1.0f); }
        }
}

/* The user's own instructions on packed halves, on words, and with a label. */
static void inline_body(pl_builder *b, const void *params)
{
    const struct op_params *p = params;
    const pl_dtype t = pl_dtype_of(b, pl_param(b, 0));
    pl_val out;
    pl_ptx_desc d = {
        .text =
            t == PL_F16
                ? "fma.rn.f16 $0, $1, $1, $1;"
                : "{ .reg .pred %q; mov.b32 $0, $1; setp.lt.f32 %q, $1, 0f00000000;\n@%q bra $$L; "
                  "add.f32 $0, $0, $1;\n$$L: }",
        .n_outs = 1,
        .out_dtypes = {t},
        .n_ins = 1,
        .ins = {pl_load(b, pl_window(b, pl_param(b, 0), PL_OFF(b, 0), PL_SHAPE(p->n)))},
        .effects = PL_EFFECT_NONE};
    pl_inline_ptx(b, &d, &out);
    pl_store(b, pl_window(b, pl_param(b, 1), PL_OFF(b, 0), PL_SHAPE(p->n)), out);
}

static const pl_param_decl op_decls[] = {
    {.name = "x", .role = PL_ROLE_IN, .min_rank = 1, .max_rank = 2, .dtypes = PL_DT_ANY},
    {.name = "y", .role = PL_ROLE_OUT, .min_rank = 1, .max_rank = 2, .dtypes = PL_DT_ANY}};
static const struct op_case {
    void (*body)(pl_builder *b, const void *params);
    int first_chip, last_chip;
    pl_dtype t;
    struct op_params p;
} op_cases[] = {
    {send_body, 90, 120, PL_F32, {1, 0}},
    {send_body, 90, 120, PL_BF16, {100, 0}},
    {send_body, 90, 120, PL_U8, {4096, 0}},
    {send_body, 90, 120, PL_F64, {300, 0}},
    {send_body, 90, 120, PL_I32, {100, PL_ADD}},
    {send_body, 90, 120, PL_U32, {100, PL_ADD}},
    {send_body, 90, 120, PL_I32, {1000, PL_MIN}},
    {send_body, 90, 120, PL_U32, {7, PL_MAX}},
    {send_body, 90, 120, PL_I32, {128, PL_AND}},
    {send_body, 90, 120, PL_U32, {129, PL_OR}},
    {send_body, 90, 120, PL_I32, {4, PL_XOR}},
    {wgmma_body, 90, 90, PL_BF16, {64, 0}},
    {wgmma_body, 90, 90, PL_F16, {32, 0}},
    {wgmma_body, 90, 90, PL_BF16, {128, 1}},
    {wgmma_body, 90, 90, PL_F16, {64, 1}},
    {wgmma_body, 90, 90, PL_F32, {16, 0}},
    {wgmma_body, 90, 90, PL_E4M3, {128, 0}},
    {wgmma_body, 90, 90, PL_E5M2, {64, 0}},
    {wgmma_body, 90, 90, PL_I8, {32, 0}},
    {tmem_body, 100, 100, PL_F32, {64, 128}},
    {tmem_body, 100, 100, PL_BF16, {24, 128}},
    {tmem_body, 100, 100, PL_I8, {32, 128}},
    {tmem_body, 100, 100, PL_I32, {40, 64}},
    {tmem_body, 100, 100, PL_F16, {16, 64}},
    {share_body, 90, 100, PL_F32, {0, 0}},
    {fetch_body, 80, 120, PL_BF16, {64, 0}},
    {fetch_body, 80, 120, PL_F32, {32, 1}},
    {tiles_body, 100, 120, PL_F32, {1, 0}},
    {tiles_body, 100, 120, PL_F32, {2, 0}},
    {inline_body, 80, 120, PL_F16, {300, 0}},
    {inline_body, 80, 120, PL_F32, {300, 0}},
    {atomic_body, 80, 120, PL_I32, {300, PL_ATOMIC_ADD}},
    {atomic_body, 80, 120, PL_U32, {7, PL_ATOMIC_XOR}},
    {atomic_body, 80, 120, PL_F32, {100, PL_ATOMIC_ADD}},
    {atomic_body, 80, 120, PL_F16, {64, PL_ATOMIC_ADD}},
    {atomic_body, 90, 120, PL_BF16, {64, PL_ATOMIC_ADD}},
    {atomic_body, 80, 120, PL_I64, {64, PL_ATOMIC_MIN}},
    {atomic_body, 80, 120, PL_U64, {64, PL_ATOMIC_OR}},
    {atomic_body, 80, 120, PL_F32, {64, PL_ATOMIC_EXCH}},
    {atomic_body, 80, 120, PL_I64, {64, PL_ATOMIC_CAS}},
};

static int assemble_op(const char *ptxas, const struct op_case *c, int arch)
{
    const pl_kernel k = {.struct_size = sizeof k,
                         .name = "op",
                         .params = op_decls,
                         .n_params = 2,
                         .params_bytes = sizeof c->p,
                         .n_configs = 1,
                         .body = c->body};
    const pl_arg x = pl_arg_tensor(
        pl_tensor_make(4096, c->t,
                       c->body == wgmma_body || c->body == tmem_body || c->body == fetch_body
                           ? PL_SHAPE(1024, 1024)
                           : PL_SHAPE(1 << 20)));
    struct ask a = {.kernel = &k,
                    .params = &c->p,
                    .arch = arch,
                    .args = {x, x},
                    .facts = PL_FACT_ALIGN16 | PL_FACT_UNIT_STRIDE | PL_FACT_I32,
                    .grid = {2, 1, 1}};
    struct build *b = build_new(&a, 0);
    char what[128];
    snprintf(what, sizeof what, "operation %d sm_%d", (int)(c - op_cases), arch);
    int failed = b->status != PL_OK;
    if (failed)
        printf("FAIL %s: status %d: %s\n", what, (int)b->status,
               b->diags.list.n != 0 ? b->diags.list.data[0].text : "");
    else
        failed = assemble(ptxas, b, what);
    build_free(b);
    return failed;
}

/* A product of tests/tcgen05_case.h. */
static int assemble_product(const char *ptxas, const char *what, const struct ask *a)
{
    struct build *b = build_new(a, 0);
    int failed = b->status != PL_OK;
    if (failed)
        printf("FAIL %s: status %d: %s\n", what, (int)b->status,
               b->diags.list.n != 0 ? b->diags.list.data[0].text : "");
    else
        failed = assemble(ptxas, b, what);
    build_free(b);
    return failed;
}

static pl_arg some_tensor(pl_dtype t)
{
    return pl_arg_tensor(pl_tensor_make(4096, t, PL_SHAPE(1024, 1024)));
}

struct variant {
    const pl_kernel *kernel;
    int chip, config;
    pl_dtype t;
    pl_fact_set facts;
};

struct totals {
    int n, n_failed;
};

/* False: the configuration does not serve it. */
static bool test_variant(const char *ptxas, const struct variant *v, bool tries_version_before,
                         struct totals *totals)
{
    unsigned char params[PL_MAX_PARAMS_BYTES];
    char what[128];
    struct ask a;
    if (!make(&a, params, v->kernel, v->chip, v->t, v->facts, v->config))
        return false;
    snprintf(what, sizeof what, "%s sm_%d %s configuration %d facts %u", v->kernel->name, v->chip,
             pl_dtype_name(v->t), v->config, v->facts);
    struct build *b = build_new(&a, 0);
    if (b->status != PL_OK)
        printf("FAIL %s: status %d: %s\n", what, (int)b->status,
               b->diags.list.n != 0 ? b->diags.list.data[0].text : "");
    int failed = b->status != PL_OK || assemble(ptxas, b, what);
    if (!failed && tries_version_before)
        failed = refuse_version_before(ptxas, b, what);
    totals->n++;
    totals->n_failed += failed;
    build_free(b);
    return true;
}

static const pl_dtype types[] = {PL_F32, PL_BF16, PL_F16, PL_F64, PL_I8, PL_U16};
enum { N_MAIN_TYPES = 3, N_FACT_SETS = 8 };

/* A kernel's configuration on a chip: each of the main types with one of the fact sets that it serves, in turn; PL_LONG: all. */
static void test_configuration(const char *ptxas, struct variant v, int turn, struct totals *totals)
{
    const bool is_long = getenv("PL_LONG") != NULL;
    const int n_types = is_long ? (int)PL_COUNT(types) : N_MAIN_TYPES + 1;
    for (int t = 0; t < n_types; t++) {
        v.t = types[t < N_MAIN_TYPES || is_long ? t : t + turn % N_MAIN_TYPES];
        for (int f = 0; f < N_FACT_SETS; f++) {
            v.facts = (pl_fact_set)((f + turn + 3 * t) % N_FACT_SETS);
            if (test_variant(ptxas, &v, t == 0, totals) && !is_long)
                break;
        }
    }
}

int main(void)
{
    const char *home = getenv("PL_CUDA_HOME");
    char ptxas[1024];
    snprintf(ptxas, sizeof ptxas, "%s/bin/ptxas", home == NULL ? "" : home);
    if (home == NULL || home[0] == '\0' || access(ptxas, X_OK) != 0) {
        puts("SKIP: no assembler (PL_CUDA_HOME)");
        return 77;
    }
    struct totals totals = {0, 0};
    int turn = 0;
    for (size_t k = 0; k < PL_COUNT(kernels); k++)
        for (size_t c = 0; c < PL_COUNT(chips); c++)
            for (int config = 0; config < kernels[k]->n_configs; config++)
                test_configuration(
                    ptxas,
                    (struct variant){.kernel = kernels[k], .chip = chips[c], .config = config},
                    turn++, &totals);
    for (size_t i = 0; i < PL_COUNT(op_cases); i++)
        for (size_t c = 0; c < PL_COUNT(chips); c++)
            if (chips[c] >= op_cases[i].first_chip && chips[c] <= op_cases[i].last_chip) {
                totals.n_failed += assemble_op(ptxas, &op_cases[i], chips[c]);
                totals.n++;
            }
    char what[64];
    for (size_t i = 0; i < PL_COUNT(mm_cases); i++) {
        const struct mm_case *c = &mm_cases[i];
        const struct ask a = {.kernel = &mm,
                              .params = &c->p,
                              .params_bytes = sizeof c->p,
                              .arch = 100,
                              .args = {some_tensor(c->a), some_tensor(c->b), some_tensor(c->out)},
                              .facts = all_facts};
        snprintf(what, sizeof what, "product %d", (int)i);
        totals.n_failed += assemble_product(ptxas, what, &a);
        totals.n++;
    }
    for (size_t i = 0; i < PL_COUNT(tiles_cases); i++) {
        const struct tiles_case *c = &tiles_cases[i];
        const struct ask a = {.kernel = &tiled,
                              .params = &c->p,
                              .params_bytes = sizeof c->p,
                              .arch = 100,
                              .args = {some_tensor(c->t), some_tensor(c->t), some_tensor(PL_F32)},
                              .facts = all_facts};
        snprintf(what, sizeof what, "tiled product %d", (int)i);
        totals.n_failed += assemble_product(ptxas, what, &a);
        totals.n++;
    }
    for (size_t i = 0; i < PL_COUNT(scaled_cases); i++) {
        const struct scaled_case *c = &scaled_cases[i];
        const pl_arg scales =
            pl_arg_tensor(pl_tensor_make(4096, (pl_dtype)c->p.scale, PL_SHAPE(64, 64, 32, 16)));
        const struct ask a = {
            .kernel = &scaled,
            .params = &c->p,
            .params_bytes = sizeof c->p,
            .arch = 100,
            .args = {some_tensor(c->a), some_tensor(c->b), scales, scales, some_tensor(PL_F32)},
            .facts = all_facts};
        snprintf(what, sizeof what, "scaled product %d", (int)i);
        totals.n_failed += assemble_product(ptxas, what, &a);
        totals.n++;
    }
    printf("%d variants, %d failed\n", totals.n, totals.n_failed);
    return totals.n_failed != 0;
}
