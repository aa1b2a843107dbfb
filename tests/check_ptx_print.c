/* The printer as the emitter uses it: instructions and modules built without parsing, in exactly this text, which parses. */
#include "jit/ptx/print.h"

#include <check.h>
#include <locale.h>
#include <string.h>

static struct pl_arena arena;
static struct pl_buf buf;

static void setup(void) { pl_buf_init(&buf, &arena, 16); }
static void teardown(void) { pl_arena_fini(&arena); }

static const char *const vars[] = {"smem", "map"};
static const char *const funcs[] = {"helper"};
static const struct pl_ptx_printer printer = {.buf = &buf, .var_names = vars, .func_names = funcs};

static void print(const struct pl_ptx_ins *ins, const struct pl_ptx_operand *ops,
                  const char *wanted)
{
    buf.n_bytes = 0;
    pl_ptx_print_ins(&printer, ins, ops);
    ck_assert_str_eq(buf.text, wanted);
}

START_TEST(operands_of_every_kind)
{
    struct pl_ptx_operand fma[] = {pl_ptx_reg(PL_PTX_TYPE_F32, 0), pl_ptx_reg(PL_PTX_TYPE_F32, 12),
                                   pl_ptx_f32(0x3f800000), pl_ptx_reg(PL_PTX_TYPE_F32, 16777215)};
    struct pl_ptx_ins ins = pl_ptx_ins_make(PL_PTX_fma_f32, 4);
    pl_ptx_ins_set(&ins, PL_PTX_MOD_RND_RN);
    pl_ptx_ins_guard(&ins, 3, true);
    print(&ins, fma, "@!%p3 fma.rn.f32 %f0, %f12, 0f3F800000, %f16777215;\n");

    struct pl_ptx_operand ld[] = {pl_ptx_vector(2, 4),
                                  pl_ptx_addr_reg(PL_PTX_TYPE_B64, 2, -16),
                                  pl_ptx_reg(PL_PTX_TYPE_B32, 1),
                                  pl_ptx_sink(),
                                  pl_ptx_reg(PL_PTX_TYPE_B32, 3),
                                  pl_ptx_reg(PL_PTX_TYPE_B32, 4)};
    ins = pl_ptx_ins_make(PL_PTX_ld, 2);
    pl_ptx_ins_set(&ins, PL_PTX_MOD_VEC_V4);
    pl_ptx_ins_set(&ins, PL_PTX_MOD_SPACE_GLOBAL);
    pl_ptx_ins_set(&ins, PL_PTX_MOD_L1_NO_ALLOCATE);
    ins.types[0] = PL_PTX_TYPE_B32;
    print(&ins, ld, "ld.global.L1::no_allocate.v4.b32 {%r1, _, %r3, %r4}, [%rd2+-16];\n");

    struct pl_ptx_operand mov[] = {pl_ptx_reg(PL_PTX_TYPE_B32, 5), pl_ptx_var(0, 128)};
    ins = pl_ptx_ins_make(PL_PTX_mov, 2);
    ins.types[0] = PL_PTX_TYPE_U32;
    print(&ins, mov, "mov.u32 %r5, smem+128;\n");
    mov[1] = pl_ptx_special(PL_PTX_SREG_ctaid, 2);
    print(&ins, mov, "mov.u32 %r5, %ctaid.z;\n");
    mov[1] = pl_ptx_imm(INT64_MIN);
    print(&ins, mov, "mov.u32 %r5, -9223372036854775808;\n");

    struct pl_ptx_operand sub[] = {pl_ptx_reg(PL_PTX_TYPE_F64, 1), pl_ptx_reg(PL_PTX_TYPE_F64, 2),
                                   pl_ptx_f64(UINT64_C(0xbff0000000000000))};
    ins = pl_ptx_ins_make(PL_PTX_sub_f64, 3);
    print(&ins, sub, "sub.f64 %fd1, %fd2, 0dBFF0000000000000;\n");

    struct pl_ptx_operand elect[] = {pl_ptx_pair(2), pl_ptx_imm(-1), pl_ptx_sink(),
                                     pl_ptx_reg(PL_PTX_TYPE_PRED, 1)};
    ins = pl_ptx_ins_make(PL_PTX_elect_sync, 2);
    print(&ins, elect, "elect.sync _|%p1, -1;\n");

    struct pl_ptx_operand bra[] = {pl_ptx_label(12)};
    ins = pl_ptx_ins_make(PL_PTX_bra, 1);
    print(&ins, bra, "bra $L12;\n");

    struct pl_ptx_operand tma[] = {pl_ptx_addr_reg(PL_PTX_TYPE_B32, 1, 0), pl_ptx_tensor(3),
                                   pl_ptx_addr_var(0, 8), pl_ptx_addr_reg(PL_PTX_TYPE_B64, 4, 0),
                                   pl_ptx_range(PL_PTX_TYPE_B32, 7, 2)};
    ins = pl_ptx_ins_make(PL_PTX_cp_async_bulk_tensor_g2s, 3);
    pl_ptx_ins_set(&ins, PL_PTX_MOD_DIM_D2);
    pl_ptx_ins_set(&ins, PL_PTX_MOD_TMODE_TILE);
    print(&ins, tma,
          "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], "
          "[%rd4, {%r7, %r8}], [smem+8];\n");

    struct pl_ptx_operand wgmma[] = {pl_ptx_range(PL_PTX_TYPE_F32, 4, 4),
                                     pl_ptx_reg(PL_PTX_TYPE_B64, 0),
                                     pl_ptx_reg(PL_PTX_TYPE_B64, 1),
                                     pl_ptx_not(pl_ptx_reg(PL_PTX_TYPE_PRED, 2)),
                                     pl_ptx_imm(1),
                                     pl_ptx_imm(-1),
                                     pl_ptx_imm(0),
                                     pl_ptx_imm(1)};
    ins = pl_ptx_ins_make(PL_PTX_wgmma_f32_bf16_ss, 8);
    ins.shape_n = 8;
    print(&ins, wgmma,
          "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f4, %f5, %f6, %f7}, %rd0, %rd1, "
          "!%p2, 1, -1, 0, 1;\n");

    struct pl_ptx_operand call[] = {pl_ptx_vector(0, 0),
                                    {.kind = PL_PTX_OP_FUNC, .first = 0},
                                    pl_ptx_vector(3, 1),
                                    pl_ptx_reg(PL_PTX_TYPE_B16, 1)};
    ins = pl_ptx_ins_make(PL_PTX_call, 3);
    print(&ins, call, "call helper, (%h1);\n");
    ins = pl_ptx_ins_make(PL_PTX_ret, 0);
    print(&ins, NULL, "ret;\n");
}
END_TEST

