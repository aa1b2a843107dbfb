/* The cache in memory: single flight, lock-free hits while tables grow, refusals, eviction; and the request key. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "src/runtime/cache.h"

#include <pthread.h>
#include <time.h>

#include "tests/suite.h"

static void *get_memory(size_t n_bytes, void *user) { return (void)user, malloc(n_bytes); }
static void give_memory(void *p, void *user) { (void)user, free(p); }
static const struct pl_alloc_hooks hooks = {.alloc = get_memory, .free = give_memory};

static struct pl_cache cache;

static void setup(void) { ck_assert(pl_cache_init(&cache, &hooks)); }
static void teardown(void) { pl_cache_fini(&cache, false); }

static struct pl_key key_of(uint64_t n)
{
    struct pl_key k = {.n_words = 3};
    k.words[0] = n;
    k.words[1] = 7;
    k.words[2] = n * n;
    return k;
}

static struct pl_variant *fake_variant(uint64_t n)
{
    return (struct pl_variant *)(uintptr_t)(n * 16 + 16);
}

static enum pl_claim claim(uint64_t n, bool can_wait, struct pl_entry **e)
{
    uint64_t wait_ns = 0;
    struct pl_key k = key_of(n);
    return pl_cache_claim(&cache, &k, pl_key_hash(&k), can_wait, e, &wait_ns);
}

static struct pl_entry *find(uint64_t n)
{
    struct pl_key k = key_of(n);
    return pl_cache_find(&cache, &k, pl_key_hash(&k));
}

/* ---- states ---- */

START_TEST(life_of_an_entry)
{
    struct pl_entry *e, *f;
    ck_assert_ptr_null(find(1));
    ck_assert_int_eq(claim(1, true, &e), PL_CLAIM_BUILD);
    ck_assert_ptr_eq(find(1), e);
    ck_assert_ptr_null(atomic_load(&e->variant));
    ck_assert_int_eq(claim(1, false, &f), PL_CLAIM_BUSY);
    pl_cache_settle(&cache, e, NULL, NULL); /* a failure that may pass */
    ck_assert_int_eq(claim(1, true, &f), PL_CLAIM_BUILD);
    ck_assert_ptr_eq(f, e);
    pl_cache_settle(&cache, e, fake_variant(1), NULL);
    ck_assert_int_eq(claim(1, true, &f), PL_CLAIM_READY);
    ck_assert_ptr_eq(pl_cache_take(&cache, e), fake_variant(1));
    ck_assert_ptr_null(pl_cache_take(&cache, e));
    ck_assert_int_eq(claim(1, true, &f), PL_CLAIM_BUILD);
    const pl_error why = {.status = PL_E_ASSEMBLER, .code = 7001, .text = "no"};
    pl_cache_settle(&cache, e, NULL, &why);
    ck_assert_int_eq(claim(1, true, &f), PL_CLAIM_REFUSED);
    ck_assert_str_eq(f->refusal->text, "no");
}
END_TEST

START_TEST(many_entries_survive_growth)
{
    enum { N = 20000 };
    for (uint64_t i = 0; i < N; i++) {
        struct pl_entry *e;
        ck_assert_int_eq(claim(i, true, &e), PL_CLAIM_BUILD);
        pl_cache_settle(&cache, e, fake_variant(i), NULL);
    }
    for (uint64_t i = 0; i < N; i++) {
        struct pl_entry *e = find(i);
        ck_assert_ptr_nonnull(e);
        ck_assert_ptr_eq(atomic_load(&e->variant), fake_variant(i));
    }
    ck_assert_ptr_null(find(N));
}
END_TEST

/* Keys whose hashes are equal are still told apart. */
START_TEST(equal_hashes_are_not_equal_keys)
{
    for (uint64_t i = 0; i < 8; i++) {
        struct pl_key k = key_of(i);
        struct pl_entry *e;
        uint64_t wait_ns = 0;
        ck_assert_int_eq(pl_cache_claim(&cache, &k, 42, true, &e, &wait_ns), PL_CLAIM_BUILD);
        pl_cache_settle(&cache, e, fake_variant(i), NULL);
    }
    for (uint64_t i = 0; i < 8; i++) {
        struct pl_key k = key_of(i);
        ck_assert_ptr_eq(atomic_load(&pl_cache_find(&cache, &k, 42)->variant), fake_variant(i));
    }
}
END_TEST

/* ---- threads ---- */

enum { N_THREADS = 64 };
static atomic_uint n_builds, n_failures;
static pthread_barrier_t all_ready;
static uint64_t round_key;

