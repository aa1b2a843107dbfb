/*
 * The PTX parser on whole modules: what nvcc and hand-written code use, and every diagnostic with its line and column.
 */
#include "jit/ptx/diag.h"
#include "jit/ptx/print.h"
#include "jit/ptx/ptx.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define HEAD ".version 8.7\n.target sm_90a\n.address_size 64\n"
#define BODY                                                                                       \
    HEAD ".entry k(.param .u64 p)\n{\n.reg .b32 r<9>;.reg .b64 d<9>;.reg .f32 f<9>;.reg .pred "    \
         "q;\n"

static struct pl_arena arena;
static struct pl_ptx_module m;
static struct pl_ptx_error error;

static void fresh(void) { pl_arena_fini(&arena); }

static bool parse(const char *text)
{
    pl_arena_fini(&arena);
    return pl_ptx_parse(text, strlen(text), &arena, &m, &error);
}

static void must_parse(const char *text)
{
    ck_assert_msg(parse(text), "%u:%u: %s", error.line, error.column, error.text);
}

/* Printing gives a text that parses, and prints the same. */
static void must_print_back(void)
{
    struct pl_buf first, second;
    struct pl_arena other = {0};
    struct pl_ptx_module again;
    pl_buf_init(&first, &arena, 256);
    pl_ptx_print_module(&first, &m);
    ck_assert_msg(pl_ptx_parse(first.text, first.n_bytes, &other, &again, &error), "%u:%u: %s\n%s",
                  error.line, error.column, error.text, first.text);
    pl_buf_init(&second, &other, 256);
    pl_ptx_print_module(&second, &again);
    ck_assert_str_eq(first.text, second.text);
    ck_assert_uint_eq(m.ins.n, again.ins.n);
    pl_arena_fini(&other);
}

static const struct pl_ptx_var *var_named(const char *name)
{
    for (uint32_t i = 0; i < m.vars.n; i++)
        if (strcmp(m.vars.data[i].name, name) == 0)
            return &m.vars.data[i];
    ck_abort_msg("no variable %s", name);
    return NULL;
}

static const struct pl_ptx_operand *operand(uint32_t ins, uint32_t i)
{
    return &m.pool.data[m.ins.data[ins].operands + i];
}

/* ---- modules ---- */

START_TEST(header_takes_options_and_debug_sections)
{
    must_parse("// comment\n.version 8.8 /* a */ .target sm_100f, texmode_independent, "
               "debug\n.address_size 64\n"
               ".file 1 \"a \\\"b\\\".cu\", 123, 456\n.pragma \"nounroll\";\n"
               ".section .debug_str\n{\nL1: .b8 0,1,2\n.b32 L1+4\n}\n");
    ck_assert_uint_eq(m.version, 88);
    ck_assert_uint_eq(m.sm, 100);
    ck_assert_int_eq(m.suffix, 'f');
    ck_assert(m.is_debug && m.is_texmode_independent);
    must_print_back();
}
END_TEST

/* Later versions of the manual add forms and keep what there was. */
START_TEST(header_of_a_later_version)
{
    must_parse(".version 9.4\n.target sm_90\n.address_size 64\n.entry k() { ret; }");
    ck_assert_uint_eq(m.version, 94);
}
END_TEST

