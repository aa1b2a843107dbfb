/*
 * The emulated driver: links of several PTX modules. Each module adds something of its own to a word, so that the word tells
 * which bodies ran.
 */
#include "tests/emu_driver.h"

#define HEAD(sm) ".version 8.0\n.target " sm "\n.address_size 64\n"

/* Adds what `shift` of the other module makes of v, its own `step` and the variable `base` of the other one. */
static const char main_ptx[] = HEAD("sm_80") ".extern .func (.param .b32 r) shift(.param .b32 a);\n"
                                             ".extern .global .align 4 .u32 base;\n"
                                             ".extern .shared .align 16 .b8 dynamic[];\n"
                                             ".global .align 4 .u32 step = 100;\n"
                                             ".visible .global .align 8 .u64 where = base;\n"
                                             ".func (.param .b32 r) own(.param .b32 a)\n"
                                             "{\n"
                                             "    .reg .b32 %r<4>;\n"
                                             "    ld.param.b32 %r1, [a];\n"
                                             "    add.u32 %r1, %r1, 7;\n"
                                             "    st.param.b32 [r], %r1;\n"
                                             "    ret;\n"
                                             "}\n"
                                             ".visible .entry sum(.param .u64 p, .param .u32 v)\n"
                                             "{\n"
                                             "    .reg .u64 %rd<4>;\n"
                                             "    .reg .u32 %r<9>;\n"
                                             "    .reg .pred %p<2>;\n"
                                             "    .param .b32 in;\n"
                                             "    .param .b32 out;\n"
                                             "    ld.param.u64 %rd1, [p];\n"
                                             "    ld.param.u32 %r1, [v];\n"
                                             "    st.param.b32 [in], %r1;\n"
                                             "    call.uni (out), shift, (in);\n"
                                             "    ld.param.b32 %r2, [out];\n"
                                             "    st.param.b32 [in], %r2;\n"
                                             "    call.uni (out), own, (in);\n"
                                             "    ld.param.b32 %r2, [out];\n"
                                             "    ld.global.u64 %rd2, [where];\n"
                                             "    ld.global.u32 %r3, [%rd2];\n"
                                             "    ld.global.u32 %r4, [step];\n"
                                             "    add.u32 %r2, %r2, %r3;\n"
                                             "    setp.ne.u32 %p1, %r4, 100;\n"
                                             "    @%p1 bra done;\n"
                                             "    add.u32 %r2, %r2, %r4;\n"
                                             "done:\n"
                                             "    st.global.u32 [%rd1], %r2;\n"
                                             "    ret;\n"
                                             "}\n";

/* Its `step`, `own` and label `done` are its own; `base` points on to a variable that follows it. */
static const char other_ptx[] =
    HEAD("sm_80") ".global .align 4 .u32 step = 2000;\n"
                  ".visible .global .align 4 .u32 base = 30000;\n"
                  ".func (.param .b32 r) own(.param .b32 a)\n"
                  "{\n"
                  "    .reg .b32 %r<4>;\n"
                  "    ld.param.b32 %r1, [a];\n"
                  "    ld.global.u32 %r2, [step];\n"
                  "    .reg .pred %p;\n"
                  "    setp.eq.u32 %p, %r1, 0;\n"
                  "    @%p bra done;\n"
                  "    add.u32 %r1, %r1, %r2;\n"
                  "done:\n"
                  "    st.param.b32 [r], %r1;\n"
                  "    ret;\n"
                  "}\n"
                  ".visible .func (.param .b32 r) shift(.param .b32 a)\n"
                  "{\n"
                  "    .reg .b32 %r<4>;\n"
                  "    .param .b32 x;\n"
                  "    .param .b32 y;\n"
                  "    ld.param.b32 %r1, [a];\n"
                  "    st.param.b32 [x], %r1;\n"
                  "    call.uni (y), own, (x);\n"
                  "    ld.param.b32 %r1, [y];\n"
                  "    shl.b32 %r1, %r1, 1;\n"
                  "    st.param.b32 [r], %r1;\n"
                  "    ret;\n"
                  "}\n";

static char log_text[2000];

static CUlinkState begin_link(void)
{
    static void *values[2];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    CUlinkState link;
    begin();
    values[0] = log_text;
    values[1] = (void *)(uintptr_t)sizeof log_text;
    ok(cu.cuLinkCreate_v2(2, options, values, &link));
    return link;
}

static CUresult add(CUlinkState link, const char *text)
{
    return cu.cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)(uintptr_t)text, strlen(text) + 1,
                               "part", 0, NULL, NULL);
}

