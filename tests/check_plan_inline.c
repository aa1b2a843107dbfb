/* pl_inline_ptx: the user's own instructions, element by element, with effects or none, and what is said of texts that cannot be read. */
#include "tests/plan_data.h"

static const int chips[] = {80, 90, 100, 120};
enum { N_CHIPS = 4 };

/* ---- inline PTX ---- */

struct inline_params {
    int32_t which, n, vec, y_vec; /* y_vec: of y, where it lies otherwise than x */
};

static pl_ref first_n(pl_builder *b, pl_ref r, int32_t n)
{
    return pl_window(b, r, PL_OFF(b, 0), PL_SHAPE(n));
}

static void inlined_body(pl_builder *b, const void *params)
{
    const struct inline_params *p = params;
    const pl_dtype t = pl_dtype_of(b, pl_param(b, 0));
    const int32_t y_vec = p->y_vec > 0 ? p->y_vec : p->vec;
    const pl_load_opt o = {.layout = p->vec > 0 ? pl_layout_strided(p->vec) : pl_layout_auto()},
                      yo = {.layout = y_vec > 0 ? pl_layout_strided(y_vec) : pl_layout_auto()};
    pl_val x = pl_load_ex(b, first_n(b, pl_param(b, 0), p->n), &o),
           y = pl_load_ex(b, first_n(b, pl_param(b, 1), p->n), &yo), outs[4];
    pl_ptx_desc d = {.n_outs = 1, .out_dtypes = {t}, .n_ins = 2, .ins = {x, y}, .effects = 1};
    switch (p->which) {
    case 0: d.text = "sub.s32 $0, $2, $1;"; break;
    case 1: d.text = "{ .reg .f32 %t; mul.f32 %t, $1, $2; add.f32 $0, %t, $2; }"; break;
    case 2: d.text = "sub.f16 $0, $1, $2;"; break;
    case 3: /* a label in each instance; the sum in 8 bits wraps */
        d.text = "add.s32 $0, $1, $2;\n.reg .pred %q;\nsetp.lt.s32 %q, $0, 100;\n@%q bra $$end;\n"
                 "sub.s32 $0, $0, 50;\n$$end:";
        break;
    case 4: /* two outputs, one a predicate */
        d.text = "setp.gt.f32 $1, $2, $3; min.f32 $0, $2, $3;";
        d.n_outs = 2;
        d.out_dtypes[1] = PL_PRED;
        break;
    default: /* a constant and a rank-0 input */
        d.text = "fma.rn.f64 $0, $1, $2, $3;";
        d.n_ins = 3;
        d.ins[1] = pl_lit_f(b, 3.0);
        d.ins[2] = pl_load(b, pl_at(b, pl_param(b, 1), 1));
        d.ins[1] = pl_cast(b, pl_lit_f(b, 3.0), t);
        break;
    }
    pl_inline_ptx(b, &d, outs);
    pl_val v = p->which == 4 ? pl_select(b, outs[1], outs[0], pl_neg(b, outs[0])) : outs[0];
    pl_store(b, first_n(b, pl_param(b, 2), p->n), v);
}
TENSORS(inlined, 2, 1);

static const struct {
    pl_dtype t;
    struct inline_params p;
} inline_cases[] = {
    {PL_I32, {0, 128, 0, 0}}, {PL_I32, {0, 1000, 0, 0}}, {PL_F32, {1, 300, 0, 0}},
    {PL_F32, {1, 512, 4, 0}}, {PL_F16, {2, 77, 0, 0}},   {PL_F16, {2, 512, 4, 0}},
    {PL_I8, {3, 260, 0, 0}},  {PL_I8, {3, 512, 4, 0}},   {PL_F32, {4, 200, 0, 0}},
    {PL_F64, {5, 130, 0, 0}}, {PL_I32, {0, 1024, 4, 2}}, {PL_F16, {2, 512, 1, 4}},
};
enum { N_INLINE = sizeof inline_cases / sizeof inline_cases[0] };