/* v[r+i] holds bytes as its offset, and is written in elements again; the register is no base. */
START_TEST(elements_by_register_are_printed_as_such)
{
    must_parse(BODY
               ".shared .align 8 .b64 s[9]; ld.shared.b64 d1, s[r2+3]; st.shared.b64 s[d2], d1;\n"
               "mov.b64 d1, s[r1+-1]; cvta.shared.u64 d1, s[r1];}");
    const struct pl_ptx_operand *at = &m.pool.data[m.ins.data[0].operands + 1];
    ck_assert_uint_eq(at->kind, PL_PTX_OP_ADDR);
    ck_assert_int_eq(at->offset, 24);
    ck_assert(at->reg != 0 && at->var != 0);
    ck_assert_uint_eq(m.pool.data[m.ins.data[2].operands + 1].kind, PL_PTX_OP_VAR);
    struct pl_buf text;
    pl_buf_init(&text, &arena, 256);
    pl_ptx_print_module(&text, &m);
    static const char *const parts[] = {"d1, s[r2+3];", "s[d2], d1;", "d1, s[r1+-1];",
                                        "d1, s[r1];"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        ck_assert_msg(strstr(text.text, parts[i]) != NULL, "%s in\n%s", parts[i], text.text);
    must_print_back();
}
END_TEST

START_TEST(entry_has_parameters_at_their_offsets_and_directives)
{
    must_parse(HEAD ".weak .entry k(.param .u8 a, .param .align 64 .b8 map[128], .param .u64 .ptr "
                    ".global .align 16 b, .param .f32 c)\n"
                    ".maxntid 128, 2\n.minnctapersm 3\n.maxnreg 200 .reqnctapercluster 2,1,1 "
                    ".explicitcluster .maxclusterrank 8\n"
                    "{ ret; }");
    const struct pl_ptx_func *f = &m.funcs.data[0];
    ck_assert(f->is_entry && f->is_weak && f->has_body && f->is_explicit_cluster);
    ck_assert_uint_eq(f->n_params, 4);
    ck_assert_int_eq(var_named("a")->param_offset, 0);
    ck_assert_int_eq(var_named("map")->param_offset, 64);
    ck_assert_uint_eq(var_named("map")->n_bytes, 128);
    ck_assert_int_eq(var_named("b")->param_offset, 192);
    ck_assert_int_eq(var_named("c")->param_offset, 200);
    ck_assert_uint_eq(f->param_n_bytes, 204);
    ck_assert_uint_eq(f->max_ntid[0], 128);
    ck_assert_uint_eq(f->max_ntid[1], 2);
    ck_assert_uint_eq(f->max_ntid[2], 1);
    ck_assert_uint_eq(f->min_nctapersm, 3);
    ck_assert_uint_eq(f->max_nreg, 200);
    ck_assert_uint_eq(f->req_cluster[0], 2);
    ck_assert_uint_eq(f->max_cluster_rank, 8);
    must_print_back();
}
END_TEST

START_TEST(variables_have_initialisers)
{
    must_parse(
        HEAD
        ".visible .func f();\n"
        ".global .align 4 .b8 s[6] = {104, 0x65, 0154, 0b1101100, 111U};\n"
        ".const .f32 c[2] = {1.5, 0f40490FDB}; .const .f64 e = -2.5e-3;\n"
        ".global .u64 p[3] = {s, generic(s)+4, f};\n"
        ".global .u8 mask[2] = {0xff(s), 0xff00(s+1)};\n"
        ".global .u32 grid[2][3] = {{1}, {2, 3}};\n"
        ".global .v4 .f32 v = {1.0, 2.0};\n"
        ".global .s32 x = (3 + 4) * 2 - (1 << 4) / 3 % 4 + (5 > 4 ? 10 : 20);\n"
        ".global .u32 y = ~0 ^ 0xf0 | 1 && 1;\n"
        ".extern .shared .align 1024 .b8 dyn[];\n.extern .global .u32 z;\n.global .u32 z = 7;\n"
        ".global .attribute(.managed) .align 8 .u64 man;\n.common .global .u32 com;\n");
    ck_assert_int_eq(memcmp(var_named("s")->init, "hello", 5), 0);
    ck_assert_uint_eq(var_named("s")->init_n_bytes, 5);
    const uint32_t c[2] = {0x3fc00000, 0x40490fdb};
    ck_assert_int_eq(memcmp(var_named("c")->init, c, 8), 0);
    const double e = -2.5e-3;
    ck_assert_int_eq(memcmp(var_named("e")->init, &e, 8), 0);
    const struct pl_ptx_var *p = var_named("p");
    ck_assert_uint_eq(p->n_relocs, 3);
    ck_assert(!p->relocs[0].is_generic && p->relocs[1].is_generic && p->relocs[2].func == 1);
    ck_assert_int_eq(p->relocs[1].addend, 4);
    ck_assert_uint_eq(p->relocs[2].offset_bytes, 16);
    const struct pl_ptx_var *mask = var_named("mask");
    ck_assert_uint_eq(mask->relocs[1].first_byte, 1);
    ck_assert_uint_eq(mask->relocs[1].n_bytes, 1);
    ck_assert_int_eq(mask->relocs[1].addend, 1);
    const uint32_t grid[5] = {1, 0, 0, 2, 3};
    ck_assert_int_eq(memcmp(var_named("grid")->init, grid, sizeof grid), 0);
    ck_assert_uint_eq(var_named("v")->n_bytes, 16);
    int32_t x, y;
    memcpy(&x, var_named("x")->init, 4);
    memcpy(&y, var_named("y")->init, 4);
    ck_assert_int_eq(x, (3 + 4) * 2 - (1 << 4) / 3 % 4 + (5 > 4 ? 10 : 20));
    ck_assert_int_eq(y, 1);
    ck_assert_uint_eq(var_named("dyn")->n_bytes, 0);
    ck_assert_uint_eq(var_named("dyn")->align_bytes, 1024);
    ck_assert(!var_named("z")->is_extern && var_named("z")->init != NULL);
    ck_assert(var_named("man")->is_managed && var_named("com")->is_common);
    must_print_back();
}
END_TEST

START_TEST(blocks_repeat_names_of_registers_labels_and_variables)
{
    must_parse(
        BODY
        "{ .reg .pred p; .reg .b32 t; LAB: setp.eq.u32 p, r1, 0; @p bra DONE; bra LAB; DONE: "
        "mov.u32 t, 1; }\n"
        "{ .reg .pred p; .reg .b64 t; LAB: setp.ne.u32 p, r1, 0; @!p bra DONE; bra LAB; DONE: "
        "mov.u64 t, 1; }\n"
        "{ .reg .b64 r<3>; .shared .b32 s; mov.u64 r1, 5; { .shared .b64 s; mov.u32 r7, s; } }\n"
        "{ bra OUT; } mov.b32 r1, r2; OUT: bra END; END: }\n");
    const struct pl_ptx_func *f = &m.funcs.data[0];
    ck_assert_uint_eq(f->n_ins, 13);
    ck_assert_uint_eq(operand(1, 0)->first, 3);
    ck_assert_uint_eq(operand(2, 0)->first, 0);
    ck_assert_uint_eq(operand(5, 0)->first, 7);
    ck_assert(m.ins.data[5].guard_is_negated && m.ins.data[1].guard != m.ins.data[5].guard);
    const struct pl_ptx_reg *outer = &f->regs.data[operand(0, 1)->reg - 1],
                            *inner = &f->regs.data[operand(8, 0)->reg - 1];
    ck_assert_str_eq(outer->name, "r1");
    ck_assert_str_eq(inner->name, "r1");
    ck_assert_uint_eq(outer->type, PL_PTX_TYPE_B32);
    ck_assert_uint_eq(inner->type, PL_PTX_TYPE_B64);
    ck_assert_uint_ne(outer->scope, inner->scope);
    ck_assert_uint_eq(f->regs.data[operand(11, 0)->reg - 1].scope,
                      0); /* r1 is the outer one again */
    ck_assert_uint_eq(operand(10, 0)->first, 12);
    ck_assert_uint_eq(operand(12, 0)->first, 13); /* the end of the function */
    must_print_back();
}
END_TEST

START_TEST(operands_are_read_without_spaces_and_in_every_kind)
{
    must_parse(BODY "ld.shared.v2.b32{r1,_},[r3+-4];\n"
                    "mov.b64{r1,r2},d1;mov.b32 r4,%tid.y;\n"
                    "elect.sync _|q,-1;shfl.sync.bfly.b32 r1|q,r2,1,31,0xffffffff;\n"
                    "ld.param.u64 d1,[p];st.global.f32[d1+8],1.0;\n"
                    "add.f32 f1, f2, 0d3FF8000000000000; setp.lt.and.f32 q, f1, 0fC0000000, !q;\n"
                    "ld .global\t.u32 r1, [d1+16].unified;ld.local.u32 r1,[16];\n"
                    "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::"
                    "bytes [r1],[d1,{r2,r3}],[r4];\n"
                    "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {f0,f1,f2,f3,f4,f5,f6,f7}, "
                    "d1, d2, 1, 1, -1, 0, 0;\n"
                    "@q ret; exit; }");
    ck_assert_uint_eq(operand(0, 0)->kind, PL_PTX_OP_VECTOR);
    ck_assert_uint_eq(m.pool.data[operand(0, 0)->first + 1].kind, PL_PTX_OP_SINK);
    ck_assert_int_eq(operand(0, 1)->offset, -4);
    ck_assert_uint_eq(m.ins.data[1].form, PL_PTX_mov_unpack);
    ck_assert_uint_eq(operand(2, 1)->sreg, PL_PTX_SREG_tid);
    ck_assert_uint_eq(operand(2, 1)->sub, 1);
    ck_assert_uint_eq(operand(3, 0)->kind, PL_PTX_OP_PAIR);
    ck_assert_uint_eq(operand(5, 1)->kind, PL_PTX_OP_ADDR);
    ck_assert_uint_eq(operand(5, 1)->var, 1);
    ck_assert_uint_eq(operand(6, 1)->imm,
                      0x3f800000); /* an f32 takes its own bits of a constant written as double */
    ck_assert_uint_eq(operand(7, 2)->imm, 0x3fc00000);
    ck_assert_uint_eq(operand(7, 2)->sub, 4);
    ck_assert(operand(8, 3)->is_negated);
    ck_assert_uint_eq(m.ins.data[9].form, PL_PTX_ld);
    ck_assert_int_eq(operand(9, 1)->offset, 16);
    ck_assert(operand(9, 1)->is_unified);
    ck_assert_int_eq(operand(10, 1)->offset, 16);
    ck_assert_uint_eq(operand(11, 1)->kind, PL_PTX_OP_TENSOR);
    ck_assert_uint_eq(m.ins.data[12].shape_n, 16);
    must_print_back();
}
END_TEST

START_TEST(calls_have_four_operands)
{
    must_parse(HEAD ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
                    ".func noargs () { ret; }\n.func (.reg .b32 o) regs (.reg .b32 x, .reg .b32 y) "
                    "{ add.s32 o, x, y; ret; }\n"
                    ".func noargs2 ();\n.alias noargs2, noargs;\n");
    must_parse(
        HEAD ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n"
             ".func noargs () { ret; }\n.func (.reg .b32 o) regs (.reg .b32 x, .reg .b32 y) { "
             "add.s32 o, x, y; ret; }\n"
             ".visible .func late (.param .align 8 .b8 s[16]);\n"
             ".entry k() { .reg .b32 r<4>; .reg .b64 d<4>; .param .b64 p<2>; .param .b32 ret0; "
             ".param .align 8 .b8 st[16];\n"
             "call.uni (ret0), vprintf, (p0, p1);\ncall noargs;\ncall.uni noargs, ();\ncall (r1), "
             "regs, (r2, 7);\ncall late, (st);\n"
             "proto : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 4 .b8 _[8]);\n"
             "call (ret0), d1, (p0, p1), proto;\n"
             "list: .calltargets noargs, late;\ncall d2, (), list;\n"
             "ts: .branchtargets A, B;\nbrx.idx r1, ts;\nA: mov.b32 r1, 0; B: ret; }\n"
             ".visible .func late (.param .align 8 .b8 s[16]) { ret; }\n");
    ck_assert_uint_eq(m.ins.data[3].form, PL_PTX_call);
    ck_assert_uint_eq(m.ins.data[3].n_operands, 3);
    ck_assert_uint_eq(operand(3, 0)->n, 1);
    ck_assert_uint_eq(operand(3, 1)->kind, PL_PTX_OP_FUNC);
    ck_assert_uint_eq(operand(3, 2)->n, 2);
    ck_assert_uint_eq(operand(4, 0)->n, 0);
    ck_assert_uint_eq(operand(6, 0)->kind, PL_PTX_OP_VECTOR);
    ck_assert_uint_eq(m.ins.data[8].n_operands, 4);
    ck_assert_uint_eq(operand(8, 1)->kind, PL_PTX_OP_REG);
    ck_assert_uint_eq(operand(8, 3)->kind, PL_PTX_OP_PROTO);
    ck_assert(m.protos.data[1].is_calls);
    ck_assert_uint_eq(m.protos.data[1].n_targets, 2);
    ck_assert_uint_eq(m.protos.data[2].targets[0], 11);
    ck_assert_uint_eq(m.protos.data[2].targets[1], 12);
    ck_assert(m.funcs.data[2].has_reg_params);
    ck_assert_uint_eq(m.funcs.n, 5);
    ck_assert(m.funcs.data[3].has_body);
    must_print_back();
}
END_TEST

START_TEST(numbers_are_exact)
{
    static const struct {
        const char *text;
        double value;
    } floats[] = {{"1.0", 1.0},
                  {"0.1", 0.1},
                  {"1e10", 1e10},
                  {"3.", 3.0},
                  {".5", 0.5},
                  {"1.25E-3", 1.25e-3},
                  {"123456789.123456789", 123456789.123456789},
                  {"4.9e-324", 4.9e-324},
                  {"1e400", (double)INFINITY},
                  {"17976931348623157e292", 17976931348623157e292}};
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, HEAD ".global .f64 x = %s;", floats[i].text);
        must_parse(text);
        ck_assert_msg(memcmp(m.vars.data[0].init, &floats[i].value, 8) == 0, "%s", floats[i].text);
    }
    static const struct {
        const char *text;
        uint64_t value;
    } ints[] = {{"0", 0},
                {"0U", 0},
                {"18446744073709551615", UINT64_MAX},
                {"0x7fffffffffffffffU", INT64_MAX},
                {"-1", UINT64_MAX},
                {"0b101", 5},
                {"017", 15},
                {"-9223372036854775808", UINT64_C(1) << 63},
                {"!0", 1},
                {"-7 / 2", UINT64_MAX - 2},
                {"0xffffffffffffffff / 2", INT64_MAX},
                {"-8 >> 1", UINT64_MAX - 3},
                {"1 << 64", 0},
                {"(.s64)0xffffffffffffffff >> 63", UINT64_MAX},
                {"WARP_SZ", 32},
                {"(.s64)-9223372036854775808 / -1", UINT64_C(1) << 63},
                {"-9223372036854775808 / -1", 0} /* too large for s64, so unsigned */};
    for (size_t i = 0; i < sizeof ints / sizeof ints[0]; i++) {
        char text[200];
        uint64_t v;
        snprintf(text, sizeof text, HEAD ".global .u64 x = %s;", ints[i].text);
        must_parse(text);
        memcpy(&v, m.vars.data[0].init, 8);
        ck_assert_msg(v == ints[i].value, "%s: %llx", ints[i].text, (unsigned long long)v);
    }
}
END_TEST

