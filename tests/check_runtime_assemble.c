/* Tensor-map rules, one by one; assemblers, real and fake; the quick test of arguments against the rules. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "base/buf.h"
#include "src/check/check.h"
#include "src/ir/fact.h"
#include "src/runtime/assemble.h"
#include "src/runtime/driver.h"
#include "src/runtime/key.h"
#include "src/runtime/quick.h"
#include "src/runtime/tensormap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/random.h"
#include "tests/suite.h"

static pl_error err;
static struct pl_call call;

static void setup(void) { call = pl_call_make("test", NULL, &err); }

/* ---- tensor maps ---- */

struct map_case {
    struct pl_plan_map map;
    pl_tensor t;
};

/* A fine one: (64, 128) bf16 rows of 256 bytes, box 32 x 64, swizzle 128. */
static struct map_case fine_case(void)
{
    return (struct map_case){
        .map = {.arg = 2,
                .dtype = PL_BF16,
                .rank = 2,
                .axes = {1, 0},
                .box_elems = {64, 32},
                .swizzle = PL_PLAN_SWIZZLE_128,
                .l2_bytes = 128},
        .t = pl_tensor_make(0x1000, PL_BF16, PL_SHAPE(64, 128)),
    };
}

static pl_status inputs_of(const struct map_case *c, struct pl_tmap_inputs *in)
{
    struct pl_tmap_key key;
    setup();
    pl_tmap_key_make(&key, &c->map, &c->t);
    return pl_tmap_inputs_make(in, &key, &c->map, &call);
}

START_TEST(fine_map)
{
    struct pl_tmap_inputs in;
    struct map_case c = fine_case();
    ck_assert_int_eq(inputs_of(&c, &in), PL_OK);
    ck_assert_uint_eq(in.dims[0], 128);
    ck_assert_uint_eq(in.dims[1], 64);
    ck_assert_uint_eq(in.stride_bytes[1], 256);
    ck_assert_uint_eq(in.box[0], 64);
    ck_assert_int_eq(in.dtype, PL_CU_TMAP_BF16);
    ck_assert_int_eq(in.swizzle, PL_CU_TMAP_SWIZZLE_128B);
    ck_assert_int_eq(in.l2, PL_CU_TMAP_L2_128B);
}
END_TEST

/* Each rule broken alone: code, argument, dimension. */
static const struct {
    int code, dimension;
    pl_status status;
} map_faults[] = {{6140, -1, PL_E_INVALID}, {6141, -1, PL_E_INVALID},    {6142, 0, PL_E_INVALID},
                  {6142, 1, PL_E_INVALID},  {6143, 0, PL_E_INVALID},     {6143, 0, PL_E_INVALID},
                  {6143, 0, PL_E_INVALID},  {6144, 1, PL_E_INVALID},     {6145, 0, PL_E_INVALID},
                  {6145, 1, PL_E_INVALID},  {6146, 1, PL_E_INVALID},     {6147, 1, PL_E_INVALID},
                  {6147, 1, PL_E_INVALID},  {6148, -1, PL_E_UNSUPPORTED}};

static void break_rule(struct map_case *c, int i)
{
    switch (i) {
    case 0: c->map.rank = 0; break;
    case 1: c->t.address = 0x1008; break;
    case 2: c->t.shape[0] = 0; break;
    case 3: c->t.shape[1] = ((int64_t)1 << 32) + 1; break;
    case 4: c->t.strides[0] = 129; break; /* case 45 of the log: 258 bytes */
    case 5: c->t.strides[0] = -128; break;
    case 6: c->t.strides[0] = (int64_t)1 << 39; break; /* 2^40 bytes */
    case 7: c->t.strides[1] = 2; break;
    case 8: c->map.box_elems[1] = 257; break;
    case 9: c->map.box_elems[0] = 0; break;
    case 10: c->map.box_elems[0] = 4; break;   /* 8 bytes */
    case 11: c->map.box_elems[0] = 128; break; /* case 43: 256 bytes in a span of 128 */
    case 12: c->map.box_elems[0] = 32; break;  /* narrower than the span */
    default: c->map.dtype = PL_E2M3; break;
    }
}

