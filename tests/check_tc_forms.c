/*
 * tcgen05.mma, cp and shift beyond the plain product (tests/check_tcgen05.c): every kind and layout, on tensor memory and shared
 * memory that the test fills whole. Afterwards every cell of tensor memory is compared, also those that nothing may touch.
 *
 * Where things stand comes from tables that were computed apart from any emulator (tests/ptx/tables); products are sums of small
 * numbers in double, which f32 holds exactly.
 */
#include "emu/launch.h"
#include "tests/random.h"

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 128, COLUMNS = 512, SMEM_BYTES = 1 << 16, MAX_CTAS = 2, N_VALUES = 8 };
enum {
    AT_A = 0,
    AT_B = 1 << 14,
    AT_B2 = 1 << 15,
    COL_D = 0,
    COL_A = 256,
    COL_SFA = 320,
    COL_SFB = 384
};

static struct random_source rnd;
static char text[1 << 14];
static size_t text_n;

/* Of each CTA, before and (by our reference) after; shared memory; what the kernel finds in d0, d1, …. */
static uint32_t cells[MAX_CTAS][LANES][COLUMNS], want[MAX_CTAS][LANES][COLUMNS];
static uint8_t shared[MAX_CTAS][SMEM_BYTES];
static uint64_t values[N_VALUES];

static void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text + text_n, sizeof text - text_n, fmt, ap);
    va_end(ap);
    ck_assert_int_ge(n, 0);
    text_n += (size_t)n;
    ck_assert_uint_lt(text_n, sizeof text);
}

static void say_list(const char *what)
{
    for (uint32_t i = 0; i < 32; i++)
        say("%s%s%u", i == 0 ? "{" : ", ", what, i);
    say("}");
}

/*
 * Fill, execute, copy out. `body` is run by thread 0 of CTA 0: ta is the address of tensor memory, d0 … d7 the values, s4 the
 * shared address of the image / 16, f and t predicates that are false and true.
 */
