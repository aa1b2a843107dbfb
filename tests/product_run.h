#ifndef PL_TESTS_PRODUCT_RUN_H
#define PL_TESTS_PRODUCT_RUN_H
/*
 * Runs a kernel z = x y on small whole numbers, for which every product and sum is exact, and compares each element with a triple loop
 * in float64.
 */
#include "tests/plan_data.h"
#include "tests/plan_ptxas.h"

/* x (m, k) and y (k, n) as they lie in memory: x as (k, m) when it is across; y as (n, k) unless it is. */
struct factors {
    const void *x, *y;
    pl_dtype a, b;
    int64_t m, n, k;
    bool a_is_across, b_is_across;
    double start; /* of each sum */
};

static inline double x_elem(const struct factors *f, int64_t i, int64_t k)
{
    return get_elem(f->x, f->a, f->a_is_across ? k * f->m + i : i * f->k + k);
}

static inline double y_elem(const struct factors *f, int64_t k, int64_t j)
{
    return get_elem(f->y, f->b, f->b_is_across ? k * f->n + j : j * f->k + k);
}

/* What an element must be; user begins with its factors. */
typedef double want_fn(const void *user, int64_t i, int64_t j);

static inline double product(const void *user, int64_t i, int64_t j)
{
    const struct factors *f = user;
    double sum = f->start;
    for (int64_t k = 0; k < f->k; k++)
        sum += x_elem(f, i, k) * y_elem(f, k, j);
    return sum;
}

/* OUT_ROW_SUMS of tests/operand_tiles.h. */
static inline double product_less_its_row(const void *user, int64_t i, int64_t j)
{
    const struct factors *f = user;
    double v = product(f, i, j);
    for (int64_t q = 0; q < f->n; q++)
        v -= product(f, i, q);
    return v;
}

static inline void ck_product(const void *got, pl_dtype out, int64_t m, int64_t n, want_fn *want,
                              const void *user, const char *what)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double w = want(user, i, j), rounded[1] = {0};
            set_elem(rounded, out, 0, w); /* as the result's type rounds it */
            w = get_elem(rounded, out, 0);
            const double have = get_elem(got, out, i * n + j);
            ck_assert_msg(have == w, "%s (%lld, %lld): %g, not %g", what, (long long)i,
                          (long long)j, have, w);
        }
}

struct product_run {
    const pl_kernel *kernel;
    const void *params;
    size_t params_bytes;
    int arch, number; /* number: of the case, for a message */
    const char *policy;
    bool checks_races, assembles;
    uint32_t n_blocks; /* 0: 1 */
    pl_dtype out;
    int64_t m_out, n_out; /* of z; 0: as the factors */
    want_fn *want;        /* NULL: product */
    struct factors *f;    /* what want is asked with; x and y are filled in here */
};

static inline void run_product(const struct product_run *r)
{
    struct factors *f = r->f;
    const int64_t m = r->m_out != 0 ? r->m_out : f->m, n = r->n_out != 0 ? r->n_out : f->n;
    driver_use(r->arch, r->policy);
    ck_assert_int_eq(emu.configure("check", r->checks_races ? "race" : "faults"), 0);
    pl_tensor x = tensor_new(f->a, f->a_is_across ? PL_SHAPE(f->k, f->m) : PL_SHAPE(f->m, f->k), 0,
                             0),
              y = tensor_new(f->b, f->b_is_across ? PL_SHAPE(f->k, f->n) : PL_SHAPE(f->n, f->k), 0,
                             0),
              z = tensor_new(r->out, PL_SHAPE(m, n), 0, 0);
    void *hx = fill_random(&x), *hy = fill_random(&y);
    const struct ask a = {.kernel = r->kernel,
                          .params = r->params,
                          .params_bytes = r->params_bytes,
                          .arch = r->arch,
                          .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                          .grid = {r->n_blocks != 0 ? r->n_blocks : 1, 1, 1},
                          .facts = all_facts};
    run_ok(&a);
    if (r->assembles)
        assembles(&a);
    void *got = fetch(&z);
    char what[96];
    snprintf(what, sizeof what, "case %d sm_%d %s", r->number, r->arch, r->policy);
    f->x = hx;
    f->y = hy;
    ck_product(got, r->out, m, n, r->want != NULL ? r->want : product, f, what);
    free(hx);
    free(hy);
    free(got);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&z);
}
#endif