START_TEST(a_module_is_printed_and_parses)
{
    setlocale(LC_ALL, "de_DE.UTF-8"); /* nothing may depend on it */
    pl_ptx_print_header(&buf, 80, 90, 'a');
    const struct pl_ptx_var smem = {.name = "smem",
                                    .space = PL_PTX_SPACE_SHARED,
                                    .type = PL_PTX_TYPE_B8,
                                    .align_bytes = 1024,
                                    .is_extern = true};
    pl_ptx_print_var(&buf, &smem);
    const struct pl_ptx_param params[] = {
        {.name = "map", .type = PL_PTX_TYPE_B8, .align_bytes = 64, .n_elems = 128},
        {.name = "n", .type = PL_PTX_TYPE_U32}};
    const struct pl_ptx_entry entry = {.name = "pl_copy_1a2b3c4d",
                                       .params = params,
                                       .n_params = 2,
                                       .max_ntid = {128, 1, 1},
                                       .max_nreg = 168,
                                       .req_cluster = {2, 1, 1}};
    pl_ptx_print_entry(&buf, &entry);
    pl_ptx_print_regs(&buf, PL_PTX_TYPE_PRED, 2);
    pl_ptx_print_regs(&buf, PL_PTX_TYPE_B64, 0);
    pl_ptx_print_regs(&buf, PL_PTX_TYPE_B32, 3);
    pl_ptx_print_label(&buf, 4);
    const struct pl_ptx_operand ops[] = {pl_ptx_reg(PL_PTX_TYPE_B32, 2), pl_ptx_addr_var(1, 0)};
    const char *const names[] = {"smem", "n"};
    const struct pl_ptx_printer pr = {.buf = &buf, .var_names = names};
    struct pl_ptx_ins ins = pl_ptx_ins_make(PL_PTX_ld, 2);
    pl_ptx_ins_set(&ins, PL_PTX_MOD_SPACE_PARAM);
    ins.types[0] = PL_PTX_TYPE_U32;
    pl_ptx_print_ins(&pr, &ins, ops);
    pl_ptx_print_end(&buf);
    ck_assert_str_eq(buf.text,
                     ".version 8.0\n.target sm_90a\n.address_size 64\n"
                     ".extern .shared .align 1024 .b8 smem[];\n"
                     ".visible .entry pl_copy_1a2b3c4d(\n    .param .align 64 .b8 map[128],\n    "
                     ".param .u32 n)\n"
                     ".maxntid 128, 1, 1\n.maxnreg 168\n.reqnctapercluster 2, 1, 1\n{\n"
                     ".reg .pred %p<2>;\n.reg .b32 %r<3>;\n$L4:\nld.param.u32 %r2, [n];\n}\n");
    struct pl_ptx_module m;
    struct pl_ptx_error error;
    ck_assert_msg(pl_ptx_parse(buf.text, buf.n_bytes, &arena, &m, &error), "%u:%u: %s", error.line,
                  error.column, error.text);
    ck_assert_uint_eq(m.funcs.data[0].param_n_bytes, 132);
    setlocale(LC_ALL, "C");
}
END_TEST

START_TEST(want_of_memory_stops_the_text_and_nothing_else)
{
    for (size_t limit = 1; limit < 4000; limit += 97) {
        struct pl_arena small;
        struct pl_buf b;
        pl_arena_init(&small, NULL, limit);
        pl_buf_init(&b, &small, 0);
        const struct pl_ptx_printer pr = {.buf = &b, .var_names = vars};
        struct pl_ptx_operand ops[] = {pl_ptx_range(PL_PTX_TYPE_F32, 0, 64),
                                       pl_ptx_reg(PL_PTX_TYPE_B64, 0), pl_ptx_addr_var(0, 4)};
        struct pl_ptx_ins ins = pl_ptx_ins_make(PL_PTX_st, 3);
        for (int i = 0; i < 10; i++)
            pl_ptx_print_ins(&pr, &ins, ops);
        ck_assert(pl_arena_is_exhausted(&small));
        pl_arena_fini(&small);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("ptx_print");
    TCase *t = tcase_create("emitter");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, operands_of_every_kind);
    tcase_add_test(t, a_module_is_printed_and_parses);
    tcase_add_test(t, want_of_memory_stops_the_text_and_nothing_else);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