static double inline_wanted(int which, double x, double y, double second)
{
    switch (which) {
    case 0: return y - x;
    case 1: return x * y + y;
    case 2: return x - y;
    case 3: return x + y < 100 ? x + y : x + y - 50;
    case 4: return x > y ? y : -(x < y ? x : y);
    default: return x * 3 + second;
    }
}

START_TEST(inline_ptx_is_applied_to_each_element)
{
    random_turn(&rnd, _i);
    const struct inline_params *p = &inline_cases[_i].p;
    const pl_dtype t = inline_cases[_i].t;
    const int arch = chips[_i % N_CHIPS];
    driver_use(arch, "eager");
    pl_tensor x = tensor_new(t, PL_SHAPE(p->n), 0, 0), y = tensor_new(t, PL_SHAPE(p->n), 0, 0),
              z = tensor_new(t, PL_SHAPE(p->n), 0, 0);
    void *a = fill_random(&x), *b = fill_random(&y);
    if (p->which == 3) /* some sums above 100 */
        for (int64_t i = 0; i < p->n; i++)
            set_elem(a, t, i, get_elem(a, t, i) * 15);
    ck_assert_int_eq(emu.HtoD(x.address, a, tensor_span(&x)), 0);
    fill_bytes(&z, 0xff);
    run_ok(&(struct ask){.kernel = &inlined,
                         .params = p,
                         .params_bytes = sizeof *p,
                         .arch = arch,
                         .args = {pl_arg_tensor(x), pl_arg_tensor(y), pl_arg_tensor(z)},
                         .grid = {1, 1, 1},
                         .facts = all_facts});
    void *got = fetch(&z);
    for (int64_t i = 0; i < p->n; i++) {
        const double want =
            inline_wanted(p->which, get_elem(a, t, i), get_elem(b, t, i), get_elem(b, t, 1));
        ck_assert_msg(get_elem(got, t, i) == want, "%lld: got %g, wanted %g", (long long)i,
                      get_elem(got, t, i), want);
    }
    free(got);
    free(a);
    free(b);
    free_tensor(&x);
    free_tensor(&y);
    free_tensor(&z);
}
END_TEST

/* With effects: once for each element of the array and for none beyond it. */
static void effect_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_val v = pl_load(b, first_n(b, pl_param(b, 0), 333));
    pl_inline_ptx(b,
                  (&(pl_ptx_desc){.text = "red.global.add.u32 [$0], $1;",
                                  .n_ins = 2,
                                  .ins = {pl_scalar(b, 1), v},
                                  .effects = PL_EFFECT_WRITE_MEMORY | PL_EFFECT_READ_MEMORY}),
                  NULL);
}

static const pl_param_decl effect_params[] = {
    {.name = "x", .role = PL_ROLE_IN, .min_rank = 1, .max_rank = 1, .dtypes = PL_DT(U32)},
    {.name = "address", .role = PL_ROLE_SCALAR, .dtypes = PL_DT(I64)}};
static const pl_kernel effect = {.struct_size = sizeof(pl_kernel),
                                 .name = "effect",
                                 .params = effect_params,
                                 .n_params = 2,
                                 .n_configs = 1,
                                 .body = effect_body};

START_TEST(effects_happen_once_for_each_element)
{
    random_turn(&rnd, _i);
    driver_use(chips[_i], "eager");
    pl_tensor x = tensor_new(PL_U32, PL_SHAPE(333), 0, 0),
              sum = tensor_new(PL_U32, PL_SHAPE(1), 0, 0);
    void *a = fill_random(&x);
    double want = 0;
    for (int64_t i = 0; i < 333; i++)
        want += get_elem(a, PL_U32, i) + 1;
    for (int64_t i = 0; i < 333; i++)
        set_elem(a, PL_U32, i, get_elem(a, PL_U32, i) + 1);
    ck_assert_int_eq(emu.HtoD(x.address, a, tensor_span(&x)), 0);
    fill_bytes(&sum, 0);
    run_ok(&(struct ask){.kernel = &effect,
                         .arch = chips[_i],
                         .args = {pl_arg_tensor(x), pl_arg_i64((int64_t)sum.address)},
                         .grid = {1, 1, 1},
                         .facts = all_facts});
    void *got = fetch(&sum);
    ck_assert(get_elem(got, PL_U32, 0) == want);
    free(got);
    free(a);
    free_tensor(&x);
    free_tensor(&sum);
}
END_TEST

