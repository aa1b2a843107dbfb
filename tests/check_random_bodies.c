/*
 * Random kernel bodies through pl_launch on the emulated driver with its race check, against an evaluation of the same program on the
 * CPU, bit for bit. PL_SEED repeats a run, PL_BODY a single program (its seed and chip are printed with a failure; PL_BODY_TOPICS as
 * PLAUNCH_DEBUG), PL_LONG=1 runs many, PL_LONG=n so many, PL_CHIP=100 on one chip; PL_REFUSALS=n prints the first n of each kind that were refused.
 */
#include "tests/body.h"

#include "base/debug.h"

#include <check.h>
#include <dlfcn.h>
#include <string.h>

static const struct {
    int32_t arch;
    const char *name;
} chips[] = {{80, "sm_80"}, {90, "sm_90a"}, {100, "sm_100a"}, {120, "sm_120a"}};
static const char *const policies[] = {"eager", "late", "random:1", "random:2", "random:3"};
enum { N_CHIPS = 4, N_POLICIES = 5, TEXT_BYTES = 4000 };

/* ---- the driver ---- */

static pl_context *contexts[N_CHIPS];
static int (*configure)(const char *key, const char *value);
static size_t (*last_fault)(char *text, size_t n_bytes);

static void print_topic(pl_severity_level level, const char *topic, const char *text, void *user)
{
    (void)level, (void)user;
    if (strcmp(topic, "trace") == 0 || getenv("PL_BODY_TOPICS") != NULL)
        printf("%s:\n%s\n", topic, text);
}

static pl_context *open_context(int chip, bool is_loud)
{
    pl_error err = {0};
    const pl_context_options o = {.struct_size = sizeof o,
                                  .device = chip,
                                  .cache_dir = "",
                                  .log = is_loud ? print_topic : NULL};
    pl_context *c = NULL;
    if (is_loud)
        setenv("PLAUNCH_DEBUG",
               getenv("PL_BODY_TOPICS") != NULL ? getenv("PL_BODY_TOPICS") : "trace", 1);
    const pl_status st = pl_context_create(&c, &o, &err);
    ck_assert_msg(st == PL_OK, "%s", err.text);
    unsetenv("PLAUNCH_DEBUG");
    return c;
}

