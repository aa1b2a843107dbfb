/*
 * The tables of jit/ptx and what parser and printer make of them: every row has an instruction that parses to it and prints
 * back; so have random combinations of its modifiers and types.
 */
#include "jit/ptx/gate.h"
#include "jit/ptx/parser.h"
#include "jit/ptx/print.h"
#include "jit/ptx/table.h"
#include "tests/ptx_random.h"
#include "tests/ptx_text.h"

#include <check.h>

static const uint16_t chips[] = {80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

/* The oldest chip and lowest header that take a gate. */
static bool header_for(struct pl_ptx_gate gate, uint16_t *version, uint16_t *sm, char *suffix)
{
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++)
        if (pl_ptx_gate_lowest(gate, chips[i], suffix, version)) {
            *sm = chips[i];
            return true;
        }
    return false;
}

/* The first instruction of the test module around a text. */
static const struct pl_ptx_ins *parse_one(struct pl_arena *a, uint16_t version, uint16_t sm,
                                          char suffix, const char *text, struct pl_ptx_module *m,
                                          struct pl_ptx_error *error)
{
    const char *module = ptx_text_of(a, version, sm, suffix, text);
    return pl_ptx_parse(module, strlen(module), a, m, error) ? &m->ins.data[0] : NULL;
}

static const char *print_one(struct pl_arena *a, const struct pl_ptx_module *m)
{
    struct pl_buf b;
    pl_buf_init(&b, a, 256);
    const struct pl_ptx_printer pr = {.buf = &b, .module = m, .func = &m->funcs.data[1]};
    pl_ptx_print_ins(&pr, &m->ins.data[0], m->pool.data);
    /* the test module has its own names for labels and target lists */
    struct pl_buf renamed;
    pl_buf_init(&renamed, a, 256);
    for (const char *c = b.text; *c != 0;) {
        if (c[0] != '$') {
            pl_buf_putc(&renamed, *c++);
            continue;
        }
        pl_buf_puts(&renamed, c[1] == 'L' ? "L1" : "LIST");
        c += 2 + strspn(c + 2, "0123456789");
    }
    return renamed.text;
}

static bool same_operand(const struct pl_ptx_module *m, const struct pl_ptx_operand *x,
                         const struct pl_ptx_module *n, const struct pl_ptx_operand *y)
{
    if (x->kind != y->kind || x->is_negated != y->is_negated || x->is_float != y->is_float ||
        x->sub != y->sub || x->n != y->n || x->sreg != y->sreg || x->offset != y->offset ||
        x->imm != y->imm || x->var != y->var)
        return false;
    bool has_list =
        x->kind == PL_PTX_OP_VECTOR || x->kind == PL_PTX_OP_PAIR || x->kind == PL_PTX_OP_TENSOR;
    for (uint32_t i = 0; has_list && i < x->n; i++)
        if (!same_operand(m, &m->pool.data[x->first + i], n, &n->pool.data[y->first + i]))
            return false;
    if (x->reg == 0 || y->reg == 0)
        return x->reg == y->reg;
    return strcmp(m->funcs.data[1].regs.data[x->reg - 1].name,
                  n->funcs.data[1].regs.data[y->reg - 1].name) == 0;
}

static bool same_ins(const struct pl_ptx_module *m, const struct pl_ptx_ins *x,
                     const struct pl_ptx_module *n, const struct pl_ptx_ins *y)
{
    if (x->form != y->form || x->n_types != y->n_types || x->n_operands != y->n_operands ||
        x->shape_n != y->shape_n || memcmp(x->types, y->types, sizeof x->types) != 0 ||
        memcmp(x->mods, y->mods, sizeof x->mods) != 0)
        return false;
    for (uint32_t i = 0; i < x->n_operands; i++)
        if (!same_operand(m, &m->pool.data[x->operands + i], n, &n->pool.data[y->operands + i]))
            return false;
    return true;
}

/* ---- one instruction a row ---- */

static struct pl_arena rows_arena;
static struct ptx_lines rows;

static void read_rows(void) { rows = ptx_read_lines(&rows_arena, "tests/ptx/rows.tsv"); }
static void free_rows(void) { pl_arena_fini(&rows_arena); }

START_TEST(row_has_an_instruction_that_parses_to_it_and_prints_back)
{
    const struct pl_ptx_info *info = &pl_ptx_infos[_i];
    size_t line = 0;
    while (line < rows.n && strcmp(rows.columns[line][0], info->id) != 0)
        line++;
    ck_assert_msg(line < rows.n, "row %s has no line in rows.tsv", info->id);
    struct pl_arena a = {0};
    struct pl_ptx_module m, n;
    struct pl_ptx_error error;
    uint16_t version, sm;
    char suffix;
    ck_assert(header_for(info->gate, &version, &sm, &suffix));
    version = 90;
    const struct pl_ptx_ins *x =
        parse_one(&a, version, sm, suffix, rows.columns[line][1], &m, &error);
    ck_assert_msg(x != NULL, "%s: %s", rows.columns[line][1], error.text);
    ck_assert_str_eq(pl_ptx_infos[x->form].id, info->id);
    ck_assert_uint_eq(m.ins.n, 2);
    const char *printed = print_one(&a, &m);
    const struct pl_ptx_ins *y = parse_one(&a, version, sm, suffix, printed, &n, &error);
    ck_assert_msg(y != NULL, "%s: %s", printed, error.text);
    ck_assert_msg(same_ins(&m, x, &n, y), "%s", printed);
    ck_assert_str_eq(print_one(&a, &n), printed);
    pl_arena_fini(&a);
}
END_TEST