static void *ask_once(void *p)
{
    (void)p;
    struct pl_entry *e;
    pthread_barrier_wait(&all_ready);
    switch (claim(round_key, true, &e)) {
    case PL_CLAIM_BUILD: {
        atomic_fetch_add(&n_builds, 1);
        const struct timespec t = {.tv_nsec = 2000000};
        nanosleep(&t, NULL);
        pl_cache_settle(&cache, e, fake_variant(round_key), NULL);
        break;
    }
    case PL_CLAIM_READY: break;
    case PL_CLAIM_REFUSED:
    case PL_CLAIM_BUSY:
    case PL_CLAIM_NOMEM: atomic_fetch_add(&n_failures, 1);
    }
    if (atomic_load(&e->variant) != fake_variant(round_key))
        atomic_fetch_add(&n_failures, 1);
    return NULL;
}

static void run_threads(void *(*fn)(void *), int n)
{
    pthread_t threads[N_THREADS];
    pthread_barrier_init(&all_ready, NULL, (unsigned)n);
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, fn, (void *)(intptr_t)i), 0);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_ready);
}

/* Case 22: 64 threads, one cold key, one build. */
START_TEST(one_build_for_64_threads)
{
    for (round_key = 0; round_key < 20; round_key++) {
        atomic_store(&n_builds, 0);
        run_threads(ask_once, N_THREADS);
        ck_assert_uint_eq(atomic_load(&n_builds), 1);
        ck_assert_uint_eq(atomic_load(&n_failures), 0);
    }
}
END_TEST

static void *ask_failing(void *p)
{
    (void)p;
    struct pl_entry *e;
    pthread_barrier_wait(&all_ready);
    if (claim(round_key, true, &e) == PL_CLAIM_BUILD) {
        atomic_fetch_add(&n_builds, 1);
        pl_cache_settle(&cache, e, NULL, NULL);
    } else {
        atomic_fetch_add(&n_failures, 1);
    }
    return NULL;
}

/* A failure that may pass: nobody hangs, each waiter tries for itself. */
START_TEST(failed_builds_wake_the_waiters)
{
    round_key = 1;
    run_threads(ask_failing, N_THREADS);
    ck_assert_uint_eq(atomic_load(&n_builds), N_THREADS);
    ck_assert_uint_eq(atomic_load(&n_failures), 0);
}
END_TEST

static void *read_and_write(void *p)
{
    uint64_t first = (uint64_t)(intptr_t)p % 4 * 500;
    pthread_barrier_wait(&all_ready);
    for (int pass = 0; pass < 3; pass++) {
        for (uint64_t i = 0; i < 2000; i++) {
            uint64_t n = (first + i) % 2000;
            struct pl_entry *e = find(n);
            if (e != NULL && atomic_load(&e->variant) == fake_variant(n))
                continue;
            if (claim(n, true, &e) == PL_CLAIM_BUILD) {
                atomic_fetch_add(&n_builds, 1);
                pl_cache_settle(&cache, e, fake_variant(n), NULL);
            }
            if (atomic_load(&e->variant) != fake_variant(n))
                atomic_fetch_add(&n_failures, 1);
        }
    }
    return NULL;
}

START_TEST(hits_while_the_tables_grow)
{
    run_threads(read_and_write, 8);
    ck_assert_uint_eq(atomic_load(&n_builds), 2000);
    ck_assert_uint_eq(atomic_load(&n_failures), 0);
}
END_TEST

/* ---- memory ---- */

static int n_until_empty;

static void *get_scarce(size_t n_bytes, void *user)
{
    (void)user;
    return n_until_empty-- > 0 ? malloc(n_bytes) : NULL;
}

START_TEST(out_of_memory_at_every_allocation)
{
    const struct pl_alloc_hooks scarce = {.alloc = get_scarce, .free = give_memory};
    for (int n = 0; n < 60; n++) {
        struct pl_cache c;
        n_until_empty = n;
        if (!pl_cache_init(&c, &scarce))
            continue;
        for (uint64_t i = 0; i < 40; i++) {
            struct pl_key k = key_of(i);
            struct pl_entry *e;
            uint64_t wait_ns = 0;
            enum pl_claim r = pl_cache_claim(&c, &k, pl_key_hash(&k), true, &e, &wait_ns);
            ck_assert(r == PL_CLAIM_BUILD || r == PL_CLAIM_NOMEM);
            if (r == PL_CLAIM_BUILD)
                pl_cache_settle(&c, e, fake_variant(i), NULL);
        }
        pl_cache_fini(&c, false);
    }
}
END_TEST

/* ---- the request key ---- */

struct params {
    int32_t tile, stages;
};

static const pl_param_decl decls[] = {
    {.name = "x",
     .role = PL_ROLE_IN,
     .max_rank = 8,
     .dtypes = PL_DT_ANY,
     .specialised = PL_FACT_ALIGN16 | PL_FACT_I32},
    {.name = "w",
     .role = PL_ROLE_IN,
     .max_rank = 8,
     .dtypes = PL_DT_ANY,
     .is_optional = true,
     .baked_dims = 2},
    {.name = "s", .role = PL_ROLE_SCALAR, .dtypes = PL_DT_ANY},
};
static const pl_kernel kernel = {.struct_size = sizeof kernel,
                                 .name = "k",
                                 .params = decls,
                                 .n_params = 3,
                                 .params_bytes = sizeof(struct params),
                                 .n_configs = 1};