static void say_kernel(uint32_t sm, uint32_t n_ctas, const char *body)
{
    text_n = 0;
    say(".version 9.0\n.target sm_%ua\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n",
        sm);
    say(".visible .entry k(.param .u64 in, .param .u64 tm, .param .u64 out, .param .u64 vals)\n{\n"
        ".shared .align 8 .b64 done;\n.shared .align 4 .b32 slot;\n"
        ".reg .pred p, f, t, lead, warp0;\n.reg .b16 both;\n"
        ".reg .b32 tid, w, s, a, ta, tl, rank, i, n, r<32>;\n.reg .b64 g, o, d<8>, s4;\n");
    say("mov.u32 tid, %%tid.x;\nshr.u32 w, tid, 5;\nmov.u32 rank, %%cluster_ctarank;\n"
        "setp.eq.u32 warp0, w, 0;\nor.b32 i, tid, rank;\nsetp.eq.u32 lead, i, 0;\n"
        "setp.ne.u32 f, 0, 0;\nsetp.eq.u32 t, 0, 0;\n");
    say("ld.param.u64 g, [in];\ncvta.to.global.u64 g, g;\nmul.wide.u32 o, rank, %u;\n"
        "add.u64 g, g, o;\nmul.wide.u32 o, tid, 16;\nadd.u64 g, g, o;\nmov.u32 s, dyn;\n"
        "mad.lo.u32 a, tid, 16, s;\nmov.u32 n, %u;\n",
        SMEM_BYTES, SMEM_BYTES / 2048);
    say("FILL:\nld.global.v4.u32 {r0, r1, r2, r3}, [g];\nst.shared.v4.u32 [a], {r0, r1, r2, r3};\n"
        "add.u64 g, g, 2048;\nadd.u32 a, a, 2048;\nsub.u32 n, n, 1;\nsetp.ne.u32 p, n, 0;\n"
        "@p bra FILL;\n");
    say("setp.eq.u32 p, tid, 0;\n@p mbarrier.init.shared::cta.b64 [done], 1;\n"
        "@p fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;\n");
    say("@!warp0 bra A;\nbar.warp.sync -1;\n"
        "tcgen05.alloc.cta_group::%u.sync.aligned.shared::cta.b32 [slot], 512;\nA:\nbar.sync 0;\n"
        "ld.shared.u32 ta, [slot];\nshl.b32 tl, w, 21;\nadd.u32 tl, tl, ta;\n",
        n_ctas);
    say("ld.param.u64 g, [tm];\ncvta.to.global.u64 g, g;\nmad.lo.u32 i, rank, 128, tid;\n"
        "mul.wide.u32 o, i, 2048;\nadd.u64 g, g, o;\nmov.u32 n, 16;\nmov.u32 a, tl;\nINIT:\n");
    for (uint32_t i = 0; i < 32; i += 4)
        say("ld.global.v4.u32 {r%u, r%u, r%u, r%u}, [g+%u];\n", i, i + 1, i + 2, i + 3, i * 4);
    say("tcgen05.st.sync.aligned.32x32b.x32.b32 [a], ");
    say_list("r");
    say(";\ntcgen05.wait::st.sync.aligned;\nadd.u64 g, g, 128;\nadd.u32 a, a, 32;\n"
        "sub.u32 n, n, 1;\nsetp.ne.u32 p, n, 0;\n@p bra INIT;\n");
    say("tcgen05.fence::before_thread_sync;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        "tcgen05.fence::after_thread_sync;\n@!lead bra W;\n");
    say("ld.param.u64 g, [vals];\ncvta.to.global.u64 g, g;\nshr.u32 s, s, 4;\ncvt.u64.u32 s4, "
        "s;\n");
    for (uint32_t i = 0; i < N_VALUES; i++)
        say("ld.global.u64 d%u, [g+%u];\n", i, i * 8);
    say("%s\n", body);
    if (n_ctas == 2)
        say("mov.b16 both, 3;\ntcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
            ".multicast::cluster.b64 [done], both;\n");
    else
        say("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];\n");
    say("W:\nmbarrier.try_wait.parity.shared::cta.b64 p, [done], 0;\n@!p bra W;\nbar.warp.sync "
        "-1;\n"
        "tcgen05.fence::after_thread_sync;\n");
    say("ld.param.u64 g, [out];\ncvta.to.global.u64 g, g;\nmad.lo.u32 i, rank, 128, tid;\n"
        "mul.wide.u32 o, i, 2048;\nadd.u64 g, g, o;\nmov.u32 n, 16;\nmov.u32 a, tl;\nREAD:\n"
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 ");
    say_list("r");
    say(", [a];\ntcgen05.wait::ld.sync.aligned;\n");
    for (uint32_t i = 0; i < 32; i += 4)
        say("st.global.v4.u32 [g+%u], {r%u, r%u, r%u, r%u};\n", i * 4, i, i + 1, i + 2, i + 3);
    say("add.u64 g, g, 128;\nadd.u32 a, a, 32;\nsub.u32 n, n, 1;\nsetp.ne.u32 p, n, 0;\n"
        "@p bra READ;\ntcgen05.fence::before_thread_sync;\nbarrier.cluster.arrive;\n"
        "barrier.cluster.wait;\n@!warp0 bra E;\nbar.warp.sync -1;\n"
        "tcgen05.dealloc.cta_group::%u.sync.aligned.b32 ta, 512;\nE:\nret;\n}\n",
        n_ctas);
}

static const struct pl_emu_allocation *copy_in(struct pl_emu_device *d, const void *from,
                                               uint64_t n_bytes)
{
    const struct pl_emu_allocation *a =
        pl_emu_memory_alloc(pl_emu_device_memory(d), n_bytes, 1024, NULL);
    ck_assert_ptr_nonnull(a);
    memcpy(a->host, from, n_bytes);
    return a;
}

static void run_kernel(uint32_t sm, uint32_t n_ctas, const char *what)
{
    struct pl_emu_config c = {.sm = (uint16_t)sm,
                              .n_sms = 1,
                              .memory_bytes = 1 << 26,
                              .check = PL_EMU_CHECK_FAULTS,
                              .policy = (enum pl_emu_policy)random_below(&rnd, 3),
                              .seed = random_u64(&rnd),
                              .n_threads = 1,
                              .step_limit = 1 << 22};
    struct pl_emu_device *d = pl_emu_device_create(&c);
    struct pl_emu_program *program = NULL;
    struct pl_emu_fault fault;
    ck_assert_ptr_nonnull(d);
    ck_assert_msg(pl_emu_program_load(d, text, text_n, &program, &fault), "%s: line %u: %s\n%s",
                  what, fault.line, fault.text, text);
    const struct pl_emu_allocation *out = copy_in(d, cells, sizeof cells);
    const uint64_t params[4] = {copy_in(d, shared, sizeof shared)->address,
                                copy_in(d, cells, sizeof cells)->address, out->address,
                                copy_in(d, values, sizeof values)->address};
    struct pl_emu_launch l = {.func = pl_emu_program_find(program, "k"),
                              .params = params,
                              .grid = {n_ctas, 1, 1},
                              .block = {128, 1, 1},
                              .cluster = {n_ctas, 1, 1},
                              .dynamic_shared_bytes = SMEM_BYTES};
    ck_assert_msg(pl_emu_launch(d, &l, &fault), "%s: PL%d line %u: %s", what, fault.code,
                  fault.line, fault.text);
    for (uint32_t cta = 0; cta < n_ctas; cta++)
        for (uint32_t lane = 0; lane < LANES; lane++)
            for (uint32_t column = 0; column < COLUMNS; column++) {
                uint32_t got, wanted = want[cta][lane][column];
                memcpy(&got, out->host + ((cta * LANES + lane) * COLUMNS + column) * 4, 4);
                ck_assert_msg(got == wanted,
                              "%s: CTA %u lane %u column %u: 0x%x, not 0x%x (was 0x%x)", what, cta,
                              lane, column, got, wanted, cells[cta][lane][column]);
            }
    pl_emu_program_unload(program);
    pl_emu_device_destroy(d);
}

static void fill_all(void)
{
    for (uint32_t cta = 0; cta < MAX_CTAS; cta++) {
        for (uint32_t i = 0; i < SMEM_BYTES; i++)
            shared[cta][i] = (uint8_t)random_u64(&rnd);
        for (uint32_t lane = 0; lane < LANES; lane++)
            for (uint32_t column = 0; column < COLUMNS; column++)
                cells[cta][lane][column] = (uint32_t)random_u64(&rnd);
    }
    memcpy(want, cells, sizeof want);
    memset(values, 0, sizeof values);
}

static FILE *open_table(const char *name)
{
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/tests/ptx/tables/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL && fgets(line, sizeof line, f) != NULL, "no %s", path);
    return f;
}

/* A K-major matrix without swizzle: groups of 8 rows every 128 bytes, 16-byte columns every lbo bytes. */
static uint64_t plain_desc(uint32_t at, uint32_t lbo)
{
    return UINT64_C(1) << 46 | (uint64_t)(128 / 16) << 32 | (uint64_t)(lbo / 16) << 16 | at / 16;
}

static uint32_t plain_offset(uint32_t row, uint32_t byte, uint32_t lbo)
{
    return row % 8 * 16 + row / 8 * 128 + byte % 16 + byte / 16 * lbo;
}

/* ---- cp ---------------------------------------------------------------------------------------------------------------------- */

static const char *const cp_shapes[] = {
    "128x256b",      "4x256b", "128x128b", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23",
    "32x128b.warpx4"};
static const char *const cp_formats[] = {"", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64"};
enum { N_CP_SHAPES = 6, N_CP = N_CP_SHAPES * 3 * MAX_CTAS };

/* Byte j of a group of 16 after the expansion; 4-bit elements stand in bits 2 to 5 (docs/hardware-assumptions.md). */
static uint32_t expanded(const uint8_t *group, uint32_t format, uint32_t j)
{
    uint32_t v = 0, n_bits = format == 1 ? 6 : 4;
    if (format == 0)
        return group[j];
    for (uint32_t b = 0; b < n_bits; b++)
        v |= (uint32_t)(group[(j * n_bits + b) / 8] >> (j * n_bits + b) % 8 & 1) << b;
    return format == 1 ? v : v << 2;
}

START_TEST(copies_go_where_the_table_says)
{
    random_turn(&rnd, _i);
    const char *shape = cp_shapes[_i % N_CP_SHAPES];
    uint32_t format = (uint32_t)_i / N_CP_SHAPES % 3, n_ctas = 1 + (uint32_t)_i / (N_CP_SHAPES * 3),
             lbo = 2048, n_rows = 0;
    char body[300], line[256];
    fill_all();
    values[0] = plain_desc(AT_A, lbo);
    snprintf(body, sizeof body,
             "add.u64 d0, d0, s4;\nadd.u32 ta, ta, 40;\ntcgen05.cp.cta_group::%u.%s%s [ta], d0;\n"
             "sub.u32 ta, ta, 40;\n",
             n_ctas, shape, cp_formats[format]);
    FILE *f = open_table("tcgen05_cp_lanes.tsv");
    while (fgets(line, sizeof line, f) != NULL) {
        char name[40], lanes[60];
        unsigned row, n_columns;
        ck_assert_int_eq(sscanf(line, "%39s %u %59s %u", name, &row, lanes, &n_columns), 4);
        if (strcmp(name, shape) != 0)
            continue;
        n_rows++;
        for (char *lane = strtok(lanes, ","); lane != NULL; lane = strtok(NULL, ","))
            for (uint32_t cta = 0; cta < n_ctas; cta++)
                for (uint32_t j = 0; j < n_columns * 4; j++) {
                    const uint8_t *group = &shared[cta][AT_A + plain_offset(row, j & ~15u, lbo)];
                    uint32_t *cell = &want[cta][atoi(lane)][40 + j / 4];
                    *cell &= ~(0xffu << 8 * (j % 4));
                    *cell |= expanded(group, format, j % 16) << 8 * (j % 4);
                }
    }
    fclose(f);
    ck_assert_uint_gt(n_rows, 3);
    say_kernel(100, n_ctas, body);
    run_kernel(100, n_ctas, shape);
}
END_TEST

/* ---- shift ------------------------------------------------------------------------------------------------------------------- */

START_TEST(rows_shift_within_a_quarter)
{
    random_turn(&rnd, _i);
    uint32_t n_ctas = 1 + (uint32_t)_i, quarter = (uint32_t)random_below(&rnd, 4);
    char body[300];
    fill_all();
    for (uint32_t cta = 0; cta < n_ctas; cta++)
        for (uint32_t lane = 32 * quarter; lane < 32 * quarter + 31; lane++)
            memcpy(&want[cta][lane][24], &cells[cta][lane + 1][24], 32);
    snprintf(body, sizeof body, "tcgen05.shift.cta_group::%u.down [ta+%u];\n", n_ctas,
             quarter << 21 | 24);
    say_kernel(100, n_ctas, body);
    run_kernel(100, n_ctas, "shift");
}
END_TEST

/* ---- products ----------------------------------------------------------------------------------------------------------------- */

enum fmt { F16, BF16, TF32, E4M3, E5M2, E2M3, E3M2, E2M1, S8, U8, N_FMTS };

static const struct fmt_row {
    uint32_t bits, code,
        n; /* code: in the instruction descriptor; n encodings to choose from, below */
    uint32_t encodings[8];
    double numbers[8];
} fmts[N_FMTS] = {
    [F16] = {16, 0, 5, {0xc000, 0xbc00, 0, 0x3c00, 0x4000}, {-2, -1, 0, 1, 2}},
    [BF16] = {16, 1, 5, {0xc000, 0xbf80, 0, 0x3f80, 0x4000}, {-2, -1, 0, 1, 2}},
    [TF32] = {32, 2, 5, {0xc0000000, 0xbf800000, 0, 0x3f801fff, 0x40000000}, {-2, -1, 0, 1, 2}},
    [E4M3] = {8, 0, 5, {0xc0, 0xb8, 0, 0x38, 0x44}, {-2, -1, 0, 1, 3}},
    [E5M2] = {8, 1, 5, {0xc0, 0xbc, 0, 0x3c, 0x42}, {-2, -1, 0, 1, 3}},
    [E2M3] =
        {6, 3, 8, {0, 1, 7, 8, 15, 0x1f, 0x21, 0x3f}, {0, .125, .875, 1, 1.875, 7.5, -.125, -7.5}},
    [E3M2] =
        {6, 4, 8, {0, 1, 3, 4, 0xc, 0x1f, 0x21, 0x3f}, {0, .0625, .1875, .25, 1, 28, -.0625, -28}},
    [E2M1] = {4, 5, 8, {0, 1, 2, 3, 5, 7, 9, 15}, {0, .5, 1, 1.5, 3, 6, -.5, -6}},
    [S8] = {8, 1, 8, {0, 1, 2, 0x7f, 0x80, 0xff, 0xfe, 5}, {0, 1, 2, 127, -128, -1, -2, 5}},
    [U8] = {8, 0, 6, {0, 1, 2, 0x7f, 0x80, 0xff}, {0, 1, 2, 127, 128, 255}},
};

enum layout { LAYOUT_A, LAYOUT_B, LAYOUT_D, LAYOUT_E, LAYOUT_F, LAYOUT_G };

struct mma_case {
    const char *form, *kind, *suffix; /* tcgen05.mma FORM .kind::KIND SUFFIX */
    enum fmt a, b;
    uint32_t d_code; /* 0 f16, 1 f32, 2 s32 */
    uint32_t m, n, k;
    enum layout layout;
    bool is_pair, is_ta, has_d, is_negated; /* is_negated: A */
    uint32_t scale_k, id_a, id_b;           /* elements a factor; ids */
    bool is_ue4m3, is_saturating, has_zero_mask, has_lane_mask;
    uint32_t k96_step;
};

#define WS(fa, fb, ki, m_, n_, l, ...)                                                             \
    {                                                                                              \
        .form = ".ws", .kind = ki, .a = fa, .b = fb, .m = m_, .n = n_, .layout = l, __VA_ARGS__    \
    }
#define MX(ki, sfx, fa, fb, m_, n_, k_, sk, ...)                                                   \
    {                                                                                              \
        .form = "", .kind = ki, .suffix = sfx, .a = fa, .b = fb, .d_code = 1, .m = m_, .n = n_,    \
        .k = k_, .scale_k = sk, __VA_ARGS__                                                        \
    }
#define PLAIN(fa, fb, ki, dc, m_, n_, l, ...)                                                      \
    {                                                                                              \
        .form = "", .kind = ki, .a = fa, .b = fb, .d_code = dc, .m = m_, .n = n_, .layout = l,     \
        __VA_ARGS__                                                                                \
    }
#define PAIR .is_pair = true
static const struct mma_case mma_cases[] = {
    PLAIN(F16, BF16, "f16", 1, 128, 64, LAYOUT_D, .has_d = true, .is_negated = true),
    PLAIN(BF16, BF16, "f16", 1, 64, 24, LAYOUT_F, .has_d = true, .has_lane_mask = true),
    PLAIN(BF16, F16, "f16", 1, 128, 64, LAYOUT_B, PAIR, .has_d = true, .has_lane_mask = true),
    PLAIN(BF16, BF16, "f16", 1, 256, 32, LAYOUT_A, PAIR, .has_d = true, .has_lane_mask = true),
    PLAIN(F16, F16, "f16", 1, 128, 32, LAYOUT_D, .is_ta = true, .suffix = ".ashift"),
    PLAIN(BF16, BF16, "f16", 1, 256, 32, LAYOUT_A, PAIR, .is_ta = true, .suffix = ".ashift"),
    PLAIN(TF32, TF32, "tf32", 1, 64, 16, LAYOUT_F, .is_ta = true, .has_d = true),
    PLAIN(TF32, TF32, "tf32", 1, 128, 32, LAYOUT_B, PAIR, .is_ta = true),
    PLAIN(E2M3, E3M2, "f8f6f4", 1, 128, 64, LAYOUT_D, .has_d = true),
    PLAIN(E3M2, E2M1, "f8f6f4", 1, 64, 40, LAYOUT_F, .has_d = false),
    PLAIN(E2M1, E5M2, "f8f6f4", 1, 128, 48, LAYOUT_D, .is_ta = true),
    PLAIN(E3M2, E4M3, "f8f6f4", 1, 256, 48, LAYOUT_A, PAIR, .is_ta = true, .is_negated = true),
    PLAIN(E2M3, E2M3, "f8f6f4", 1, 128, 32, LAYOUT_D, .is_ta = true, .has_d = true),
    PLAIN(S8, U8, "i8", 2, 128, 48, LAYOUT_D, .has_d = true, .is_saturating = true),
    PLAIN(U8, S8, "i8", 2, 64, 24, LAYOUT_F, .has_d = true),
    PLAIN(S8, S8, "i8", 2, 256, 64, LAYOUT_A, PAIR, .has_d = true, .is_saturating = true),
    WS(BF16, BF16, "f16", 128, 64, LAYOUT_D, .d_code = 1, .has_d = true),
    WS(F16, F16, "f16", 64, 128, LAYOUT_E, .d_code = 1, .has_d = true),
    WS(BF16, BF16, "f16", 32, 256, LAYOUT_G, .d_code = 1, .has_d = true),
    WS(TF32, TF32, "tf32", 64, 64, LAYOUT_E, .d_code = 1, .has_zero_mask = true),
    WS(E4M3, E3M2, "f8f6f4", 32, 64, LAYOUT_G, .d_code = 1, .has_zero_mask = true, .has_d = true),
    WS(S8, U8, "i8", 128, 64, LAYOUT_D, .d_code = 2, .has_zero_mask = true, .is_saturating = true),
    WS(BF16, F16, "f16", 128, 256, LAYOUT_D, .d_code = 1, .is_ta = true),
    MX("mxf8f6f4", "", E4M3, E5M2, 128, 64, 32, 32, .layout = LAYOUT_D, .id_a = 3, .id_b = 2),
    MX("mxf8f6f4", ".scale_vec::1X", E2M3, E2M1, 128, 32, 32, 32, .layout = LAYOUT_D,
       .has_d = true),
    MX("mxf8f6f4", ".block32", E3M2, E4M3, 256, 256, 32, 32, PAIR, .layout = LAYOUT_A, .id_b = 1),
    MX("mxf8f6f4", ".block32", E4M3, E4M3, 128, 64, 32, 32, PAIR, .layout = LAYOUT_B, .id_a = 1),
    MX("mxf8f6f4", ".block32", E2M1, E4M3, 128, 64, 32, 32, .layout = LAYOUT_D, .is_ta = true),
    MX("mxf4", ".block32", E2M1, E2M1, 128, 64, 64, 32, .layout = LAYOUT_D, .id_a = 2, .id_b = 2),
    MX("mxf4", ".scale_vec::2X", E2M1, E2M1, 128, 128, 64, 32, PAIR, .layout = LAYOUT_B, .id_b = 2),
    MX("mxf4", "", E2M1, E2M1, 256, 64, 64, 32, PAIR, .layout = LAYOUT_A, .is_ta = true),
    MX("mxf4nvf4", ".block16", E2M1, E2M1, 128, 64, 64, 16, .layout = LAYOUT_D, .is_ue4m3 = true),
    MX("mxf4nvf4", ".scale_vec::4X", E2M1, E2M1, 256, 256, 64, 16, PAIR, .layout = LAYOUT_A),
    MX("mxf4nvf4", ".scale_vec::2X", E2M1, E2M1, 128, 48, 64, 32, .layout = LAYOUT_D, .id_a = 2),
    MX("mxf4nvf4", ".block16", E2M1, E2M1, 128, 64, 64, 16, .layout = LAYOUT_D, .is_ta = true,
       .is_ue4m3 = true, .has_d = true),
    MX("mxf4", ".block32", E2M1, E2M1, 256, 128, 96, 32, PAIR, .layout = LAYOUT_A, .k96_step = 0),
    MX("mxf4", ".block32", E2M1, E2M1, 256, 256, 96, 32, PAIR, .layout = LAYOUT_A, .k96_step = 1,
       .id_a = 3, .id_b = 3),
    MX("mxf4nvf4", ".block16", E2M1, E2M1, 256, 128, 96, 16, PAIR, .layout = LAYOUT_A,
       .k96_step = 2, .is_ue4m3 = true),
    MX("mxf4nvf4", ".block16", E2M1, E2M1, 256, 256, 96, 16, PAIR, .layout = LAYOUT_A,
       .k96_step = 5, .id_a = 2, .id_b = 2, .is_ue4m3 = true),
};
enum { N_MMA = sizeof mma_cases / sizeof mma_cases[0] };

struct place {
    uint32_t cta, lane, column;
};

static struct place d_place(enum layout l, uint32_t m, uint32_t n, uint32_t n_all)
{
    switch (l) {
    case LAYOUT_A: return (struct place){m / 128, m % 128, n};
    case LAYOUT_B:
        return (struct place){m / 64, m % 64 + (n < n_all / 2 ? 0 : 64), n % (n_all / 2)};
    case LAYOUT_D: break;
    case LAYOUT_E: return (struct place){0, m + (n < n_all / 2 ? 0 : 64), n % (n_all / 2)};
    case LAYOUT_F: return (struct place){0, m % 16 + 32 * (m / 16), n};
    case LAYOUT_G: return (struct place){0, m + n / (n_all / 4) * 32, n % (n_all / 4)};
    }
    return (struct place){0, m, n};
}

START_TEST(d_places_are_those_of_the_table)
{
    FILE *f = open_table("tcgen05_accumulators.tsv");
    unsigned n_rows = 0;
    for (char line[256]; fgets(line, sizeof line, f) != NULL;) {
        char name[20];
        unsigned m_all, n_all, m, n, cta, lane, column;
        ck_assert_int_eq(sscanf(line, "%19s %u %u %u %u %u %u %u", name, &m_all, &n_all, &m, &n,
                                &cta, &lane, &column),
                         8);
        static const char letters[] = "ABDEFG";
        const char *at = strchr(letters, name[0]);
        if (at == NULL) /* C: sparse */
            continue;
        struct place p = d_place((enum layout)(at - letters), m, n, n_all);
        ck_assert_msg(p.cta == cta && p.lane == lane && p.column == column, "%s", line);
        n_rows++;
    }
    fclose(f);
    ck_assert_uint_eq(n_rows, 5376);
}
END_TEST

/* Factor s of row i, from the column of the operand on: lanes first, first + 32, … first + 32 (n - 1), one byte. */
struct factor_place {
    uint32_t lane, n_lanes, column, byte;
};

static struct factor_place factor_place(bool is_2x2, uint32_t n_all, uint32_t i, uint32_t s)
{
    uint32_t per_word = n_all > 128 ? 8 : 4;
    if (is_2x2)
        return (struct factor_place){i % (n_all / 2) % 32 + (i < n_all / 2 ? 0 : 64), 2,
                                     i % (n_all / 2) / 32, s};
    return (struct factor_place){i % 32, 4, i / 32 + per_word * (s / 4), s % 4};
}

START_TEST(factor_places_are_those_of_the_table)
{
    FILE *f = open_table("tcgen05_scale_factors_tmem.tsv");
    unsigned n_rows = 0;
    for (char line[256]; fgets(line, sizeof line, f) != NULL;) {
        char name[40], vec[20], lanes[40];
        unsigned id, row, s, column, byte, step = 0;
        ck_assert_int_eq(sscanf(line, "%39s %19s %u %u %u %39s %u %u", name, vec, &id, &row, &s,
                                lanes, &column, &byte),
                         8);
        uint32_t n_all = (uint32_t)atoi(strrchr(name, 'N') + 1), first = 0;
        if (sscanf(name, "K96_step%u", &step) == 1) { /* the operand's address has moved on */
            unsigned n_before = step * (strncmp(vec, "block16", 7) == 0 ? 6 : 3);
            first = (n_all > 128 ? 8u : 4u) * (n_before / 4);
            ck_assert_uint_eq(id, n_before % 4);
        } else if (strstr(name, "2x2") == NULL && n_all < 128) {
            continue; /* rows of 64: one word a row in any case */
        }
        struct factor_place p = factor_place(strstr(name, "2x2") != NULL, n_all, row, id + s);
        ck_assert_msg(p.lane == (unsigned)atoi(lanes) && first + p.column == column &&
                          p.byte == byte,
                      "%s", line);
        n_rows++;
    }
    fclose(f);
    ck_assert_uint_gt(n_rows, 400);
}
END_TEST

/* ---- what a case puts where ---- */

static double num_a[256][96], num_b[256][96], factor_a[256][6], factor_b[MAX_CTAS][256][6];

static void put_bits(uint8_t *at, uint32_t first_bit, uint32_t n_bits, uint32_t v)
{
    for (uint32_t b = 0; b < n_bits; b++) {
        uint32_t bit = first_bit + b;
        at[bit / 8] = (uint8_t)((at[bit / 8] & ~(1u << bit % 8)) | (v >> b & 1) << bit % 8);
    }
}

static bool is_dense4(const struct mma_case *c) { return strncmp(c->kind, "mxf4", 4) == 0; }
static uint32_t k_of(const struct mma_case *c)
{
    return c->k != 0 ? c->k : 32 / (fmts[c->a].bits / 8 == 0 ? 1 : fmts[c->a].bits / 8);
}
static uint32_t n_ctas_of(const struct mma_case *c) { return c->is_pair ? 2 : 1; }

/* K-major rows without swizzle; a type below a byte: 16 elements in 16 bytes, dense ones 32. K = 96: lines of 128 bytes in two
 * buffers, 128-byte swizzle. */
static void put_shared(const struct mma_case *c, uint32_t cta, uint32_t base, uint32_t rows,
                       uint32_t i, uint32_t k, enum fmt f, uint32_t code)
{
    uint32_t bits = fmts[f].bits,
             per_group = is_dense4(c) ? 32
                         : bits < 8   ? 16
                                      : 128 / bits,
             first_bit = k % per_group * bits, byte = k / per_group * 16;
    if (k_of(c) == 96) {
        byte += 48 * c->k96_step % 128;
        uint32_t line = byte / 128 * 16384 + i * 128 + (byte % 128 ^ i % 8 * 16);
        put_bits(&shared[cta][base + line], first_bit, bits, code);
        return;
    }
    put_bits(&shared[cta][base + plain_offset(i, byte, rows * 16)], first_bit, bits, code);
}

static void put_cell(const struct mma_case *c, uint32_t m, uint32_t k, uint32_t code)
{
    uint32_t bits = fmts[c->a].bits,
             per_column = is_dense4(c) ? 8
                          : bits < 8   ? 4
                                       : 32 / bits,
             first_bit = is_dense4(c) ? k % 8 * 4
                         : bits < 8   ? k % 4 * 8 + (bits == 4 ? 2 : 0)
                                      : k % per_column * bits;
    struct place p = d_place(c->layout == LAYOUT_B ? LAYOUT_A : c->layout, m, k / per_column, 256);
    if (c->layout == LAYOUT_B)
        p = (struct place){m / 64, m % 64, k / per_column};
    uint32_t *cell = &cells[p.cta][p.lane][COL_A + p.column];
    *cell &= ~(((bits == 32 ? 0 : 1u << bits % 32) - 1u) << first_bit);
    *cell |= code << first_bit;
}

static void fill_operands(const struct mma_case *c)
{
    uint32_t n_ctas = n_ctas_of(c), rows_a = c->m / n_ctas, rows_b = c->n / n_ctas;
    for (uint32_t i = 0; i < c->m; i++)
        for (uint32_t k = 0; k < k_of(c); k++) {
            uint32_t pick = (uint32_t)random_below(&rnd, fmts[c->a].n),
                     code = fmts[c->a].encodings[pick];
            num_a[i][k] = fmts[c->a].numbers[pick] * (c->is_negated ? -1 : 1);
            if (c->is_ta)
                put_cell(c, i, k, code);
            else
                put_shared(c, i / rows_a, AT_A, rows_a, i % rows_a, k, c->a, code);
        }
    for (uint32_t i = 0; i < c->n; i++)
        for (uint32_t k = 0; k < k_of(c); k++) {
            uint32_t pick = (uint32_t)random_below(&rnd, fmts[c->b].n);
            num_b[i][k] = fmts[c->b].numbers[pick];
            put_shared(c, i / rows_b, k_of(c) == 96 ? AT_B2 : AT_B, rows_b, i % rows_b, k, c->b,
                       fmts[c->b].encodings[pick]);
        }
}

static void fill_factors(const struct mma_case *c, bool is_a, uint32_t cta)
{
    static const uint32_t ue4m3[4] = {0x38, 0x30, 0x40, 0x3c};
    static const double ue4m3_numbers[4] = {1, .5, 2, 1.5};
    uint32_t rows = is_a ? c->m / n_ctas_of(c) : c->n;
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t s = 0; s < k_of(c) / c->scale_k; s++) {
            uint32_t pick = (uint32_t)random_below(&rnd, 4),
                     byte = c->is_ue4m3 ? ue4m3[pick] : 126 + pick;
            double number = c->is_ue4m3 ? ue4m3_numbers[pick] : ldexp(1, (int)pick - 1);
            struct factor_place p = factor_place(!is_a && c->layout == LAYOUT_B, rows, i,
                                                 (is_a ? c->id_a : c->id_b) + s);
            for (uint32_t q = 0; q < p.n_lanes; q++) {
                uint32_t *cell =
                    &cells[cta][p.lane + 32 * q][(is_a ? COL_SFA : COL_SFB) + p.column];
                *cell = (*cell & ~(0xffu << 8 * p.byte)) | byte << 8 * p.byte;
            }
            if (is_a)
                factor_a[cta * rows + i][s] = number;
            else
                factor_b[cta][i][s] = number;
        }
}

static uint32_t d_bits(const struct mma_case *c, double v)
{
    if (c->d_code == 2)
        return (uint32_t)(int32_t)v;
    float f = (float)v;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* D before: small numbers, and for saturating cases ones near the ends. */
static double start_d(const struct mma_case *c, uint32_t m, uint32_t n)
{
    struct place p = d_place(c->layout, m, n, c->n);
    double v = (double)random_below(&rnd, 17) - 8;
    if (c->is_saturating)
        v = random_below(&rnd, 2) ? 2147483647.0 - (double)random_below(&rnd, 5)
                                  : -2147483648.0 + (double)random_below(&rnd, 5);
    if (c->has_d)
        cells[p.cta][p.lane][COL_D + p.column] = d_bits(c, v);
    return c->has_d ? v : 0;
}

/* Of column n in the part of D that it is in, by the rule as tests/ptx/tables/zero_column_mask.tsv has it. */
static bool is_zero_column(uint64_t mask, uint32_t n_in_part, uint32_t part)
{
    uint32_t n = n_in_part + (uint32_t)(mask >> 8 * part & 0xff);
    bool is_zero = (mask >> (32 + part) & 1) != 0;
    for (;;) {
        uint32_t run = (uint32_t)(mask >> (is_zero ? 40 : 48) & 0xff) + 1;
        if (n < run)
            return is_zero;
        n -= run;
        is_zero = !is_zero;
    }
}

START_TEST(zero_columns_are_those_of_the_table)
{
    FILE *f = open_table("zero_column_mask.tsv");
    unsigned n_rows = 0;
    for (char line[256]; fgets(line, sizeof line, f) != NULL; n_rows++) {
        char name[40], bits[40];
        unsigned start, first, enable, skip, use;
        ck_assert_int_eq(sscanf(line, "%39s %u %u %u %u %u %39s", name, &start, &first, &enable,
                                &skip, &use, bits),
                         7);
        uint64_t mask = start | (uint64_t)first << 32 | (uint64_t)enable << 39 |
                        (uint64_t)skip << 40 | (uint64_t)use << 48;
        for (uint32_t n = 0; bits[n] != 0; n++)
            ck_assert_msg(is_zero_column(mask, n, 0) == (bits[n] == '1'), "%s", line);
    }
    fclose(f);
    ck_assert_uint_eq(n_rows, 7);
}
END_TEST

static uint32_t idesc_of(const struct mma_case *c)
{
    uint32_t id = fmts[c->a].code << 7 | fmts[c->b].code << 10 | c->n / 8 << 17 |
                  (uint32_t)c->is_negated << 13;
    if (c->scale_k == 0)
        return id | c->d_code << 4 | c->m / 16 << 24 | (uint32_t)c->is_saturating << 3;
    if (is_dense4(c))
        id = 1u << 7 | 1u << 10 | c->n / 8 << 17;
    return id | c->id_b << 4 | (uint32_t)!c->is_ue4m3 << 23 | c->m / 128 << 27 | c->id_a << 29 |
           (uint32_t)(k_of(c) == 96) << 31;
}

static void fill_values(const struct mma_case *c)
{
    uint32_t n_ctas = n_ctas_of(c);
    values[0] = plain_desc(AT_A, c->m / n_ctas * 16);
    values[1] = plain_desc(AT_B, c->n / n_ctas * 16);
    values[2] = idesc_of(c);
    if (c->has_zero_mask)
        for (uint32_t part = 0; part < 4; part++)
            values[3] |= random_below(&rnd, 9) << 8 * part | random_below(&rnd, 2) << (32 + part);
    if (c->has_zero_mask)
        values[3] |= UINT64_C(1) << 39 | random_below(&rnd, 5) << 40 | random_below(&rnd, 5) << 48;
    for (uint32_t i = 4; i < 8 && c->has_lane_mask; i++)
        values[i] = random_u64(&rnd);
    if (k_of(c) != 96)
        return;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t at = i == 0 ? AT_A : AT_B2;
        values[i] = UINT64_C(2) << 61 | UINT64_C(1) << 52 | UINT64_C(1) << 46 |
                    UINT64_C(1024 / 16) << 32 | (uint64_t)((at + 16384) / 16) << 16 |
                    (at + 48 * c->k96_step % 128) / 16;
    }
}

static void say_body(const struct mma_case *c, char *out, size_t n_bytes)
{
    char a[20], lanes[200] = "", scales[60] = "";
    size_t n = 0;
    snprintf(a, sizeof a, c->is_ta ? "[ta+%u]" : "d0", COL_A);
    for (uint32_t i = 0; i < (c->is_pair ? 4u : 2u) && c->has_lane_mask; i++)
        n += (size_t)snprintf(lanes + n, sizeof lanes - n, "%sr%u, r%u", i == 0 ? ", {" : ", ",
                              2 * i, 2 * i + 1);
    if (c->has_lane_mask)
        snprintf(lanes + n, sizeof lanes - n, "}");
    if (c->scale_k != 0)
        snprintf(scales, sizeof scales, ", [ta+%u], [ta+%u]", COL_SFA, COL_SFB);
    snprintf(out, n_bytes,
             "add.u64 d0, d0, s4;\nadd.u64 d1, d1, s4;\n%smov.b64 {r9, r10}, d2;\n"
             "mov.b64 {r0, r1}, d4;\nmov.b64 {r2, r3}, d5;\nmov.b64 {r4, r5}, d6;\n"
             "mov.b64 {r6, r7}, d7;\n"
             "tcgen05.mma%s.cta_group::%u.kind::%s%s%s [ta], %s, d1, r9%s%s, %s%s;\n",
             k_of(c) == 96 ? "shl.b64 o, s4, 16;\nadd.u64 d0, d0, o;\nadd.u64 d1, d1, o;\n" : "",
             c->form, n_ctas_of(c), c->kind, c->scale_k != 0 ? ".block_scale" : "",
             c->suffix != NULL ? c->suffix : "", a, lanes, scales, c->has_d ? "t" : "f",
             c->has_zero_mask ? ", d3" : "");
}

static double product_of(const struct mma_case *c, uint32_t m, uint32_t n)
{
    bool is_shifted = c->suffix != NULL && strcmp(c->suffix, ".ashift") == 0;
    uint32_t row = is_shifted && m % 32 != 31 ? m + 1 : m, cta = m / (c->m / n_ctas_of(c));
    double sum = 0;
    for (uint32_t k = 0; k < k_of(c); k++) {
        double scale =
            c->scale_k != 0 ? factor_a[m][k / c->scale_k] * factor_b[cta][n][k / c->scale_k] : 1;
        sum += num_a[row][k] * num_b[n][k] * scale;
    }
    uint32_t n_parts = 128 / c->m, per_part = n_parts > 1 ? c->n / n_parts : c->n;
    if (c->has_zero_mask && is_zero_column(values[3], n % per_part, n / per_part))
        return 0;
    return sum;
}

START_TEST(products_are_exact)
{
    random_turn(&rnd, _i);
    const struct mma_case *c = &mma_cases[_i];
    static double d[256][256];
    char body[700], what[100];
    fill_all();
    fill_operands(c);
    for (uint32_t cta = 0; cta < n_ctas_of(c) && c->scale_k != 0; cta++) {
        fill_factors(c, true, cta);
        fill_factors(c, false, cta);
    }
    for (uint32_t m = 0; m < c->m; m++)
        for (uint32_t n = 0; n < c->n; n++)
            d[m][n] = start_d(c, m, n);
    fill_values(c);
    memcpy(want, cells, sizeof want);
    for (uint32_t m = 0; m < c->m; m++)
        for (uint32_t n = 0; n < c->n; n++) {
            struct place p = d_place(c->layout, m, n, c->n);
            double v = d[m][n] + product_of(c, m, n);
            uint32_t lane = p.cta * 128 + p.lane;
            if (c->is_saturating)
                v = v > 2147483647.0 ? 2147483647.0 : v < -2147483648.0 ? -2147483648.0 : v;
            if (!c->has_lane_mask || (values[4 + lane / 64] >> lane % 64 & 1) == 0)
                want[p.cta][p.lane][COL_D + p.column] = d_bits(c, v);
        }
    uint32_t sm = k_of(c) == 96 ? 103 : 100;
    snprintf(what, sizeof what, "case %d: kind::%s M %u N %u", _i, c->kind, c->m, c->n);
    say_body(c, body, sizeof body);
    say_kernel(sm, n_ctas_of(c), body);
    run_kernel(sm, n_ctas_of(c), what);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_tc_forms");
    Suite *s = suite_create("tc_forms");
    TCase *t = tcase_create("move");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, copies_go_where_the_table_says, 0, N_CP);
    tcase_add_loop_test(t, rows_shift_within_a_quarter, 0, MAX_CTAS);
    suite_add_tcase(s, t);
    t = tcase_create("mma");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, d_places_are_those_of_the_table);
    tcase_add_test(t, factor_places_are_those_of_the_table);
    tcase_add_test(t, zero_columns_are_those_of_the_table);
    tcase_add_loop_test(t, products_are_exact, 0, N_MMA);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