/* ---- mistakes ---- */

static const struct mistake {
    int code;
    uint32_t line, column;
    const char *text;
    const char *message; /* part of it */
} mistakes[] = {
    {8001, 4, 1, HEAD "\x80", "0x80"},
    {8001, 6, 5, HEAD ".entry k()\n{\nret \x01;\n}", "0x01"},
    {8002, 4, 18, HEAD ".global .u32 x = 0x;", "0x"},
    {8002, 4, 18, HEAD ".global .u32 x = 12ab;", "12ab"},
    {8002, 4, 18, HEAD ".global .u64 x = 18446744073709551616;", "18446744073709551616"},
    {8002, 4, 18, HEAD ".global .f32 x = 0f3F8;", "0f3F8"},
    {8003, 4, 21, HEAD ".global .f64 x = 1.5.5;", "found '.5'"},
    {8003, 7, 2, BODY "}}", "'}'"},
    {8003, 7, 12, BODY "mov.b32 r1 r2;", "expected ';', found 'r2'"},
    {8003, 7, 1, BODY, "end of text"},
    {8003, 4, 1, HEAD "/* never ends", "comment"},
    {8003, 4, 9, HEAD ".pragma \"never\nends\";", "'\"'"},
    {8015, 7, 13, BODY "mov.u32 r1, %tid;", "operand 2"},
    {8004, 1, 1, ".target sm_90\n", ".version"},
    {8004, 2, 1, ".version 8.0\n.entry k() { ret; }", ".target"},
    {8004, 1, 1, "", ".version"},
    {8005, 1, 10, ".version 9.5\n.target sm_90\n", "9.5"},
    {8005, 1, 10, ".version 8\n.target sm_90\n", "8"},
    {8006, 2, 9, ".version 9.0\n.target sm_91\n", "sm_91"},
    {8006, 2, 9, ".version 9.0\n.target sm_90f\n", "sm_90f"},
    {8006, 2, 9, ".version 9.0\n.target compute_90\n", "compute_90"},
    {8007, 2, 9, ".version 8.6\n.target sm_100f\n", "8.8"},
    {8008, 4, 1, HEAD ".entri k() { ret; }", ".entri"},
    {8008, 5, 1, HEAD ".entry k()\n.maxthreads 3\n{ ret; }", ".maxthreads"},
    {8008, 7, 1, BODY ".maxntid 3;}", ".maxntid"},
    {8009, 7, 11, BODY ".reg .b32 r<3>;}", "r"},
    {8009, 7, 19, BODY ".reg .b64 %x, %y, %x;}", "%x"},
    {8009, 7, 4, BODY "L: L: ret;}", "L"},
    {8009, 5, 6, HEAD ".func f() { ret; }\n.func f() { ret; }", "f"},
    {8009, 5, 14, HEAD ".visible .func f() { ret; }\n.extern .func f();", "f"},
    {8030, 5, 6, HEAD ".extern .func f();\n.func f() { ret; }", "f"},
    {8030, 4, 14, HEAD ".extern .func f() { ret; }", "f"},
    {8030, 5, 12, HEAD ".func f();\n.weak .func f() { ret; }", "f"},
    {8030, 5, 16, HEAD ".entry f();\n.visible .entry f() { ret; }", "f"},
    {8010, 7, 13, BODY "mov.b32 r1, r9;}", "r9"},
    {8010, 7, 13, BODY "mov.b32 r1, %ctaidd;}", "%ctaidd"},
    {8010, 7, 20, BODY "ld.global.b32 r1, [nothing];}", "nothing"},
    {8010, 7, 2, BODY "@u ret;}", "u"},
    {8010, 7, 6, BODY "call nobody;}", "nobody"},
    {8011, 7, 5, BODY "bra NOWHERE;}", "NOWHERE"},
    {8011, 7, 5, BODY "bra IN; { IN: ret; } }", "IN"},
    {8012, 7, 1, BODY "movv.b32 r1, r2;}", "movv"},
    {8012, 7, 4, BODY "@q addd.u32 r1, r2, r3;}", "addd.u32"},
    {8013, 7, 1, BODY "add.rn.u32 r1, r2, r3;}", "'.u32'"},
    {8013, 7, 1, BODY "add.u8 r1, r2, r3;}", "'.u8'"},
    {8013, 7, 1,
     BODY "cp.async.bulk.tensor.3d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes "
          "[r1], [d1, {r1,r2,r3,r4,r5}], [r2];}",
     "gather4"},
    {8013, 7, 1,
     BODY "wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {f0}, d1, d2, q, 1, 1, 0, 0;}",
     "m64n12k16"},
    {8013, 7, 1, BODY "wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {r1}, d1, d2, q;}",
     "m64nNk32 of that N"},
    {8013, 7, 1,
     BODY "wgmma.mma_async.sync.aligned.m64n40k256.s32.b1.b1.and.popc {r1}, d1, d2, q;}",
     "m64nNk256 of that N"},
    {8014, 7, 1, BODY "add r1, r2, r3;}", "type"},
    {8014, 7, 1, BODY "setp.u32 q, r2, r3;}", "eq"},
    {8014, 7, 1, BODY "mbarrier.try_wait q, [r1], 0;}", "b64"},
    {8014, 7, 1, BODY "ldmatrix.aligned.m8n8.x4.shared.b16 {r1,r2,r3,r4}, [r5];}", "sync"},
    {8013, 7, 1, BODY "vote.ballot.sync.sync.b32 r1, q, -1;}", "sync"},
    {8015, 7, 17, BODY "add.u32 r1, r2, {r3,r4};}", "operand 3"},
    {8015, 7, 1, BODY "add.u32 r1, r2;}", "operand 3"},
    {8015, 7, 21, BODY "add.u32 r1, r2, r3, r4;}", "operand 4"},
    {8015, 7, 19, BODY "ld.global.u32 r1, d1;}", ""},
    {8015, 7, 20, BODY "ld.shared.v4.f32   {f0,f1}, [r1];}", "4 registers"},
    {8015, 7, 9, BODY "mov.u32 5, r1;}", "destination"},
    {8015, 7, 9, BODY "add.u32 {r1}, r2, r3;}", "destination"},
    {8015, 7, 38, BODY ".shared .u32 s[4]; ld.shared.u32 r1, s;}", "address"},
    {8015, 7, 43, BODY ".shared .u32 s[4]; atom.shared.or.b32 r1, s[1], 1;}", "address"},
    {8003, 7, 39, BODY ".shared .u32 s[4]; ld.shared.u32 r1, [s[1]];}", "address"},
    {8003, 7, 40, BODY ".shared .u32 s[4]; ld.shared.u32 r1, s[f2];}", "a constant index"},
    {8003, 7, 40, BODY ".shared .u32 s[4]; ld.shared.u32 r1, s[qq];}", "a constant index"},
    {8003, 7, 20, BODY "ld.param.u64 d1, p[r1];}", "a constant index"},
    {8015, 7, 15, BODY "ld.global.u32 {r1,r2}, [d1];}", "destination"},
    {8015, 7, 15, BODY "ld.global.u32 {_}, [d1];}", "destination"},
    {8016, 7, 9, BODY "add.u32 d1, r2, r3;}", "b64"},
    {8016, 7, 13, BODY "add.f64 d1, f2, d3;}", "f32"},
    {8016, 7, 13, BODY "add.f32 f1, 1, f2;}", "constant"},
    {8016, 7, 2, BODY "@r1 ret;}", "pred"},
    {8016, 7, 19, BODY "ld.global.b32 r1, [f1];}", "f32"},
    {8017, 5, 13,
     ".version 7.8\n.target sm_90\n.address_size 64\n.entry k() {.reg .b32 r<3>;\n.reg .b32 "
     "m;mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [m], 4;}",
     "8.0"},
    {8018, 4, 13,
     ".version 8.7\n.target sm_90\n.address_size 64\n.entry k() {wgmma.fence.sync.aligned; ret;}",
     "sm_90a"},
    {8018, 4, 29,
     ".version 8.7\n.target sm_80\n.address_size 64\n.entry k() {.reg .b32 r<3>; mov.u32 r1, "
     "%cluster_ctarank;}",
     "sm_90 or newer"},
    {8019, 4, 28, HEAD ".global .u32 x[2] = {1, 2, 3};", "more values"},
    {8019, 4, 18, HEAD ".global .u32 x = 1.5;", "float"},
    {8019, 4, 33, HEAD ".global .u32 y; .global .u8 x = { y };", "braces"},
    {8020, 4, 20, HEAD ".global .u32 x = 1 / 0;", "zero"},
    {8020, 4, 18, HEAD ".global .f32 x = ~1.5;", "integers"},
    {8021, 7, 1, BODY "bfe.u32 r1, r2, 256, r4;}", "0 to 255"},
    {8021, 7, 1, BODY "bar.sync 16;}", "0 to 15"},
    {8022, 4, 0, NULL, "nested braces"},
    {8023, 0, 0, NULL, "memory"},
    {8024, 8, 1,
     HEAD ".func f(.param .b32 a) { ret; }\n.entry k()\n{\n.param .b32 x, y;\ncall f, (x, y);}",
     "1 wanted, 2 given"},
    {8024, 7, 1, HEAD ".func (.param .b32 a) f() { ret; }\n.entry k()\n{\ncall f;}", "returned"},
    {8026, 7, 17, BODY ".shared .b32 s; st.global.u32 [s], r1;}", "wanted .global"},
    {8026, 7, 17, BODY ".shared .b32 s; ld.shared.u32 r1, [r2].unified;}", ".unified"},
    {8026, 7, 16, BODY ".local .b64 l; cvta.shared.u64 d1, l;}", ".local space, wanted .shared"},
    {8027, 7, 1, BODY "st.param.u64 [p], d1;}", "'p'"},
    {8028, 7, 1, BODY "ld.shared.u32 r1, [16];}", "16"},
    {8029, 7, 1, BODY "bar.sync 0, 33;}", "multiple of 32"},
    {8025, 3, 15, ".version 8.7\n.target sm_90a\n.address_size 32\n", "32"},
};
enum { N_MISTAKES = sizeof mistakes / sizeof mistakes[0] };