static CUmodule complete(CUlinkState link)
{
    CUmodule m;
    void *out;
    size_t n_bytes;
    ok(cu.cuLinkComplete(link, &out, &n_bytes));
    ck_assert_uint_eq(n_bytes, strlen(out) + 1);
    ok(cu.cuModuleLoadData(&m, out));
    ok(cu.cuLinkDestroy(link));
    return m;
}

static uint32_t run(CUmodule m, const char *entry, uint32_t v)
{
    CUfunction f;
    CUdeviceptr p;
    ok(cu.cuModuleGetFunction(&f, m, entry));
    ok(cu.cuMemAlloc_v2(&p, 4));
    ok(launch_store(f, NULL, p, v));
    ok(cu.cuCtxSynchronize());
    return read_word(p);
}

/* In either order: (5 + 2000) * 2 + 7 + 30000 + 100. */
START_TEST(two_modules_become_one)
{
    CUlinkState link = begin_link();
    ok(add(link, _i == 0 ? main_ptx : other_ptx));
    ok(add(link, _i == 0 ? other_ptx : main_ptx));
    CUmodule m = complete(link);
    ck_assert_uint_eq(run(m, "sum", 5), 2005 * 2 + 7 + 30000 + 100);
    ck_assert_uint_eq(run(m, "sum", 0), 7 + 30000 + 100);
}
END_TEST

/* A function `give` that returns its number by way of a variable of its own. */
#define GIVER(linkage, number)                                                                     \
    HEAD("sm_80")                                                                                  \
    linkage ".func (.param .b32 r) give()\n"                                                       \
            "{\n"                                                                                  \
            "    .reg .b32 %r<2>;\n"                                                               \
            "    .local .align 4 .b32 spot;\n"                                                     \
            "    mov.b32 %r1, " #number ";\n"                                                      \
            "    st.local.b32 [spot], %r1;\n"                                                      \
            "    ld.local.b32 %r1, [spot];\n"                                                      \
            "    st.param.b32 [r], %r1;\n"                                                         \
            "    ret;\n"                                                                           \
            "}\n"

static const char user_ptx[] = HEAD("sm_75") ".extern .func (.param .b32 r) give();\n"
                                             ".visible .entry use(.param .u64 p, .param .u32 v)\n"
                                             "{\n"
                                             "    .reg .u64 %rd<2>;\n"
                                             "    .reg .u32 %r<2>;\n"
                                             "    .param .b32 out;\n"
                                             "    ld.param.u64 %rd1, [p];\n"
                                             "    call.uni (out), give, ();\n"
                                             "    ld.param.b32 %r1, [out];\n"
                                             "    st.global.u32 [%rd1], %r1;\n"
                                             "    ret;\n"
                                             "}\n";

START_TEST(a_strong_definition_beats_a_weak_one)
{
    static const struct {
        const char *first, *second;
        uint32_t want;
    } rows[] = {{GIVER(".weak ", 11), GIVER(".visible ", 22), 22},
                {GIVER(".visible ", 22), GIVER(".weak ", 11), 22},
                {GIVER(".weak ", 11), GIVER(".weak ", 33), 11},
                {GIVER("", 44), GIVER(".visible ", 22), 22},
                {GIVER(".visible ", 22), GIVER("", 44), 22}};
    CUlinkState link = begin_link();
    ok(add(link, rows[_i].first));
    ok(add(link, rows[_i].second));
    ok(add(link, user_ptx));
    ck_assert_uint_eq(run(complete(link), "use", 0), rows[_i].want);
}
END_TEST

/* `head` is declared in the first module and defined in the second by the address of what only follows there. */
START_TEST(pointers_may_point_forward)
{
    static const char first[] =
        HEAD("sm_80") ".extern .global .align 8 .u64 head;\n"
                      ".visible .entry chase(.param .u64 p, .param .u32 v)\n"
                      "{\n"
                      "    .reg .u64 %rd<3>;\n"
                      "    .reg .u32 %r<2>;\n"
                      "    ld.param.u64 %rd1, [p];\n"
                      "    ld.global.u64 %rd2, [head];\n"
                      "    ld.global.u32 %r1, [%rd2];\n"
                      "    st.global.u32 [%rd1], %r1;\n"
                      "    ret;\n"
                      "}\n";
    static const char second[] = HEAD("sm_80") ".global .align 4 .u32 words[3] = {5, 6, 7};\n"
                                               ".visible .global .align 8 .u64 head = words + 8;\n";
    CUlinkState link = begin_link();
    ok(add(link, first));
    ok(add(link, second));
    ck_assert_uint_eq(run(complete(link), "chase", 0), 7);
}
END_TEST