START_TEST(heads_are_those_of_rows)
{
    static const char *const heads[] = {
#define NAME(text) text,
#include "jit/ptx/name.def"
#undef NAME
    };
    for (size_t h = 0; h < sizeof heads / sizeof heads[0]; h++) {
        const size_t n_bytes = strlen(heads[h]);
        bool is_met = false;
        for (int i = 1; i < PL_PTX_COUNT; i++)
            is_met |= strncmp(pl_ptx_infos[i].mnemonic, heads[h], n_bytes) == 0 &&
                      strchr(".", pl_ptx_infos[i].mnemonic[n_bytes]) != NULL;
        ck_assert_msg(is_met, "no row's mnemonic begins with %s", heads[h]);
    }
}
END_TEST

START_TEST(rows_of_an_opcode_lie_together)
{
    struct pl_arena a = {0};
    for (int i = 1; i < PL_PTX_COUNT; i++) {
        const char *op = pl_ptx_infos[i].mnemonic;
        size_t n_bytes = strcspn(op, ".");
        bool has_left = false;
        for (int k = i; k < PL_PTX_COUNT; k++) {
            bool is_same = strcspn(pl_ptx_infos[k].mnemonic, ".") == n_bytes &&
                           memcmp(pl_ptx_infos[k].mnemonic, op, n_bytes) == 0;
            ck_assert_msg(!is_same || !has_left, "%s is apart from %s", pl_ptx_infos[k].id,
                          pl_ptx_infos[i].id);
            has_left |= !is_same;
        }
        ck_assert_msg(pl_ptx_infos[i].flags != 0, "%s has no flags", pl_ptx_infos[i].id);
        ck_assert_msg(strchr(pl_ptx_infos[i].source, ':') != NULL, "%s names no section",
                      pl_ptx_infos[i].id);
    }
    pl_arena_fini(&a);
}
END_TEST

/* ---- random instructions ---- */

START_TEST(random_instructions_parse_to_their_row_and_print_back)
{
    enum pl_ptx_form form = (enum pl_ptx_form)_i;
    int n_tried = 0;
    struct ptx_random rnd = {2463534242u + (uint32_t)_i};
    if (pl_ptx_rows[form].views[0] == PL_PTX_VIEW_ANYTHING || ptx_has_fixed_values(form))
        return; /* their line in rows.tsv must do */
    for (int k = 0; k < 60; k++) {
        struct pl_arena a = {0};
        struct pl_ptx_module m, n;
        struct pl_ptx_error error;
        struct pl_ptx_ins ins = ptx_random_ins(&rnd, form);
        const char *text = ptx_random_text(&rnd, &a, &ins);
        uint16_t version, sm;
        char suffix;
        struct pl_ptx_operand nothing[PL_PTX_MAX_OPERANDS] = {{0}};
        if (text != NULL && header_for(pl_ptx_gate_of_ins(&ins, nothing), &version, &sm, &suffix)) {
            n_tried++;
            if (pl_ptx_has_operand_gate(form)) { /* its operands may need more */
                sm = 103;
                suffix = 'a';
            }
            const struct pl_ptx_ins *x = parse_one(&a, 90, sm, suffix, text, &m, &error);
            ck_assert_msg(x != NULL, "%s on sm_%u%c: %s", text, sm, suffix ? suffix : ' ',
                          error.text);
            ck_assert_str_eq(pl_ptx_infos[x->form].id, pl_ptx_infos[form].id);
            ck_assert_msg(memcmp(x->mods, ins.mods, sizeof ins.mods) == 0, "%s: modifiers", text);
            ck_assert_msg(memcmp(x->types, ins.types, sizeof ins.types) == 0, "%s: types", text);
            ck_assert_uint_eq(x->shape_n, ins.shape_n);
            const char *printed = print_one(&a, &m);
            const struct pl_ptx_ins *y = parse_one(&a, 90, sm, suffix, printed, &n, &error);
            ck_assert_msg(y != NULL, "%s: %s", printed, error.text);
            ck_assert_msg(same_ins(&m, x, &n, y), "%s", printed);
        }
        pl_arena_fini(&a);
    }
    ck_assert_msg(n_tried > 0, "%s was never tried", pl_ptx_infos[form].id);
}
END_TEST

/* ---- what compilers print ---- */

START_TEST(mnemonics_of_compiled_programs_are_known)
{
    struct pl_arena a = {0};
    struct ptx_lines lines = ptx_read_lines(&a, "tests/ptx/mnemonics.tsv");
    ck_assert_uint_ge(lines.n, 649);
    for (size_t i = 0; i < lines.n; i++) {
        struct pl_ptx_module m = {0};
        struct pl_ptx_parser *p = PL_NEW(&a, struct pl_ptx_parser);
        const struct pl_ptx_mnemonic *mn;
        p->arena = &a;
        p->m = &m;
        p->text = p->s = pl_arena_printf(&a, "%s ;        ", lines.columns[i][0]);
        p->end = p->text + strlen(p->text);
        pl_diags_init(&p->diags, &a);
        ck_assert(pl_ptx_match_init(p));
        ck_assert_msg(pl_ptx_read_mnemonic(p, &mn), "%s", p->diags.list.data[0].text);
        ck_assert_uint_ge(mn->n_shapes, 1);
    }
    pl_arena_fini(&a);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ptx");
    TCase *t = tcase_create("rows");
    tcase_add_unchecked_fixture(t, read_rows, free_rows);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, heads_are_those_of_rows);
    tcase_add_test(t, rows_of_an_opcode_lie_together);
    tcase_add_loop_test(t, row_has_an_instruction_that_parses_to_it_and_prints_back, 1,
                        PL_PTX_COUNT);
    tcase_add_loop_test(t, random_instructions_parse_to_their_row_and_print_back, 1, PL_PTX_COUNT);
    tcase_add_test(t, mnemonics_of_compiled_programs_are_known);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