START_TEST(mistake_is_found_at_its_line_and_column)
{
    const struct mistake *x = &mistakes[_i];
    if (x->text == NULL)
        return; /* tests of their own */
    ck_assert_msg(!parse(x->text), "PL%d was not raised: %s", x->code, x->text);
    ck_assert_msg(error.code == x->code && error.line == x->line && error.column == x->column &&
                      strstr(error.text, x->message) != NULL,
                  "wanted PL%d %u:%u '%s', got PL%d %u:%u '%s'\n%s", x->code, x->line, x->column,
                  x->message, error.code, error.line, error.column, error.text, x->text);
    fresh();
}
END_TEST

START_TEST(every_diagnostic_is_raised)
{
    static const int codes[] = {
#define DIAG(code, ...) code,
#include "jit/ptx/ptx_diag.def"
#undef DIAG
    };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        bool has_mistake = false;
        for (size_t k = 0; k < N_MISTAKES; k++)
            has_mistake |= mistakes[k].code == codes[i];
        ck_assert_msg(has_mistake, "PL%d is never raised", codes[i]);
        char path[512];
        snprintf(path, sizeof path, "%s/docs/explain/PL%d.md", PL_SRCDIR, codes[i]);
        FILE *f = fopen(path, "rb");
        ck_assert_msg(f != NULL, "PL%d has no page %s", codes[i], path);
        fclose(f);
    }
}
END_TEST