START_TEST(common_variables_take_the_largest)
{
    CUdeviceptr p;
    size_t n_bytes;
    CUlinkState link = begin_link();
    ok(add(link, HEAD("sm_80") ".common .global .align 4 .b32 pad[2];\n"));
    ok(add(link, HEAD("sm_80") ".common .global .align 4 .b32 pad[5];\n"));
    ok(add(link, HEAD("sm_80") ".common .global .align 4 .b32 pad[3];\n"));
    ok(cu.cuModuleGetGlobal_v2(&p, &n_bytes, complete(link), "pad"));
    ck_assert_uint_eq(n_bytes, 20);
}
END_TEST

START_TEST(contradictions_are_named)
{
    static const struct {
        const char *first, *second, *code, *word;
    } rows[] = {
        {GIVER(".visible ", 1), GIVER(".visible ", 2), "PL8415", "give"},
        {HEAD("sm_80") ".visible .global .u32 g = 1;\n", HEAD("sm_80") ".visible .global .u32 g;\n",
         "PL8415", "g is defined"},
        {HEAD("sm_80") ".visible .global .u32 g = 1;\n", HEAD("sm_80") ".extern .global .u64 g;\n",
         "PL8416", "size"},
        {HEAD("sm_80") ".visible .global .u32 g = 1;\n", HEAD("sm_80") ".extern .const .u32 g;\n",
         "PL8416", "state space"},
        {GIVER(".visible ", 1), HEAD("sm_80") ".extern .func give(.param .b32 a);\n", "PL8416",
         "number of parameters"},
        {GIVER(".visible ", 1), HEAD("sm_80") ".extern .global .u32 give;\n", "PL8416", "kind"},
        {HEAD("sm_80") ".visible .global .u32 give;\n", GIVER(".visible ", 1), "PL8416", "kind"}};
    void *out;
    size_t n_bytes;
    CUlinkState link = begin_link();
    ok(add(link, rows[_i].first));
    gives(add(link, rows[_i].second), INVALID_SOURCE);
    ck_assert_msg(strstr(log_text, rows[_i].code) != NULL && strstr(log_text, rows[_i].word), "%s",
                  log_text);
    gives(cu.cuLinkComplete(link, &out, &n_bytes), INVALID_SOURCE);
    ok(cu.cuLinkDestroy(link));
}
END_TEST

START_TEST(what_nothing_defines_is_named)
{
    static const char *const wanting[] = {user_ptx, HEAD("sm_80") ".extern .global .u32 give;\n",
                                          HEAD("sm_80") ".extern .shared .u32 give;\n"};
    static const char *const giving[] = {GIVER(".visible ", 8),
                                         HEAD("sm_80") ".visible .global .u32 give = 8;\n",
                                         HEAD("sm_80") ".visible .shared .u32 give;\n"};
    void *out;
    size_t n_bytes;
    CUlinkState link = begin_link();
    ok(add(link, wanting[_i]));
    ok(add(link, GIVER("", 9))); /* of file scope: of no use to others */
    gives(cu.cuLinkComplete(link, &out, &n_bytes), NO_BINARY_FOR_GPU);
    ck_assert_msg(strstr(log_text, "PL8417") != NULL && strstr(log_text, "give"), "%s", log_text);
    ok(add(link, giving[_i]));
    complete(link);
}
END_TEST

START_TEST(text_that_does_not_parse_is_refused_by_line)
{
    CUlinkState link = begin_link();
    ok(add(link, user_ptx));
    gives(add(link, HEAD("sm_80") ".visible .entry k()\n{\n    nonsense;\n}\n"), INVALID_PTX);
    ck_assert_msg(strstr(log_text, "line 6") != NULL, "%s", log_text);
    ok(cu.cuLinkDestroy(link));
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_link");
    TCase *t = tcase_create("link");
    tcase_add_checked_fixture(t, driver_open, NULL);
    tcase_add_loop_test(t, two_modules_become_one, 0, 2);
    tcase_add_loop_test(t, a_strong_definition_beats_a_weak_one, 0, 5);
    tcase_add_test(t, pointers_may_point_forward);
    tcase_add_test(t, common_variables_take_the_largest);
    tcase_add_loop_test(t, contradictions_are_named, 0, 7);
    tcase_add_loop_test(t, what_nothing_defines_is_named, 0, 3);
    tcase_add_test(t, text_that_does_not_parse_is_refused_by_line);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
