/*
 * The emulated device without the Driver API: the set of allocations, post-dominators against a brute-force model, results
 * at any number of threads, launches that run out of memory, and that every diagnostic of emu.def has its page and its case.
 */
#include "base/arena.h"
#include "emu/cfg.h"
#include "emu/faults.h"
#include "emu/launch.h"
#include "tests/random.h"

#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ------------------------------------------------------------------------------------------------------------------------------ */

START_TEST(allocations_are_found_by_every_byte_and_by_none_outside)
{
    enum { N = 200 };
    struct pl_emu_memory *m = pl_emu_memory_create((uint64_t)1 << 32, 0);
    const struct pl_emu_allocation *a[N];
    for (uint64_t i = 0; i < N; i++) {
        a[i] = pl_emu_memory_alloc(m, 1 + i * 37, 0, NULL);
        ck_assert_ptr_nonnull(a[i]);
        ck_assert_uint_eq(a[i]->address % 256, 0);
        ck_assert_uint_eq(a[i]->serial, i + 1);
    }
    for (uint64_t i = 0; i < N; i += 3)
        ck_assert(pl_emu_memory_free(m, a[i]->address));
    for (uint64_t i = 0; i < N; i++) {
        const struct pl_emu_allocation *want = i % 3 == 0 ? NULL : a[i];
        ck_assert_ptr_eq(pl_emu_memory_find(m, a[i]->address), want);
        ck_assert_ptr_eq(pl_emu_memory_find(m, a[i]->address + a[i]->n_bytes - 1), want);
        ck_assert_ptr_null(pl_emu_memory_find(m, a[i]->address + a[i]->n_bytes));
        ck_assert_ptr_null(pl_emu_memory_find(m, a[i]->address - 1));
        ck_assert_int_eq(pl_emu_memory_host(m, a[i]->address, a[i]->n_bytes) != NULL, want != NULL);
        ck_assert_ptr_null(pl_emu_memory_host(m, a[i]->address, a[i]->n_bytes + 1));
    }
    ck_assert(!pl_emu_memory_free(m, a[0]->address));
    ck_assert(!pl_emu_memory_free(m, a[1]->address + 1));
    pl_emu_memory_destroy(m);
}
END_TEST

START_TEST(memory_is_accounted_and_zeroed)
{
    struct pl_emu_memory *m = pl_emu_memory_create(1 << 20, 1);
    const struct pl_emu_allocation *a = pl_emu_memory_alloc(m, 600000, 0, NULL);
    ck_assert_uint_eq(pl_emu_memory_free_bytes(m), (1 << 20) - 600000);
    ck_assert_ptr_null(pl_emu_memory_alloc(m, 600000, 0, NULL));
    ck_assert_ptr_null(pl_emu_memory_alloc(m, 0, 0, NULL));
    for (int i = 0; i < 600000; i++)
        ck_assert_uint_eq(a->host[i], 0);
    ck_assert(pl_emu_memory_free(m, a->address));
    ck_assert_uint_eq(pl_emu_memory_free_bytes(m), 1 << 20);
    ck_assert_uint_eq(pl_emu_memory_n_live(m), 0);
    pl_emu_memory_destroy(m);
}
END_TEST

START_TEST(host_memory_keeps_its_address_and_never_overlaps)
{
    struct pl_emu_memory *m = pl_emu_memory_create(1 << 20, 1);
    static char host[4096];
    uint64_t at = (uintptr_t)host;
    ck_assert_ptr_nonnull(pl_emu_memory_register(m, host + 1024, 1024));
    ck_assert_ptr_null(pl_emu_memory_register(m, host + 2047, 10));
    ck_assert_ptr_null(pl_emu_memory_register(m, host, 1025));
    ck_assert_ptr_null(pl_emu_memory_register(m, host, 4096));
    ck_assert_ptr_nonnull(pl_emu_memory_register(m, host, 1024));
    ck_assert_ptr_eq(pl_emu_memory_host(m, at + 1500, 4), host + 1500);
    ck_assert(pl_emu_memory_free(m, at + 1024));
    ck_assert_ptr_null(pl_emu_memory_find(m, at + 1500));
    pl_emu_memory_destroy(m);
}
END_TEST

/* ---- post-dominators ------------------------------------------------------------------------------------------------------------------------ */

enum { MAX_NODES = 12 };

struct graph {
    uint32_t n, first_succ[MAX_NODES + 1], succ[MAX_NODES * 3];
    uint8_t exit[MAX_NODES];
};

