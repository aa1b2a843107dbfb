#include "base/arena.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/hash.h"
#include "base/vec.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

START_TEST(arena_gives_zeroed_aligned_memory_up_to_its_limit)
{
    struct pl_arena a;
    pl_arena_init(&a, NULL, 4096);
    size_t got = 0;
    for (unsigned char *p; (p = pl_arena_alloc(&a, 24)) != NULL; got++) {
        ck_assert_uint_eq((uintptr_t)p % _Alignof(max_align_t), 0);
        for (int i = 0; i < 24; i++)
            ck_assert_uint_eq(p[i], 0);
        memset(p, 0xff, 24);
    }
    ck_assert_uint_eq(got, 4096 / 32);
    ck_assert(pl_arena_is_exhausted(&a));
    ck_assert_ptr_null(pl_arena_alloc(&a, 1));
    pl_arena_fini(&a);
    ck_assert_ptr_nonnull(pl_arena_alloc(&a, 1));
    ck_assert_ptr_null(pl_arena_array(&a, SIZE_MAX / 2, 16));
    pl_arena_fini(&a);
}
END_TEST

struct fail_after {
    int n_left;
    int n_live;
};

static void *hook_alloc(size_t n_bytes, void *user)
{
    struct fail_after *f = user;
    if (f->n_left-- <= 0)
        return NULL;
    f->n_live++;
    return malloc(n_bytes);
}

static void hook_free(void *p, void *user)
{
    ((struct fail_after *)user)->n_live--;
    free(p);
}

START_TEST(arena_survives_failure_of_every_nth_allocation)
{
    struct fail_after f = {.n_left = _i};
    const struct pl_alloc_hooks hooks = {hook_alloc, hook_free, &f};
    struct pl_arena a;
    pl_arena_init(&a, &hooks, 0);
    struct pl_buf b;
    pl_buf_init(&b, &a, 0);
    for (int i = 0; i < 100000; i++)
        pl_buf_puts(&b, "0123456789");
    ck_assert_int_eq(pl_arena_is_exhausted(&a), f.n_left < 0);
    if (!pl_arena_is_exhausted(&a))
        ck_assert_uint_eq(strlen(b.text), 1000000);
    pl_arena_fini(&a);
    ck_assert_int_eq(f.n_live, 0);
}
END_TEST

START_TEST(vec_keeps_its_elements_across_growth)
{
    struct pl_arena a = {0};
    PL_VEC(uint32_t) v = {0};
    for (uint32_t i = 0; i < 1000; i++)
        *pl_vec_push(&a, &v) = i * i;
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(v.data[i], i * i);
    pl_arena_fini(&a);
}
END_TEST

START_TEST(buf_prints_integers_whatever_their_value)
{
    struct pl_arena a = {0};
    struct pl_buf b;
    pl_buf_init(&b, &a, 0);
    pl_buf_i64(&b, INT64_MIN);
    pl_buf_putc(&b, ' ');
    pl_buf_u64(&b, UINT64_MAX);
    pl_buf_putc(&b, ' ');
    pl_buf_hex(&b, 0x3f80, 8);
    pl_buf_printf(&b, " %s", "end");
    ck_assert_str_eq(b.text, "-9223372036854775808 18446744073709551615 00003F80 end");
    pl_arena_fini(&a);
}
END_TEST

START_TEST(sha256_agrees_with_the_standard_examples)
{
    char hex[65];
    struct pl_sha256 h = pl_sha256_of("abc", 3); /* FIPS 180-4 example */
    pl_sha256_hex(&h, hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
END_TEST

START_TEST(diag_is_counted_even_when_memory_ran_out)
{
    static const struct pl_diag_info info = {1, PL_SEVERITY_ERROR, "x", "plain", "do y", "here"};
    struct pl_arena a;
    pl_arena_init(&a, NULL, 32);
    pl_arena_alloc(&a, 32);
    struct pl_diags ds;
    pl_diags_init(&ds, &a);
    pl_diag_add(&ds, &info, (struct pl_where){0}, "%d", 7);
    ck_assert_uint_eq(ds.n_errors, 1);
    pl_arena_fini(&a);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("base");
    TCase *t = tcase_create("base");
    tcase_add_test(t, arena_gives_zeroed_aligned_memory_up_to_its_limit);
    tcase_add_loop_test(t, arena_survives_failure_of_every_nth_allocation, 0, 12);
    tcase_add_test(t, vec_keeps_its_elements_across_growth);
    tcase_add_test(t, buf_prints_integers_whatever_their_value);
    tcase_add_test(t, sha256_agrees_with_the_standard_examples);
    tcase_add_test(t, diag_is_counted_even_when_memory_ran_out);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