static void open_contexts(void)
{
    setenv("PLAUNCH_EMU_DEVICES", "sm_80,sm_90a,sm_100a,sm_120a", 1);
    for (int i = 0; i < N_CHIPS; i++)
        contexts[i] = open_context(i, false);
    void *lib = dlopen(getenv("PLAUNCH_DRIVER"), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    ck_assert_ptr_nonnull(lib);
    *(void **)&configure = dlsym(lib, "plaunch_emu_configure");
    *(void **)&last_fault = dlsym(lib, "plaunch_emu_last_fault");
    ck_assert_int_eq(configure("check", "race"), 0);
    ck_assert_int_eq(configure("step_limit", "20000000"), 0);
}

/* ---- a kernel of a program ---- */

struct body_params {
    const struct body *p;
    uint64_t serial; /* programs may come to lie at one address */
};

static void trace_it(pl_builder *b, const void *params)
{
    body_trace(b, ((const struct body_params *)params)->p);
}

static void launch_dims(const pl_request *request, const void *params, pl_launch_dims *out)
{
    (void)request;
    *out = (pl_launch_dims){{((const struct body_params *)params)->p->n_ctas, 1, 1}};
}

/* A kernel lives as long as any context that has seen it. */
struct made {
    struct made *next;
    pl_kernel kernel;
    pl_param_decl decls[BODY_MAX_TENSORS + 2];
    pl_arg args[BODY_MAX_TENSORS + 2];
    char names[BODY_MAX_TENSORS + 2][8];
};

static struct made *all_made;

static void make_kernel(struct made *k, const struct body *p)
{
    const int n = p->n_tensors;
    memset(k, 0, sizeof *k);
    k->next = all_made;
    all_made = k;
    for (int i = 0; i < n + 2; i++) {
        snprintf(k->names[i], sizeof k->names[i], "p%d", i);
        k->decls[i] = (pl_param_decl){.name = k->names[i], .dtypes = PL_DT_ANY};
        if (i >= n) {
            k->decls[i].role = PL_ROLE_SCALAR;
            k->args[i] = pl_arg_i32(p->scalars[i - n]);
            continue;
        }
        const struct body_tensor *t = &p->tensors[i];
        k->decls[i].role = t->role;
        k->decls[i].min_rank = k->decls[i].max_rank = t->s.rank;
        k->decls[i].baked_dims = t->baked_dims;
        k->decls[i].specialised = p->facts;
        k->args[i] = pl_arg_tensor(
            pl_tensor_strided(t->address + (uint64_t)(t->offset_elems * pl_dtype_bits(t->t) / 8),
                              t->t, t->s, t->strides));
    }
    k->kernel = (pl_kernel){.struct_size = sizeof(pl_kernel),
                            .name = "body",
                            .params = k->decls,
                            .n_params = (size_t)n + 2,
                            .params_bytes = sizeof(struct body_params),
                            .options_bytes = sizeof(struct body_params),
                            .n_configs = 1,
                            .body = trace_it,
                            .launch_dims = launch_dims};
}

/* ---- running one ---- */

enum verdict { RIGHT, REFUSED, WRONG };

struct outcome {
    enum verdict verdict;
    pl_status status;
    int32_t code;
    char text[TEXT_BYTES];
};

static size_t bytes_of(const struct body_tensor *t)
{
    return (size_t)(t->n_alloc * pl_dtype_bits(t->t) / 8);
}

static void close_contexts(void)
{
    for (int i = 0; i < N_CHIPS; i++)
        pl_context_destroy(contexts[i]);
    while (all_made != NULL) {
        struct made *next = all_made->next;
        free(all_made);
        all_made = next;
    }
}

static void put_tensors(struct body *p, pl_context *c)
{
    pl_error err = {0};
    for (int i = 0; i < p->n_tensors; i++) {
        struct body_tensor *t = &p->tensors[i];
        if (t->address == 0)
            ck_assert_int_eq(pl_alloc(c, bytes_of(t), &t->address, &err), PL_OK);
        ck_assert_int_eq(pl_upload(c, t->address, t->data, bytes_of(t), &err), PL_OK);
    }
}

static void free_tensors(struct body *p, pl_context *c)
{
    pl_error err = {0};
    for (int i = 0; i < p->n_tensors; i++)
        if (p->tensors[i].address != 0)
            ck_assert_int_eq(pl_free(c, p->tensors[i].address, &err), PL_OK);
    for (int i = 0; i < p->n_tensors; i++)
        p->tensors[i].address = 0;
}

static uint64_t bits_at(const unsigned char *data, pl_dtype t, size_t i)
{
    uint64_t v = 0;
    const size_t es = (size_t)pl_dtype_bits(t) / 8;
    memcpy(&v, data + i * es, es);
    return v;
}

/* NaNs are equal; else every bit counts. Elements between rows too: nothing may be written there. */
static void compare(const struct body *p, int i, const unsigned char *got, struct outcome *o)
{
    const struct body_tensor *t = &p->tensors[i];
    if (o->verdict == WRONG)
        return;
    for (size_t k = 0; k < (size_t)t->n_alloc; k++) {
        const uint64_t a = bits_at(got, t->t, k), b = bits_at(t->want, t->t, k);
        if (a == b || (body_is_nan(t->t, a) && body_is_nan(t->t, b)))
            continue;
        o->verdict = WRONG;
        snprintf(o->text, sizeof o->text, "p%d %s: element %zu of the memory is 0x%llx, not 0x%llx",
                 i, pl_dtype_name(t->t), k, (unsigned long long)a, (unsigned long long)b);
        return;
    }
}

static void get_tensors(const struct body *p, pl_context *c, struct outcome *o)
{
    pl_error err = {0};
    for (int i = 0; i < p->n_tensors; i++) {
        const struct body_tensor *t = &p->tensors[i];
        unsigned char *got = malloc(bytes_of(t));
        ck_assert_int_eq(pl_download(c, got, t->address, bytes_of(t), &err), PL_OK);
        compare(p, i, got, o);
        free(got);
    }
}

/* A refusal names a rule or what is not served; all else that fails is wrong. */
static bool is_refusal(pl_status st, const pl_error *err)
{
    return (st == PL_E_INVALID || st == PL_E_UNSUPPORTED) && err->code != 0;
}

static void run_in(struct body *p, pl_context *c, const char *policy, struct outcome *o)
{
    static uint64_t serial;
    struct made *k = malloc(sizeof *k);
    pl_error err = {0};
    const struct body_params params = {p, ++serial};
    const pl_launch_options options = {.struct_size = sizeof options, .params = &params};
    *o = (struct outcome){.verdict = RIGHT};
    put_tensors(p, c);
    make_kernel(k, p);
    ck_assert_int_eq(configure("async", policy), 0);
    o->status = pl_launch(c, &k->kernel, NULL, k->args, k->kernel.n_params, &options, &err);
    if (o->status == PL_OK)
        o->status = pl_synchronize(c, &err);
    o->code = err.code;
    if (o->status != PL_OK) {
        char fault[2000] = "";
        last_fault(fault, sizeof fault);
        o->verdict = is_refusal(o->status, &err) ? REFUSED : WRONG;
        snprintf(o->text, sizeof o->text, "%s PL%d %s (line %d)\n%s", pl_status_name(o->status),
                 err.code, err.text, err.line, o->verdict == WRONG ? fault : "");
        return;
    }
    get_tensors(p, c, o);
}

static int chip_of(const struct body *p)
{
    int i = 0;
    while (chips[i].arch != p->arch)
        i++;
    return i;
}

static void start_over(void)
{
    close_contexts();
    ck_assert_int_eq(configure("reset", "1"), 0);
    open_contexts();
}

/* A fault loses its context; the driver begins again. */
static void recover(struct body *p)
{
    for (int i = 0; i < p->n_tensors; i++)
        p->tensors[i].address = 0;
    start_over();
}

static void run(struct body *p, const char *policy, struct outcome *o)
{
    const int chip = chip_of(p);
    body_eval(p);
    run_in(p, contexts[chip], policy, o);
    if (o->status == PL_E_FAULT)
        recover(p);
    else
        free_tensors(p, contexts[chip]);
}

/* ---- making a failure small ---- */

static bool still_fails(struct body *p, const char *policy, const struct outcome *first)
{
    struct outcome o;
    run(p, policy, &o);
    return o.verdict == first->verdict && o.status == first->status && o.code == first->code;
}

static void shrink(struct body *p, const char *policy, const struct outcome *first)
{
    static bool before[BODY_MAX_STMTS];
    bool has_changed = true;
    while (has_changed) {
        has_changed = false;
        for (int32_t i = p->n_stmts - 1; i >= 2; i--) {
            if (p->stmts[i].is_dropped)
                continue;
            for (int32_t k = 0; k < p->n_stmts; k++)
                before[k] = p->stmts[k].is_dropped;
            p->stmts[i].is_dropped = true;
            body_settle(p);
            if (still_fails(p, policy, first)) {
                has_changed = true;
                continue;
            }
            for (int32_t k = 0; k < p->n_stmts; k++)
                p->stmts[k].is_dropped = before[k];
        }
    }
}

static void print_small(struct body *p, const char *policy)
{
    struct outcome o;
    for (int32_t i = 0; i < p->n_stmts; i++)
        if (!p->stmts[i].is_dropped)
            printf("  %d %s\n", i, body_kind_name(p->stmts[i].kind));
    for (int i = 0; i < p->n_tensors; i++) {
        const struct body_tensor *t = &p->tensors[i];
        printf("  p%d %s", i, pl_dtype_name(t->t));
        for (int a = 0; a < t->s.rank; a++)
            printf(" %lld:%lld", (long long)t->s.d[a], (long long)t->strides.d[a]);
        printf(" + %lld\n", (long long)t->offset_elems);
    }
    pl_context *c = open_context(chip_of(p), true);
    body_eval(p);
    run_in(p, c, policy, &o);
    printf("%s\n", o.text);
    fflush(stdout);
    pl_context_destroy(c);
    recover(p);
}

/* ---- many ---- */

static int32_t n_refused[10000];

static void show(struct body *p, const char *policy, const struct outcome *o)
{
    const uint64_t seed = p->seed;
    printf("PL_BODY=%llu:%d %s: %s\n", (unsigned long long)seed, p->arch, policy, o->text);
    shrink(p, policy, o);
    print_small(p, policy);
}

static bool one(uint64_t seed, int32_t arch, const char *policy)
{
    static struct body p;
    struct outcome o;
    body_draw(&p, seed, arch);
    run(&p, policy, &o);
    const bool wants_refusal = getenv("PL_REFUSALS") != NULL && o.verdict == REFUSED &&
                               n_refused[o.code]++ < atoi(getenv("PL_REFUSALS"));
    if (o.verdict == WRONG || wants_refusal)
        show(&p, policy, &o);
    body_free(&p);
    return o.verdict != WRONG;
}

START_TEST(bodies_give_what_they_say)
{
    struct random_source r = random_start("check_random_bodies");
    const char *given = getenv("PL_BODY"), *many = getenv("PL_LONG"), *chip = getenv("PL_CHIP");
    int n = many == NULL ? 160 : atoi(many) > 1 ? atoi(many) : 10000, n_failed = 0;
    if (given != NULL) {
        const char *colon = strchr(given, ':');
        ck_assert_ptr_nonnull(colon);
        for (int i = 0; i < N_POLICIES; i++)
            n_failed += !one(strtoull(given, NULL, 0), atoi(colon + 1), policies[i]);
        n = 0;
    }
    for (int i = 0; i < n && n_failed < 5; i++) {
        const uint64_t seed = random_u64(&r);
        if (i % 300 == 299)
            start_over(); /* modules are kept as long as their context */
        n_failed += !one(seed, chip != NULL ? atoi(chip) : chips[i % N_CHIPS].arch,
                         policies[seed % N_POLICIES]);
    }
    for (int code = 0; code < 10000; code++)
        if (n_refused[code] > 0)
            printf("refused PL%d: %d\n", code, n_refused[code]);
    ck_assert_int_eq(n_failed, 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("random_bodies");
    TCase *t = tcase_create("bodies");
    tcase_add_checked_fixture(t, open_contexts, close_contexts);
    tcase_set_timeout(t, getenv("PL_LONG") != NULL ? 0 : 300);
    tcase_add_test(t, bodies_give_what_they_say);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