/* Can an exit of `kind` be reached from `from` without passing `without`? */
static bool escapes(const struct graph *g, uint32_t from, uint32_t without, int kind,
                    uint32_t *seen)
{
    if (from == without || (*seen >> from & 1) != 0)
        return false;
    *seen |= 1u << from;
    if (g->exit[from] == kind)
        return true;
    for (uint32_t e = g->first_succ[from]; e < g->first_succ[from + 1]; e++)
        if (escapes(g, g->succ[e], without, kind, seen))
            return true;
    return false;
}

static bool reaches(const struct graph *g, uint32_t from, int kind)
{
    uint32_t seen = 0;
    return escapes(g, from, MAX_NODES, kind, &seen);
}

/* Nodes that every path from `from` to an exit passes, by taking each away in turn. */
static uint32_t post_dominators(const struct graph *g, uint32_t from, int kind)
{
    uint32_t all = 0;
    for (uint32_t x = 0; x < g->n; x++) {
        uint32_t seen = 0;
        if (x != from && reaches(g, x, kind) && !escapes(g, from, x, kind, &seen))
            all |= 1u << x;
    }
    return all;
}

/* Every successor of the node gets to an exit of `kind`. */
static bool is_closed(const struct graph *g, uint32_t node, int kind)
{
    for (uint32_t e = g->first_succ[node]; e < g->first_succ[node + 1]; e++)
        if (!reaches(g, g->succ[e], kind))
            return false;
    return true;
}

static void make_graph(struct graph *g, struct random_source *rng)
{
    uint32_t at = 0;
    g->n = 2 + (uint32_t)(random_below(rng, MAX_NODES - 1));
    for (uint32_t i = 0; i < g->n; i++) {
        g->first_succ[i] = at;
        uint32_t n_succ = (uint32_t)(random_below(rng, 4));
        g->exit[i] = n_succ == 0 ? (uint8_t)(1 + random_below(rng, 2)) : PL_EMU_EXIT_NONE;
        for (uint32_t k = 0; k < (n_succ > 2 ? 2 : n_succ); k++)
            g->succ[at++] = (uint32_t)(random_below(rng, g->n));
    }
    g->first_succ[g->n] = at;
}

START_TEST(post_dominators_agree_with_taking_nodes_away)
{
    struct random_source rng = random_start("post-dominators");
    for (int round = 0; round < 5000; round++) {
        struct graph g;
        struct pl_arena arena = {0};
        uint32_t got[MAX_NODES];
        make_graph(&g, &rng);
        struct pl_emu_cfg cfg = {g.n, g.first_succ, g.succ, g.exit};
        ck_assert(pl_emu_cfg_ipdom(&cfg, &arena, got));
        pl_arena_fini(&arena);
        for (uint32_t i = 0; i < g.n; i++) {
            int kind = reaches(&g, i, PL_EMU_EXIT_MAIN) ? PL_EMU_EXIT_MAIN : PL_EMU_EXIT_EARLY;
            uint32_t all = reaches(&g, i, kind) && is_closed(&g, i, kind)
                               ? post_dominators(&g, i, kind)
                               : 0,
                     want = PL_EMU_NO_NODE;
            for (uint32_t x = 0; x < g.n;
                 x++) /* the immediate one is post-dominated by all others */
                if ((all >> x & 1) != 0 && post_dominators(&g, x, kind) == (all & ~(1u << x)))
                    want = x;
            ck_assert_msg(got[i] == want, "round %d, node %u of %u: %u, expected %u", round, i, g.n,
                          got[i], want);
        }
    }
}
END_TEST

/* ---- launches ----------------------------------------------------------------------------------------------------------------------------- */