START_TEST(limits_are_errors)
{
    struct pl_arena a = {0};
    struct pl_buf b;
    pl_buf_init(&b, &a, 4096);
    pl_buf_puts(&b, BODY);
    for (int i = 0; i < 100; i++)
        pl_buf_putc(&b, '{');
    ck_assert(!parse(b.text));
    ck_assert_int_eq(error.code, 8022);
    pl_buf_init(&b, &a, 4096);
    pl_buf_puts(&b, HEAD ".global .u32 x = ");
    for (int i = 0; i < 10000; i++)
        pl_buf_putc(&b, '(');
    ck_assert(!parse(b.text));
    ck_assert_int_eq(error.code, 8020);
    pl_buf_init(&b, &a, 4096);
    pl_buf_puts(&b, HEAD ".global .u32 x = ");
    for (int i = 0; i < 10000; i++)
        pl_buf_putc(&b, '-');
    ck_assert(!parse(b.text));
    pl_buf_init(&b, &a, 4096);
    pl_buf_puts(&b, BODY "tex.1d.v4.f32.f32 {r1");
    for (int i = 0; i < 5000; i++)
        pl_buf_puts(&b, ",r1");
    pl_buf_puts(&b, "}, [d1, {r1}];}");
    ck_assert(!parse(b.text));
    ck_assert_int_eq(error.code, 8022);
    must_parse(HEAD ".entry k() { .reg .b32 r<4000000000>; mov.b32 r3999999999, r0; ret; }");
    ck_assert_uint_eq(m.funcs.data[0].regs.n, 2);
    ck_assert_msg(
        !parse(HEAD ".global .u32 x[1099511627776] = {1}; .global .u32 y[1099511627777];"),
        "an array of more than 2^40");
    pl_arena_fini(&a);
    fresh();
}
END_TEST