START_TEST(broken_maps)
{
    struct pl_tmap_inputs in;
    struct map_case c = fine_case();
    break_rule(&c, _i);
    ck_assert_int_eq(inputs_of(&c, &in), map_faults[_i].status);
    ck_assert_int_eq(err.code, map_faults[_i].code);
    ck_assert_int_eq(err.argument, 2);
    ck_assert_int_eq(err.dimension, map_faults[_i].dimension);
}
END_TEST

/* An extent of 1: its stride is never taken, whatever it is. */
START_TEST(stride_of_extent_one)
{
    struct pl_tmap_inputs in;
    struct map_case c = fine_case();
    c.t.shape[0] = 1;
    c.t.strides[0] = 3;
    ck_assert_int_eq(inputs_of(&c, &in), PL_OK);
    ck_assert_uint_eq(in.stride_bytes[1] % 16, 0);
    ck_assert_uint_ne(in.stride_bytes[1], 0);
}
END_TEST

/* Case 37: bit 85 goes, of a small tensor that is not dense, and nothing else changes. */
START_TEST(mended_maps)
{
    static const struct {
        int64_t rows, pitch;
        bool is_mended;
    } cases[] = {{64, 128, false}, {64, 136, true},   {1, 136, false},
                 {480, 136, true}, {482, 136, false}, {64, 2048, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct map_case c = fine_case();
        struct pl_tmap_key key;
        uint64_t words[16], before[16];
        c.t.shape[0] = cases[i].rows;
        c.t.strides[0] = cases[i].pitch;
        memset(words, 0xff, sizeof words);
        memcpy(before, words, sizeof words);
        pl_tmap_key_make(&key, &c.map, &c.t);
        pl_tmap_mend(&key, words);
        before[1] ^= cases[i].is_mended ? (uint64_t)1 << 21 : 0;
        ck_assert_msg(memcmp(words, before, sizeof words) == 0, "%zu", i);
    }
}
END_TEST

/* The key holds every input. */
START_TEST(keys_differ)
{
    struct pl_tmap_key keys[12];
    for (int i = 0; i < 12; i++) {
        struct map_case c = fine_case();
        switch (i) {
        case 1: c.t.address += 16; break;
        case 2: c.t.shape[0]++; break;
        case 3: c.t.shape[1]++; break;
        case 4: c.t.strides[0] += 8; break;
        case 5: c.map.box_elems[0] = 32; break;
        case 6: c.map.box_elems[1] = 16; break;
        case 7: c.map.swizzle = PL_PLAN_SWIZZLE_64; break;
        case 8: c.map.l2_bytes = 256; break;
        case 9: c.map.fills_nan = true; break;
        case 10: c.map.dtype = PL_F16; break;
        case 11: c.map.rank = 1; break;
        default: break;
        }
        pl_tmap_key_make(&keys[i], &c.map, &c.t);
        for (int k = 0; k < i; k++)
            ck_assert_mem_ne(&keys[i], &keys[k], sizeof keys[i]);
    }
}
END_TEST

/* ---- assemblers ---- */

static const char text[] =
    ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n";
static struct pl_arena arena;
static struct pl_driver driver;
static struct pl_asm_result result;
static char folder[64];

static void setup_assembler(void)
{
    setup();
    driver = (struct pl_driver){.version = 13000};
    strcpy(folder, "/tmp/plaunch-fake.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("CUDA_HOME", folder, 1);
    setenv("PATH", "/usr/bin:/bin", 1);
}

static void teardown_assembler(void)
{
    char command[128];
    pl_arena_fini(&arena);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static pl_status assemble_text(const struct pl_assembler *a, const char *ptx)
{
    const struct pl_asm_request q = {
        .kernel = "k", .target = "sm_90a", .text = {ptx, strlen(ptx)}, .arena = &arena};
    return pl_assemble(a, &driver, &q, &result, &call);
}

/* A ptxas of ours: says its version, then does what `script` says; $out is the file to write. */
static void write_fake(const char *script)
{
    char path[128];
    snprintf(path, sizeof path, "%s/bin", folder);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/bin/ptxas", folder);
    FILE *f = fopen(path, "w");
    fprintf(f,
            "#!/bin/sh\n"
            "case $1 in --version) echo 'Cuda compilation tools, release 13.0, V13.0.88'; exit 0;; "
            "esac\n"
            "while [ $# -gt 0 ]; do case $1 in -o) out=$2; shift;; esac; shift; done\n%s\n",
            script);
    fclose(f);
    chmod(path, 0700);
}

START_TEST(identity)
{
    struct pl_assembler a;
    driver.is_emulated = true;
    pl_assembler_choose(&a, &driver);
    ck_assert_str_eq(a.id, "ptx");
    ck_assert(a.is_cacheable);
    ck_assert_int_eq(assemble_text(&a, text), PL_OK);
    ck_assert_str_eq(result.code.data, text);
    ck_assert_int_eq(pl_assembler_find_isolated(&a, &driver, &call), PL_OK);
    ck_assert_str_eq(a.id, "ptx");
}
END_TEST

START_TEST(no_ptxas)
{
    struct pl_assembler a;
    ck_assert_int_eq(pl_assembler_find_isolated(&a, &driver, &call), PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7002);
}
END_TEST

START_TEST(ptxas_of_a_newer_cuda)
{
    struct pl_assembler a;
    write_fake("exit 0");
    driver.version = 12080;
    ck_assert_int_eq(pl_assembler_find_isolated(&a, &driver, &call), PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7002);
    ck_assert_ptr_nonnull(strstr(err.text, "newer"));
}
END_TEST

/* Case 4: what a failing tool may do. */
static const struct {
    int code;
    const char *script, *says;
} bad_tools[] = {
    {7001, "echo 'it broke' >&2; exit 1", "it broke"},
    {7001, ": >$out; exit 1", "no log"},
    {7004, ": >$out; exit 0", ""},
    {7004, "exit 0", ""},
    {7004, "echo text >$out; exit 0", ""}, /* not a binary */
    {7001, "kill -9 $$", ""},
};

START_TEST(failing_tools)
{
    struct pl_assembler a;
    write_fake(bad_tools[_i].script);
    ck_assert_int_eq(pl_assembler_find_isolated(&a, &driver, &call), PL_OK);
    ck_assert_str_eq(a.id, "ptxas 13.0");
    ck_assert_int_eq(assemble_text(&a, text), PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, bad_tools[_i].code);
    ck_assert_ptr_nonnull(strstr(err.text, bad_tools[_i].says));
}
END_TEST

START_TEST(notes_that_mean_slow_code)
{
    struct pl_assembler a;
    write_fake("printf '\\177ELF' >$out; echo 'ptxas info : 0 bytes stack frame, 0 bytes spill "
               "stores, 0 bytes spill loads'\n"
               "echo 'ptxas info : (C7510) wgmma.mma_async instructions are serialized'; echo "
               "'ptxas info : Used 8 registers'");
    ck_assert_int_eq(pl_assembler_find_isolated(&a, &driver, &call), PL_OK);
    ck_assert_int_eq(assemble_text(&a, text), PL_OK);
    ck_assert_uint_eq(result.code.n_bytes, 4);
    ck_assert_str_eq(result.notes,
                     "ptxas info : (C7510) wgmma.mma_async instructions are serialized");
    write_fake("printf '\\177ELF' >$out; echo '24 bytes stack frame, 20 bytes spill stores, 20 "
               "bytes spill loads'");
    ck_assert_int_eq(assemble_text(&a, text), PL_OK);
    ck_assert_ptr_nonnull(strstr(result.notes, "20 bytes spill"));
}
END_TEST

/* A program that ignores SIGCHLD is not told how its children end: then the binary speaks. */
START_TEST(ends_that_are_not_told)
{
    struct pl_assembler a;
    signal(SIGCHLD, SIG_IGN);
    write_fake("printf '\\177ELF' >$out");
    ck_assert_int_eq(pl_assembler_find_isolated(&a, &driver, &call), PL_OK);
    ck_assert_int_eq(assemble_text(&a, text), PL_OK);
    ck_assert_uint_eq(result.code.n_bytes, 4);
    write_fake("exit 1");
    ck_assert_int_eq(assemble_text(&a, text), PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7002);
    ck_assert(!pl_assembler_has_refused(&err));
    signal(SIGCHLD, SIG_DFL);
}
END_TEST

/* Cleaning up (no file was written, so there is none to remove) does not change the reason that is told. */
START_TEST(tool_that_does_not_start)
{
    struct pl_assembler a;
    char path[128];
    write_fake("exit 0");
    ck_assert_int_eq(pl_assembler_find_isolated(&a, &driver, &call), PL_OK);
    snprintf(path, sizeof path, "%s/bin/ptxas", folder);
    ck_assert_int_eq(chmod(path, 0600), 0);
    ck_assert_int_eq(assemble_text(&a, text), PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7002);
    ck_assert_msg(strstr(err.text, strerrordesc_np(EACCES)) != NULL, "%s", err.text);
}
END_TEST

/* The real tools, where the toolkit is: a refusal carries the log, a success is an ELF file. */
START_TEST(real_ptxas)
{
    struct pl_assembler a;
    const char *home = getenv("PL_CUDA_HOME");
    if (home == NULL || home[0] == '\0')
        return;
    setenv("CUDA_HOME", home, 1);
    driver.version = 99000;
    if (pl_assembler_find_isolated(&a, &driver, &call) != PL_OK)
        return;
    ck_assert_int_eq(assemble_text(&a, text), PL_OK);
    ck_assert_mem_eq(result.code.data, "\177ELF", 4);
    ck_assert_int_eq(assemble_text(&a, ".version 8.0\n.target sm_90a\n.entry k() { fmaa; }\n"),
                     PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7001);
    ck_assert_ptr_nonnull(strstr(err.text, "fmaa"));
}
END_TEST

/* 40 loads that are all alive at once, and 16 registers for them. */
static const char *spilling_text(void)
{
    struct pl_buf b;
    pl_buf_init(&b, &arena, 4096);
    pl_buf_puts(&b, ".version 8.0\n.target sm_90a\n.address_size 64\n"
                    ".visible .entry k(.param .u64 p) .maxnreg 16 {\n.reg .u64 %a;\n.reg .f32 "
                    "%f<40>;\nld.param.u64 %a, [p];\n");
    for (int i = 0; i < 40; i++)
        pl_buf_printf(&b, "ld.volatile.global.f32 %%f%d, [%%a+%d];\n", i, 4 * i);
    for (int i = 39; i >= 0; i--)
        pl_buf_printf(&b, "st.volatile.global.f32 [%%a+%d], %%f%d;\n", 4 * i, i);
    pl_buf_puts(&b, "ret;\n}\n");
    return b.text;
}

START_TEST(real_nvjitlink)
{
    struct pl_assembler a;
    driver.version = 13000;
    pl_assembler_choose(&a, &driver);
    if (strncmp(a.id, "nvjitlink", 9) != 0)
        return; /* not here: then the driver's linker or its loader serves */
    ck_assert_int_eq(assemble_text(&a, text), PL_OK);
    ck_assert_mem_eq(result.code.data, "\177ELF", 4);
    ck_assert_str_eq(result.notes, "");
    ck_assert_int_eq(assemble_text(&a, spilling_text()), PL_OK);
    ck_assert_msg(strstr(result.notes, "bytes spill stores") != NULL, "%s", result.notes);
    ck_assert_int_eq(assemble_text(&a, ".version 8.0\n.target sm_90a\n.entry k() { fmaa; }\n"),
                     PL_E_ASSEMBLER);
    ck_assert_int_eq(err.code, 7001);
    ck_assert_ptr_nonnull(strstr(err.text, "nvjitlink"));
}
END_TEST

/* ---- quick arguments against the rules ---- */

static pl_param_decl random_decl(struct random_source *r)
{
    static const pl_param_role roles[] = {PL_ROLE_IN, PL_ROLE_OUT, PL_ROLE_INOUT, PL_ROLE_SCALAR};
    pl_param_decl p = {.name = "p", .role = roles[random_below(r, 4)], .dtypes = PL_DT_ANY};
    p.max_rank = p.role == PL_ROLE_SCALAR ? 0 : (int32_t)random_below(r, 4);
    p.min_rank = p.max_rank - (p.max_rank > 0 ? (int32_t)random_below(r, 2) : 0);
    if (random_below(r, 4) == 0)
        p.dtypes = PL_DT(F32) | PL_DT(I64);
    p.is_optional = random_below(r, 4) == 0;
    p.specialised = (pl_fact_set)random_below(r, 64);
    p.required = random_below(r, 3) == 0 ? (pl_fact_set)random_below(r, 64) : 0;
    return p;
}

/* Mostly sensible, often on the edge. */
static pl_arg random_arg(struct random_source *r, const pl_param_decl *p)
{
    static const int64_t extents[] = {
        0, 1, 2, 3, 8, 16, 100, 46341, 1 << 30, INT32_MAX, (int64_t)1 << 31, -1};
    static const int64_t strides[] = {
        0, 1, 2, 4, 8, 16, 100, -1, 1 << 20, INT32_MAX, (int64_t)1 << 31, INT64_MAX};
    if (random_below(r, 8) == 0)
        return pl_arg_none();
    if (random_below(r, 8) == 0 || p->role == PL_ROLE_SCALAR)
        return random_below(r, 2) ? pl_arg_f32(1) : pl_arg_i64(1);
    pl_tensor t = {.address = 0x10000 + 64 * random_below(r, 64), .dtype = PL_F32};
    if (random_below(r, 4) == 0)
        t.dtype = (pl_dtype)random_below(r, PL_DTYPE_COUNT + 1);
    if (random_below(r, 4) == 0)
        t.address = random_below(r, 3) * 2;
    t.rank = p->max_rank - (random_below(r, 8) == 0);
    int64_t dense = 1;
    for (int i = t.rank - 1; i >= 0; i--) {
        t.shape[i] = extents[random_below(r, random_below(r, 2) ? 12 : 6)];
        t.strides[i] = random_below(r, 3) ? dense : strides[random_below(r, 12)];
        dense *= t.shape[i] > 1 && t.shape[i] < 1000 ? t.shape[i] : 1;
    }
    return pl_arg_tensor(t);
}

START_TEST(quick_yes_is_a_yes)
{
    struct random_source r = random_start("quick_yes_is_a_yes");
    unsigned n_yes = 0, n_rules_yes = 0;
    for (int round = 0; round < 300000; round++) {
        pl_param_decl decls[3];
        pl_arg args[3];
        pl_fact_set facts = 0;
        pl_kernel k = {.struct_size = sizeof k,
                       .name = "k",
                       .params = decls,
                       .n_params = 1 + random_below(&r, 3)};
        k.may_alias = random_below(&r, 2) != 0;
        for (size_t i = 0; i < k.n_params; i++) {
            decls[i] = random_decl(&r);
            args[i] = random_arg(&r, &decls[i]);
        }
        const struct pl_args_request q = {.kernel = &k, .args = args, .n_args = k.n_params};
        bool is_fine = pl_check_args(&q, NULL);
        n_rules_yes += is_fine;
        if (!pl_quick_args(&k, args, k.n_params, &facts))
            continue;
        n_yes++;
        ck_assert_msg(is_fine, "round %d", round);
        ck_assert_uint_eq(facts, pl_facts_of(&k, args));
    }
    ck_assert_uint_gt(n_yes, 1000);
    ck_assert_uint_gt(n_rules_yes, n_yes);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("runtime_assemble");
    TCase *t = tcase_create("maps");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, fine_map);
    tcase_add_test(t, mended_maps);
    tcase_add_loop_test(t, broken_maps, 0, (int)(sizeof map_faults / sizeof *map_faults));
    tcase_add_test(t, stride_of_extent_one);
    tcase_add_test(t, keys_differ);
    suite_add_tcase(s, t);
    t = tcase_create("assemblers");
    tcase_add_checked_fixture(t, setup_assembler, teardown_assembler);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, identity);
    tcase_add_test(t, no_ptxas);
    tcase_add_test(t, ptxas_of_a_newer_cuda);
    tcase_add_loop_test(t, failing_tools, 0, (int)(sizeof bad_tools / sizeof *bad_tools));
    tcase_add_test(t, notes_that_mean_slow_code);
    tcase_add_test(t, ends_that_are_not_told);
    tcase_add_test(t, tool_that_does_not_start);
    tcase_add_test(t, real_ptxas);
    tcase_add_test(t, real_nvjitlink);
    suite_add_tcase(s, t);
    t = tcase_create("arguments");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, quick_yes_is_a_yes);
    suite_add_tcase(s, t);
    return s;
}