/* Each thread hashes its index with what its cluster's peers left in shared memory. */
static const char hash_ptx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry hash(.param .u64 out) {\n"
    ".reg .pred %p<3>; .reg .b32 %r<20>; .reg .b64 %d<5>;\n"
    ".shared .align 4 .u32 box[64];\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r4, %r2, %r3, "
    "%r1;\n"
    "mov.u32 %r5, 0; mov.u32 %r6, %r4; shl.b32 %r7, %r1, 2; mov.u32 %r8, box; add.u32 %r7, %r7, "
    "%r8;\n"
    "loop: mul.lo.u32 %r6, %r6, 2654435761; st.shared.u32 [%r7], %r6; bar.sync 0;\n"
    "xor.b32 %r9, %r1, 5; shl.b32 %r9, %r9, 2; add.u32 %r9, %r9, %r8; ld.shared.u32 %r10, [%r9]; "
    "bar.sync 0;\n"
    "add.u32 %r6, %r6, %r10; and.b32 %r11, %r6, 7; setp.gt.u32 %p2, %r11, 3; @%p2 bra odd; add.u32 "
    "%r6, %r6, 77;\n"
    "odd: add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 20; @%p1 bra loop;\n"
    "ld.param.u64 %d1, [out]; mul.wide.u32 %d2, %r4, 4; add.s64 %d1, %d1, %d2; st.global.u32 "
    "[%d1], %r6; ret; }\n";

enum { N_CTAS = 40, N_THREADS = 64 };

static void hash_with(uint32_t n_threads, uint32_t *out)
{
    struct pl_emu_config config = {.sm = 90, .n_threads = n_threads, .check = PL_EMU_CHECK_FAULTS};
    struct pl_emu_device *d = pl_emu_device_create(&config);
    struct pl_emu_program *p;
    struct pl_emu_fault fault;
    ck_assert_msg(pl_emu_program_load(d, hash_ptx, sizeof hash_ptx, &p, &fault), "line %u: %s",
                  fault.line, fault.text);
    const struct pl_emu_allocation *a =
        pl_emu_memory_alloc(pl_emu_device_memory(d), N_CTAS * N_THREADS * sizeof *out, 0, NULL);
    struct pl_emu_launch l = {.func = pl_emu_program_find(p, "hash"),
                              .params = &a->address,
                              .grid = {N_CTAS, 1, 1},
                              .block = {N_THREADS, 1, 1}};
    ck_assert_msg(pl_emu_launch(d, &l, &fault), "line %u: %s", fault.line, fault.text);
    memcpy(out, a->host, N_CTAS * N_THREADS * sizeof *out);
    struct pl_emu_counters c = pl_emu_device_counters(d);
    ck_assert_uint_eq(c.launches, 1);
    ck_assert_uint_eq(c.clusters, N_CTAS);
    ck_assert_uint_gt(c.lane_ops, c.instructions);
    pl_emu_program_unload(p);
    ck_assert_uint_eq(pl_emu_memory_n_live(pl_emu_device_memory(d)), 1);
    pl_emu_device_destroy(d);
}

START_TEST(results_do_not_depend_on_the_number_of_threads)
{
    static uint32_t one[N_CTAS * N_THREADS], many[N_CTAS * N_THREADS];
    hash_with(1, one);
    hash_with((uint32_t)_i, many);
    ck_assert_mem_eq(one, many, sizeof one);
}
END_TEST

/* From CTA 3 on each fails, the later the sooner. In the other program CTA 0 waits for what CTA 5 would do if it did not fail. */
static const char failing_ptx[] =
    ".version 8.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry late(.param .u64 g) {\n"
    ".reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d;\n"
    "mov.u32 %r1, %ctaid.x; setp.lt.u32 %p, %r1, 3; @%p bra done; sub.u32 %r2, 40, %r1;\n"
    "mul.lo.u32 %r2, %r2, 8000; mov.u32 %r3, 0;\n"
    "loop: add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, %r2; @%p bra loop;\n"
    "mov.u64 %d, 64; st.global.u32 [%d], %r1;\n"
    "done: ret; }\n"
    ".visible .entry waiting(.param .u64 g) {\n"
    ".reg .pred %p; .reg .b32 %r<5>; .reg .b64 %d<3>;\n"
    "mov.u32 %r1, %ctaid.x; ld.param.u64 %d1, [g]; setp.eq.u32 %p, %r1, 0; @%p bra wait;\n"
    "setp.ne.u32 %p, %r1, 5; @%p bra done; mov.u64 %d2, 64; st.global.u32 [%d2], %r1;\n"
    "wait: ld.volatile.global.u32 %r2, [%d1]; setp.eq.u32 %p, %r2, 0; @%p bra wait;\n"
    "done: ret; }\n";

static struct pl_emu_fault fail_with(uint32_t n_threads, const char *entry)
{
    struct pl_emu_config config = {.sm = 90, .n_threads = n_threads, .check = PL_EMU_CHECK_FAULTS};
    struct pl_emu_device *d = pl_emu_device_create(&config);
    struct pl_emu_program *p;
    struct pl_emu_fault fault;
    ck_assert_msg(pl_emu_program_load(d, failing_ptx, sizeof failing_ptx, &p, &fault),
                  "line %u: %s", fault.line, fault.text);
    const struct pl_emu_allocation *a =
        pl_emu_memory_alloc(pl_emu_device_memory(d), sizeof(uint32_t), 0, NULL);
    struct pl_emu_launch l = {.func = pl_emu_program_find(p, entry),
                              .params = &a->address,
                              .grid = {40, 1, 1},
                              .block = {32, 1, 1}};
    ck_assert(!pl_emu_launch(d, &l, &fault));
    pl_emu_program_unload(p);
    pl_emu_device_destroy(d);
    return fault;
}

START_TEST(the_lowest_cluster_that_fails_is_reported)
{
    ck_assert_uint_eq(fail_with((uint32_t)_i, "late").cta[0], 3);
    ck_assert_uint_eq(fail_with((uint32_t)_i, "waiting").cta[0], 5);
}
END_TEST

START_TEST(a_launch_without_memory_is_a_fault)
{
    struct pl_emu_config config = {.sm = 90, .n_threads = 1, .stack_bytes = UINT32_MAX / 2};
    struct pl_emu_device *d = pl_emu_device_create(&config);
    static const char text[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                               ".func f() { call.uni f, (); ret; }\n"
                               ".visible .entry k() { call.uni f, (); ret; }\n";
    struct pl_emu_program *p;
    struct pl_emu_fault fault;
    ck_assert_msg(pl_emu_program_load(d, text, sizeof text, &p, &fault), "line %u: %s", fault.line,
                  fault.text);
    struct pl_emu_launch l = {
        .func = pl_emu_program_find(p, "k"), .grid = {1, 1, 1}, .block = {1024, 1, 1}};
    bool is_ok = pl_emu_launch(d, &l, &fault); /* stacks of 1,024 threads: 2^41 bytes */
    ck_assert(!is_ok);
    ck_assert_int_eq(fault.code, pl_di_emu_no_memory.code);
    ck_assert_int_eq(fault.result, 2);
    pl_emu_program_unload(p);
    pl_emu_device_destroy(d);
}
END_TEST

START_TEST(occupancy_follows_what_a_cta_takes)
{
    struct pl_emu_config config = {.sm = 90, .threads_per_sm = 2048, .ctas_per_sm = 32};
    struct pl_emu_device *d = pl_emu_device_create(&config);
    struct pl_emu_program *p;
    struct pl_emu_fault fault;
    ck_assert(pl_emu_program_load(d, hash_ptx, sizeof hash_ptx, &p, &fault));
    const struct pl_emu_func *f = pl_emu_program_find(p, "hash");
    ck_assert_uint_eq(pl_emu_func_info(f)->static_shared_bytes, 256);
    ck_assert_uint_eq(pl_emu_occupancy(d, f, 64, 0), 32);
    ck_assert_uint_eq(pl_emu_occupancy(d, f, 1024, 0), 2);
    ck_assert_uint_eq(pl_emu_occupancy(d, f, 64, 100 * 1024), 2);
    ck_assert_uint_eq(pl_emu_occupancy(d, f, 2048, 0), 0);
    ck_assert_uint_eq(pl_emu_occupancy(d, f, 64, 232448), 0);
    pl_emu_program_unload(p);
    pl_emu_device_destroy(d);
}
END_TEST

/* ---- diagnostics -------------------------------------------------------------------------------------------------------------------------- */

static const struct pl_diag_info *const rows[] = {
#define DIAG(code, id, ...) &pl_di_##id,
#include "emu/emu.def"
#undef DIAG
};

static bool file_holds(const char *path, const char *word)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t n = f != NULL ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f != NULL)
        fclose(f);
    return strstr(text, word) != NULL;
}