START_TEST(want_of_memory_is_clean_at_every_size)
{
    static const char text[] = BODY "add.s32 r1, r2, r3; ld.global.v2.u32 {r1,r2}, [d1]; { .reg "
                                    ".pred p; L: @p bra L; } ret; }\n"
                                    ".global .u32 x[3] = {1,2,3}; .func f() { ret; }";
    size_t need = 0;
    for (size_t limit = 64; need == 0; limit += limit / 32 + 16) {
        struct pl_arena a;
        pl_arena_init(&a, NULL, limit);
        struct pl_ptx_module out;
        if (pl_ptx_parse(text, sizeof text - 1, &a, &out, &error))
            need = limit;
        else
            ck_assert_msg(error.code == 8023, "%zu bytes: PL%d %s", limit, error.code, error.text);
        pl_arena_fini(&a);
    }
    ck_assert_uint_lt(need, 4 << 20);
}
END_TEST

START_TEST(every_prefix_and_every_changed_byte_is_survived)
{
    static const char text[] = BODY
        "add.s32 r1, r2, r3; ld.global.v2.u32 {r1,r2}, [d1+8];\n{ .reg .pred p; L: @!p bra L; }\n"
        "mov.b64 {r1,r2}, d1; call.uni f, (r1); }\n.global .f32 x[3] = {1.5,-2,generic(x)}; .func "
        "f(.reg .b32 a) { ret; }";
    char changed[sizeof text];
    struct pl_ptx_module out;
    for (size_t n = 0; n < sizeof text; n++) {
        struct pl_arena a = {0};
        pl_ptx_parse(text, n, &a, &out, &error);
        pl_arena_fini(&a);
    }
    uint32_t state = 1;
    for (int k = 0; k < 20000; k++) {
        struct pl_arena a = {0};
        memcpy(changed, text, sizeof text);
        for (int i = 0; i < 3; i++) {
            state = state * 1664525u + 1013904223u;
            changed[state >> 8 & 255 ? (state >> 8) % (sizeof text - 1) : 0] = (char)(state >> 24);
        }
        pl_ptx_parse(changed, sizeof text - 1, &a, &out, &error);
        pl_arena_fini(&a);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ptx_parse");
    TCase *t = tcase_create("modules");
    tcase_add_checked_fixture(t, NULL, fresh);
    tcase_add_test(t, elements_by_register_are_printed_as_such);
    tcase_add_test(t, header_takes_options_and_debug_sections);
    tcase_add_test(t, header_of_a_later_version);
    tcase_add_test(t, entry_has_parameters_at_their_offsets_and_directives);
    tcase_add_test(t, variables_have_initialisers);
    tcase_add_test(t, blocks_repeat_names_of_registers_labels_and_variables);
    tcase_add_test(t, operands_are_read_without_spaces_and_in_every_kind);
    tcase_add_test(t, calls_have_four_operands);
    tcase_add_test(t, numbers_are_exact);
    suite_add_tcase(s, t);
    t = tcase_create("mistakes");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, mistake_is_found_at_its_line_and_column, 0, N_MISTAKES);
    tcase_add_test(t, every_diagnostic_is_raised);
    tcase_add_test(t, limits_are_errors);
    tcase_add_test(t, want_of_memory_is_clean_at_every_size);
    tcase_add_test(t, every_prefix_and_every_changed_byte_is_survived);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
