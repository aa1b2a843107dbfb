/*
 * The scalar lane kernels against tests/ptx/vectors*.tsv and against each other.
 */
#include "base/debug.h"
#include "emu/ops/kernels.h"
#include "tests/ops_rows.h"
#include "tests/random.h"

#include <check.h>
#include <string.h>

static struct random_source rnd;

/* ---- disagreements: rows on which two oracles differ, with every answer ---- */

static bool is_listed_answer(const struct ops_row *row, uint64_t got)
{
    char line[OPS_LINE_BYTES], operands[OPS_LINE_BYTES];
    snprintf(operands, sizeof operands, "%.*s", (int)(strstr(row->text, " -> ") - row->text),
             row->text);
    FILE *f = ops_open_data("disagreements.tsv");
    bool is_listed = false;
    while (!is_listed && fgets(line, sizeof line, f) != NULL) {
        char *rest = line, *form = ops_field(&rest), *ops = ops_field(&rest),
             *results = ops_field(&rest);
        if (strcmp(form, row->form) != 0 || strcmp(ops, operands) != 0)
            continue;
        for (char *t = strtok(results, "; "); t != NULL; t = strtok(NULL, "; "))
            is_listed |= strtoull(t, NULL, 16) == got;
    }
    fclose(f);
    return is_listed;
}

/* Every register gets patterns that matter to integers and floats of its width. */
static void fill_frame(struct ops_frame *f)
{
    for (unsigned i = 0; i < OPS_MAX_REGS; i++) {
        for (unsigned lane = 0; lane < 32; lane++) {
            bool is_float = random_below(&rnd, 2);
            f->d[i][lane] = is_float ? random_float(&rnd, 11, 52) : random_int(&rnd, 64);
            f->r[i][lane] = (uint32_t)(is_float ? random_float(&rnd, 8, 23) : random_int(&rnd, 32));
            f->h[i][lane] = (uint16_t)(is_float ? random_float(&rnd, 5, 10) : random_int(&rnd, 16));
        }
        for (unsigned k = 0; k < 16; k++)
            f->p[i][k] = (uint32_t)random_u64(&rnd);
    }
    f->cc = (uint32_t)random_u64(&rnd);
}

static bool is_as_expected(const struct ops_row *row, uint64_t got)
{
    if (got == row->result)
        return true;
    bool is_approx =
        strstr(row->note, "approximate") != NULL || strstr(row->note, "tolerance") != NULL;
    if (is_approx && ops_is_within_bound(row->form, got, row->result))
        return true;
    bool is_nan_note = strstr(row->note, "only NaN-ness") != NULL ||
                       strstr(row->note, "do not require these bits") != NULL;
    if (is_nan_note && ops_is_nan(got, row->result_digits) &&
        ops_is_nan(row->result, row->result_digits))
        return true;
    if (strstr(row->note, "canonical 7fffffff expected") != NULL)
        return got == 0x7fffffff;
    return is_listed_answer(row, got);
}

/* ---- rows through kernels ---- */

struct compiled {
    char body[256];
    struct ops_code *code;
};
static struct compiled cache[4096];
static unsigned n_cached;
static uint8_t forms_seen[PL_PTX_COUNT];

static struct ops_code *compile_cached(const char *body)
{
    for (unsigned i = n_cached; i-- > 0;)
        if (strcmp(cache[i].body, body) == 0)
            return cache[i].code;
    char why[300];
    struct ops_code *code = ops_compile(body, why);
    ck_assert_msg(code != NULL, "%s: %s", body, why);
    ck_assert_uint_lt(n_cached, PL_COUNT(cache));
    snprintf(cache[n_cached].body, sizeof cache[n_cached].body, "%s", body);
    cache[n_cached++].code = code;
    for (unsigned i = 0; ops_form(code, i) != PL_PTX_NONE; i++)
        forms_seen[ops_form(code, i)] = 1;
    return code;
}

/* True where the row's lane has the expected result in the full and in a masked run. */
static bool run_row(const struct ops_row *row, char *message, size_t n_bytes)
{
    char body[256];
    ops_write_body(row, body, sizeof body);
    struct ops_code *code = compile_cached(body);
    static struct ops_frame frame, masked;
    fill_frame(&frame);
    unsigned lane = (unsigned)random_below(&rnd, 32);
    for (unsigned i = 0; i < row->n_src; i++)
        ops_set_lane(&frame, ops_bank(row->src_digits[i]), i + 1, lane, row->src[i]);
    masked = frame;
    ops_run(code, &frame, UINT32_MAX, true);
    ops_run(code, &masked, (uint32_t)random_u64(&rnd) | 1u << lane, false);
    char d = ops_bank(row->result_digits);
    uint64_t got = ops_get_lane(&frame, d, 0, lane), got_masked = ops_get_lane(&masked, d, 0, lane);
    if (got == got_masked && is_as_expected(row, got))
        return true;
    snprintf(message, n_bytes, "%s [%s, %s] %s: got %llx, masked %llx", row->form, row->oracle,
             row->note, row->text, (unsigned long long)got, (unsigned long long)got_masked);
    return false;
}

enum { SHOWN_FAILURES = 20 };

static void run_file(const char *name)
{
    char message[1024];
    unsigned n_rows = 0, n_failed = 0;
    FILE *f = ops_open_data(name);
    struct ops_row row;
    while (ops_next_row(f, &row)) {
        n_rows++;
        if (!run_row(&row, message, sizeof message) && n_failed++ < SHOWN_FAILURES)
            printf("%s\n", message);
    }
    fclose(f);
    printf("%s: %u rows, %u fail\n", name, n_rows, n_failed);
    ck_assert_uint_eq(n_failed, 0);
}