START_TEST(diagnostic_has_a_page_and_a_case)
{
    const struct pl_diag_info *row = rows[_i];
    char path[1024], word[16];
    snprintf(path, sizeof path, "%s/docs/explain/PL%d.md", PL_SRCDIR, row->code);
    ck_assert_msg(file_holds(path, row->id), "%s is missing or names another row", path);
    if (row == &pl_di_emu_no_memory)
        return; /* a_launch_without_memory_is_a_fault */
    glob_t files;
    snprintf(path, sizeof path, "%s/tests/ptx/bad_*.ptx", PL_SRCDIR);
    ck_assert_int_eq(glob(path, 0, NULL, &files), 0);
    snprintf(word, sizeof word, "PL%d ", row->code);
    bool found = false;
    for (size_t i = 0; i < files.gl_pathc && !found; i++)
        found = file_holds(files.gl_pathv[i], word);
    globfree(&files);
    ck_assert_msg(found, "no tests/ptx/bad_*.ptx expects PL%d", row->code);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu");
    TCase *t = tcase_create("emu");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, allocations_are_found_by_every_byte_and_by_none_outside);
    tcase_add_test(t, memory_is_accounted_and_zeroed);
    tcase_add_test(t, host_memory_keeps_its_address_and_never_overlaps);
    tcase_add_test(t, post_dominators_agree_with_taking_nodes_away);
    tcase_add_loop_test(t, results_do_not_depend_on_the_number_of_threads, 1, 5);
    tcase_add_loop_test(t, the_lowest_cluster_that_fails_is_reported, 1, 9);
    tcase_add_test(t, a_launch_without_memory_is_a_fault);
    tcase_add_test(t, occupancy_follows_what_a_cta_takes);
    tcase_add_loop_test(t, diagnostic_has_a_page_and_a_case, 0,
                        (int)(sizeof rows / sizeof rows[0]));
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