struct request {
    pl_arg args[3];
    struct params params;
    struct pl_key_parts parts;
};

static void make_request(struct request *r)
{
    memset(r, 0, sizeof *r);
    r->args[0] = pl_arg_tensor(pl_tensor_make(4096, PL_F32, PL_SHAPE(100, 64)));
    r->args[1] = pl_arg_tensor(pl_tensor_make(8192, PL_F32, PL_SHAPE(7, 64)));
    r->args[2] = pl_arg_f32(1.0f);
    r->params = (struct params){64, 3};
    r->parts = (struct pl_key_parts){
        .kernel = &kernel, .args = r->args, .params = &r->params, .arch = 90, .ptx_cap = 80};
}

static struct pl_key request_key(struct request *r)
{
    struct pl_key k;
    memset(&k, 0xa5, sizeof k); /* what is not written must not count */
    r->parts.facts = pl_facts_of(&kernel, r->args);
    pl_key_make(&k, &r->parts);
    return k;
}

/* Case 20: what does not change code is in no key. */
START_TEST(sizes_and_addresses_are_in_no_key)
{
    struct request a, b;
    make_request(&a);
    struct pl_key ka = request_key(&a);
    for (int64_t n = 1; n < 10000; n += 37) {
        make_request(&b);
        b.args[0] = pl_arg_tensor(pl_tensor_make((uint64_t)n * 16, PL_F32, PL_SHAPE(n, 64)));
        b.args[1].u.tensor.shape[0] = n; /* baked is dimension 1 only */
        b.args[2] = pl_arg_f32((float)n);
        struct pl_key kb = request_key(&b);
        ck_assert(pl_key_equals(&ka, &kb));
        ck_assert_uint_eq(pl_key_hash(&ka), pl_key_hash(&kb));
    }
}
END_TEST

static const pl_kernel other_kernel = {.struct_size = sizeof kernel,
                                       .name = "k",
                                       .params = decls,
                                       .n_params = 3,
                                       .params_bytes = sizeof(struct params),
                                       .n_configs = 1};

static void change(struct request *r, int what)
{
    switch (what) {
    case 0: r->parts.kernel = &other_kernel; break; /* case 8: another kernel of the same name */
    case 1: r->params.tile = 128; break;            /* case 8: a captured constant */
    case 2: r->params.stages = 4; break;
    case 3: r->parts.arch = 100; break; /* cases 9 to 11 */
    case 4: r->parts.ptx_cap = 88; break;
    case 5: r->parts.is_pdl = true; break;
    case 6: r->parts.assemble_flags = 1; break;
    case 7: r->args[0].u.tensor.dtype = PL_BF16; break;
    case 8: r->args[0].u.tensor.rank = 1; break;
    case 9: r->args[1] = pl_arg_none(); break;
    case 10: r->args[1].u.tensor.shape[1] = 65; break;               /* baked */
    case 11: r->args[0].u.tensor.address += 4; break;                /* loses ALIGN16 */
    case 12: r->args[0].u.tensor.shape[0] = (int64_t)1 << 31; break; /* loses I32 */
    case 13: r->args[2] = pl_arg_i32(1); break;
    default: break;
    }
}

START_TEST(what_changes_code_is_in_the_key)
{
    struct request a, b;
    make_request(&a);
    make_request(&b);
    change(&a, _i);
    struct pl_key ka = request_key(&a), kb = request_key(&b);
    ck_assert(!pl_key_equals(&ka, &kb));
    for (int other = 0; other < _i; other++) {
        make_request(&b);
        change(&b, other);
        kb = request_key(&b);
        ck_assert(!pl_key_equals(&ka, &kb));
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("runtime_cache");
    TCase *t = tcase_create("cache");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, life_of_an_entry);
    tcase_add_test(t, many_entries_survive_growth);
    tcase_add_test(t, equal_hashes_are_not_equal_keys);
    tcase_add_test(t, one_build_for_64_threads);
    tcase_add_test(t, failed_builds_wake_the_waiters);
    tcase_add_test(t, hits_while_the_tables_grow);
    tcase_add_test(t, out_of_memory_at_every_allocation);
    suite_add_tcase(s, t);
    t = tcase_create("key");
    tcase_add_test(t, sizes_and_addresses_are_in_no_key);
    tcase_add_loop_test(t, what_changes_code_is_in_the_key, 0, 14);
    suite_add_tcase(s, t);
    return s;
}