START_TEST(every_vector_has_its_result)
{
    random_turn(&rnd, _i);
    pl_emu_ops_init((enum pl_emu_isa)_i);
    for (size_t i = 0; i < PL_COUNT(ops_vector_files); i++)
        run_file(ops_vector_files[i]);
    const struct {
        uint16_t form;
        const char *name;
    } scalar_forms[] = {
#define K(id)         0
#define OP(form, ...) {PL_PTX_##form, #form},
#include "emu/ops.def"
#undef OP
#undef K
    };
    unsigned n_missing = 0;
    for (size_t i = 0; i < PL_COUNT(scalar_forms); i++)
        if (!forms_seen[scalar_forms[i].form])
            n_missing += (unsigned)printf("no vector: %s\n", scalar_forms[i].name) > 0;
    ck_assert_uint_eq(n_missing, 0);
}
END_TEST

/* ---- kernels against each other: levels, full and masked ---- */

static void compile_all_forms(void)
{
    for (size_t i = 0; i < PL_COUNT(ops_vector_files); i++) {
        char body[256];
        struct ops_row row;
        FILE *f = ops_open_data(ops_vector_files[i]);
        while (ops_next_row(f, &row)) {
            ops_write_body(&row, body, sizeof body);
            compile_cached(body);
        }
        fclose(f);
    }
}

static void run_code(struct ops_code *code, enum pl_emu_isa isa, struct ops_frame *f, uint32_t mask,
                     bool is_full)
{
    pl_emu_ops_init(isa);
    ops_reselect(code);
    ops_run(code, f, mask, is_full);
}

START_TEST(levels_and_masks_agree_bit_for_bit)
{
    static struct ops_frame start, base, other, masked;
    compile_all_forms();
    for (unsigned i = 0; i < n_cached; i++) {
        for (unsigned k = 0; k < 20; k++) {
            uint32_t mask = k < 3 ? k - 1u : (uint32_t)random_u64(&rnd);
            fill_frame(&start);
            base = other = masked = start;
            run_code(cache[i].code, PL_EMU_ISA_BASE, &base, UINT32_MAX, true);
            run_code(cache[i].code, PL_EMU_ISA_COUNT, &other, UINT32_MAX, true);
            ck_assert_msg(memcmp(&base, &other, sizeof base) == 0, "levels differ: %s",
                          cache[i].body);
            run_code(cache[i].code, k % 2 ? PL_EMU_ISA_BASE : PL_EMU_ISA_COUNT, &masked, mask,
                     false);
            for (unsigned lane = 0; lane < 32; lane++) {
                const struct ops_frame *want = mask >> lane & 1 ? &base : &start;
                for (unsigned r = 0; r < OPS_MAX_REGS; r += OPS_MAX_REGS - 1)
                    for (const char *bank = "phrd"; *bank; bank++)
                        ck_assert_msg(ops_get_lane(&masked, *bank, r, lane) ==
                                          ops_get_lane(want, *bank, r, lane),
                                      "mask %08x lane %u of %%%c%u: %s", mask, lane, *bank, r,
                                      cache[i].body);
                ck_assert_msg((masked.cc >> lane & 1) == (want->cc >> lane & 1),
                              "carry of lane %u: %s", lane, cache[i].body);
            }
        }
    }
}
END_TEST

/* A destination may be one of the sources. */
START_TEST(destination_may_be_a_source)
{
    static const char *const bodies[][2] = {
        {"add.u32 %r0, %r1, %r2;", "add.u32 %r1, %r1, %r2;"},
        {"fma.rn.ftz.f32 %r0, %r1, %r2, %r3;", "fma.rn.ftz.f32 %r1, %r1, %r2, %r3;"},
        {"fma.rz.f64 %d0, %d2, %d1, %d3;", "fma.rz.f64 %d1, %d2, %d1, %d3;"},
        {"fma.rn.bf16x2 %r0, %r2, %r3, %r1;", "fma.rn.bf16x2 %r1, %r2, %r3, %r1;"},
        {"selp.b64 %d0, %d1, %d2, %p1;", "selp.b64 %d1, %d1, %d2, %p1;"},
        {"lop3.b32 %r0, %r1, %r2, %r3, 0x96;", "lop3.b32 %r1, %r1, %r2, %r3, 0x96;"},
        {"mul.rn.ftz.f32x2 %d0, %d1, %d2;", "mul.rn.ftz.f32x2 %d1, %d1, %d2;"},
    };
    static struct ops_frame apart, same;
    for (size_t i = 0; i < PL_COUNT(bodies); i++) {
        for (int k = 0; k < 200; k++) {
            uint32_t mask = k & 1 ? UINT32_MAX : (uint32_t)random_u64(&rnd);
            fill_frame(&apart);
            memcpy(apart.d[0], apart.d[1], sizeof apart.d[0]);
            memcpy(apart.r[0], apart.r[1], sizeof apart.r[0]);
            same = apart;
            ops_run(compile_cached(bodies[i][0]), &apart, mask, mask == UINT32_MAX);
            ops_run(compile_cached(bodies[i][1]), &same, mask, mask == UINT32_MAX);
            ck_assert_msg(memcmp(apart.d[0], same.d[1], sizeof same.d[1]) == 0, "%s", bodies[i][1]);
            ck_assert_msg(memcmp(apart.r[0], same.r[1], sizeof same.r[1]) == 0, "%s", bodies[i][1]);
        }
    }
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_ops");
    Suite *s = suite_create("ops");
    TCase *t = tcase_create("ops");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, every_vector_has_its_result, 0, PL_EMU_ISA_COUNT);
    tcase_add_test(t, levels_and_masks_agree_bit_for_bit);
    tcase_add_test(t, destination_may_be_a_source);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