static const char *refused_text;
static void refused_body(pl_builder *b, const void *params)
{
    (void)params;
    pl_val v = pl_load(b, first_n(b, pl_param(b, 0), 128)), out;
    pl_inline_ptx(b,
                  (&(pl_ptx_desc){.text = refused_text,
                                  .n_outs = 1,
                                  .out_dtypes = {PL_F32},
                                  .n_ins = 1,
                                  .ins = {v},
                                  .effects = PL_EFFECT_NONE}),
                  &out);
    pl_store(b, first_n(b, pl_param(b, 1), 128), out);
}
TENSORS(refused, 1, 1);

static struct build *build_text(const char *text, int arch)
{
    const pl_arg x = pl_arg_tensor(pl_tensor_make(4096, PL_F32, PL_SHAPE(128)));
    const struct ask a = {.kernel = &refused, .arch = arch, .args = {x, x}, .facts = all_facts};
    refused_text = text;
    return build_new(&a, 0);
}

START_TEST(inline_ptx_is_read_before_it_is_taken)
{
    static const struct {
        const char *text, *says;
        unsigned line;
    } bad[] = {
        {"add.f32 $0, $1", "", 1}, /* no ; */
        {"add.f32 $0, $1, $1;\nfrob.f32 $0, $1;", "frob", 2},
        {"add.f32 $0, $1, $2;", "", 1},            /* no such operand */
        {"\n\nadd.f64 $0, $1, $1;", "add.f64", 3}, /* a register of another width */
        {"} mov.f32 $0, $1; {", "", 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct build *b = build_text(bad[i].text, 90);
        char line[32];
        snprintf(line, sizeof line, ": line %u of it: ", bad[i].line);
        ck_assert_msg(b->status == PL_E_INVALID, "%s: %d", bad[i].text, (int)b->status);
        ck_assert_uint_eq(b->diags.list.n, 1);
        ck_assert_int_eq(b->diags.list.data[0].info->code, 7103);
        ck_assert_msg(strstr(b->diags.list.data[0].text, line) != NULL, "%s",
                      b->diags.list.data[0].text);
        ck_assert_msg(strstr(b->diags.list.data[0].text, bad[i].says) != NULL, "%s",
                      b->diags.list.data[0].text);
        ck_assert_int_gt(b->diags.list.data[0].where.line, 0);
        ck_assert_ptr_null(b->out.text);
        build_free(b);
    }
    /* What the text needs is in the header; what the chip has not is refused. */
    struct build *b = build_text("tanh.approx.f32 $0, $1;", 90);
    ck_assert_int_eq(b->status, PL_OK);
    ck_assert_int_eq(strncmp(b->out.text, ".version 7.8\n.target sm_90\n", 27), 0);
    build_free(b);
    b = build_text(".reg .b64 %a; mov.b64 %a, {$1, $1}; add.rn.f32x2 %a, %a, %a; "
                   "mov.b64 {$0, _}, %a;",
                   100);
    ck_assert_int_eq(b->status, PL_OK);
    ck_assert_int_eq(strncmp(b->out.text, ".version 8.6\n.target sm_100\n", 28), 0);
    build_free(b);
    b = build_text(".reg .b64 %a; mov.b64 %a, {$1, $1}; add.rn.f32x2 %a, %a, %a; "
                   "mov.b64 {$0, _}, %a;",
                   90);
    ck_assert_int_eq(b->status, PL_E_INVALID);
    ck_assert_int_eq(b->diags.list.data[0].info->code, 7103);
    build_free(b);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("plan_inline");
    TCase *t = tcase_create("inline");
    tcase_set_timeout(t, 120);
    rnd = random_start("plan_inline");
    tcase_add_loop_test(t, inline_ptx_is_applied_to_each_element, 0, N_INLINE);
    tcase_add_loop_test(t, effects_happen_once_for_each_element, 0, N_CHIPS);
    tcase_add_test(t, inline_ptx_is_read_before_it_is_taken);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
