/*
 * Tensor memory and tcgen05.mma on the emulated machine: register layouts against tables, products against sums of whole
 * numbers computed from the matrices in device memory, whatever way they take through shared memory. The kernels are written
 * here, one for each form.
 */
#include "emu/launch.h"
#include "emu/tensormap.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_POLICIES = 4 };

static struct pl_emu_device *device;
static struct pl_emu_program *program;
static struct pl_emu_fault fault;
static char text[1 << 16];
static size_t text_n;

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

static void open_device(int policy)
{
    struct pl_emu_config c = {.sm = 100,
                              .n_sms = 1,
                              .memory_bytes = 1 << 26,
                              .check = PL_EMU_CHECK_FAULTS,
                              .policy = policy == 0   ? PL_EMU_ASYNC_EAGER
                                        : policy == 1 ? PL_EMU_ASYNC_LATE
                                                      : PL_EMU_ASYNC_RANDOM,
                              .seed = (uint64_t)policy * 31,
                              .n_threads = 1,
                              .step_limit = 1 << 22};
    device = pl_emu_device_create(&c);
    ck_assert_ptr_nonnull(device);
    text_n = 0;
}

static void load_text(void)
{
    ck_assert_msg(pl_emu_program_load(device, text, text_n, &program, &fault), "line %u: %s\n%s",
                  fault.line, fault.text, text);
}

static void close_all(void)
{
    pl_emu_program_unload(program);
    pl_emu_device_destroy(device);
}

static const struct pl_emu_allocation *new_memory(uint64_t n_bytes)
{
    const struct pl_emu_allocation *a =
        pl_emu_memory_alloc(pl_emu_device_memory(device), n_bytes, 1024, NULL);
    ck_assert_ptr_nonnull(a);
    return a;
}

static void run(const void *params, uint32_t n_ctas, uint32_t dynamic_bytes)
{
    struct pl_emu_launch l = {.func = pl_emu_program_find(program, "k"),
                              .params = params,
                              .grid = {n_ctas, 1, 1},
                              .block = {128, 1, 1},
                              .cluster = {n_ctas, 1, 1},
                              .dynamic_shared_bytes = dynamic_bytes};
    ck_assert_msg(pl_emu_launch(device, &l, &fault), "PL%d line %u: %s", fault.code, fault.line,
                  fault.text);
}

static uint64_t rng;
static uint32_t below(uint32_t n)
{
    rng = rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(rng >> 33) % n;
}

static const char head[] =
    ".version 8.6\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 dyn[];\n";

/* ---- loads and stores -------------------------------------------------------------------------------------------------------- */

static const struct ldst_form {
    const char *shape, *num, *suffix, *split;
    uint32_t n_regs;
} ldst_forms[] = {
    {"32x32b", "x8", "", "", 8},       {"16x64b", "x8", "", "", 8},
    {"16x128b", "x4", "", "", 8},      {"16x256b", "x2", "", "", 8},
    {"16x32bx2", "x8", "", ", 16", 8}, {"32x32b", "x4", "16b", "", 4},
    {"16x64b", "x4", "16b", "", 4},    {"16x128b", "x4", "16b", "", 8},
    {"16x256b", "x4", "16b", "", 16},  {"16x32bx2", "x4", "16b", ", 8", 4},
};
enum { N_LDST = sizeof ldst_forms / sizeof ldst_forms[0] };

static void say_list(const char *reg, uint32_t n)
{
    say("{");
    for (uint32_t i = 0; i < n; i++)
        say("%s%s%u", i == 0 ? "" : ", ", reg, i);
    say("}");
}

/* Warp 0 fills lanes 0..31, columns 0..63 with lane << 8 | column by 32x32b, and reads them in the form. */
static void say_ldst(const struct ldst_form *f)
{
    const char *pack = f->suffix[0] != 0 ? ".pack::16b" : "";
    say("%s.visible .entry k(.param .u64 out)\n{\n.shared .align 4 .b32 slot;\n.reg .b32 t, ta, v, "
        "r<32>, s<32>;\n",
        head);
    say(".reg .b64 o, g;\n.reg .pred p;\nmov.u32 t, %%tid.x;\nsetp.ge.u32 p, t, 32;\n@p exit;\n");
    say("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;\nld.shared.u32 ta, "
        "[slot];\nshl.b32 v, t, 8;\n");
    for (uint32_t half = 0; half < 2; half++) {
        for (uint32_t i = 0; i < 32; i++)
            say("add.u32 r%u, v, %u;\n", i, 32 * half + i);
        say("tcgen05.st.sync.aligned.32x32b.x32.b32 [ta+%u], ", 32 * half);
        say_list("r", 32);
        say(";\n");
    }
    say("tcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.%s.%s%s.b32 ", f->shape, f->num,
        pack);
    say_list("s", f->n_regs);
    say(", [ta]%s;\ntcgen05.wait::ld.sync.aligned;\nld.param.u64 g, [out];\ncvta.to.global.u64 g, "
        "g;\n",
        f->split);
    say("mul.wide.u32 o, t, %u;\nadd.u64 g, g, o;\n", f->n_regs * 4);
    for (uint32_t i = 0; i < f->n_regs; i++)
        say("st.global.u32 [g+%u], s%u;\n", i * 4, i);
    say("tcgen05.dealloc.cta_group::1.sync.aligned.b32 ta, 64;\nret;\n}\n");
}

static FILE *open_table(const char *name)
{
    char path[512], line[256];
    snprintf(path, sizeof path, "%s/tests/ptx/tables/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL && fgets(line, sizeof line, f) != NULL, "no %s", path);
    return f;
}

START_TEST(registers_hold_the_cells_of_the_table)
{
    const struct ldst_form *form = &ldst_forms[_i / N_POLICIES];
    open_device(_i % N_POLICIES);
    say_ldst(form);
    load_text();
    const struct pl_emu_allocation *out = new_memory(4096);
    run(&out->address, 1, 0);
    bool is_packed = form->suffix[0] != 0;
    FILE *f = open_table(is_packed ? "tcgen05_ldst_pack16.tsv" : "tcgen05_ldst.tsv");
    uint32_t n = 0;
    for (char line[256]; fgets(line, sizeof line, f) != NULL;) {
        char shape[32], low[16], high[16] = "";
        unsigned num, thread, reg, lane;
        ck_assert_int_ge(sscanf(line, "%31s %u %u %u %u %15s %15s", shape, &num, &thread, &reg,
                                &lane, low, high),
                         6);
        if (strcmp(shape, form->shape) != 0 || reg >= form->n_regs ||
            (is_packed && num != (unsigned)atoi(form->num + 1)))
            continue;
        uint32_t got, want, split = strstr(low, "+S") != NULL ? 16 : 0;
        memcpy(&got, out->host + (thread * form->n_regs + reg) * 4, 4);
        want = lane << 8 | ((unsigned)atoi(low) + split);
        if (is_packed)
            want |= (lane << 8 | (unsigned)atoi(high)) << 16;
        ck_assert_msg(got == want, "%s thread %u register %u: 0x%x, not 0x%x", shape, thread, reg,
                      got, want);
        n++;
    }
    fclose(f);
    ck_assert_uint_eq(n, 32 * form->n_regs);
    close_all();
}
END_TEST

/* ---- products -------------------------------------------------------------------------------------------------------------------- */

struct mma_case {
    const char *kind;
    uint32_t es, a_code, b_code, d_code; /* of the instruction descriptor */
    uint32_t a_set, b_set;               /* how small numbers are written, below */
    uint32_t m, n;
    bool is_a_mn, is_b_mn, is_pair;
    uint32_t swizzle; /* of K-major operands: enum pl_tmap_swizzle */
};

enum { SET_F16, SET_BF16, SET_F32, SET_E4M3, SET_E5M2, SET_S8, SET_COUNT };
static const uint32_t codes[SET_COUNT][5] = {
    /* -2 … 2 */
    {0xc000, 0xbc00, 0, 0x3c00, 0x4000},
    {0xc000, 0xbf80, 0, 0x3f80, 0x4000},
    {0xc0000000, 0xbf800000, 0, 0x3f800000, 0x40000000},
    {0xc0, 0xb8, 0, 0x38, 0x40},
    {0xc0, 0xbc, 0, 0x3c, 0x40},
    {0xfe, 0xff, 0, 1, 2},
};

static const struct mma_case mma_cases[] = {
    {"f16", 2, 1, 1, 1, SET_BF16, SET_BF16, 128, 128, false, false, false, PL_TMAP_SWIZZLE_128B},
    {"f16", 2, 0, 0, 1, SET_F16, SET_F16, 128, 64, false, false, false, PL_TMAP_SWIZZLE_64B},
    {"f16", 2, 0, 1, 1, SET_F16, SET_BF16, 64, 48, false, false, false, PL_TMAP_SWIZZLE_32B},
    {"f16", 2, 1, 1, 1, SET_BF16, SET_BF16, 128, 256, true, false, false, PL_TMAP_SWIZZLE_128B},
    {"f16", 2, 1, 1, 1, SET_BF16, SET_BF16, 128, 128, true, true, false, PL_TMAP_SWIZZLE_128B},
    {"f16", 2, 0, 0, 0, SET_F16, SET_F16, 128, 128, false, false, false, PL_TMAP_SWIZZLE_128B},
    {"tf32", 4, 2, 2, 1, SET_F32, SET_F32, 128, 128, false, false, false, PL_TMAP_SWIZZLE_128B},
    {"f8f6f4", 1, 0, 1, 1, SET_E4M3, SET_E5M2, 128, 96, false, false, false, PL_TMAP_SWIZZLE_128B},
    {"i8", 1, 1, 1, 2, SET_S8, SET_S8, 128, 128, false, false, false, PL_TMAP_SWIZZLE_128B},
    {"f16", 2, 1, 1, 1, SET_BF16, SET_BF16, 256, 128, false, false, true, PL_TMAP_SWIZZLE_128B},
    {"f16", 2, 1, 1, 1, SET_BF16, SET_BF16, 128, 128, false, false, true, PL_TMAP_SWIZZLE_128B},
    {"f16", 2, 1, 1, 1, SET_BF16, SET_BF16, 256, 256, false, true, true, PL_TMAP_SWIZZLE_128B},
};
enum { N_MMA = sizeof mma_cases / sizeof mma_cases[0] };

static uint32_t span_of(const struct mma_case *c)
{
    return pl_tmap_swizzle_span_bytes((enum pl_tmap_swizzle)c->swizzle);
}
static uint32_t n_ctas_of(const struct mma_case *c) { return c->is_pair ? 2 : 1; }
static uint32_t k_of(const struct mma_case *c) { return span_of(c) / c->es; } /* one span along k */

/* A tile of `rows` rows (of M or N) in a CTA: boxes of one swizzle span; MN-major ones are 128 bytes of M or N by k rows. */
static void say_loads(const struct mma_case *c, const char *map, const char *to, uint32_t rows,
                      bool is_mn, const char *first)
{
    uint32_t per_box = 128 / c->es, box_bytes = is_mn ? k_of(c) * 128 : 0;
    const char *group = c->is_pair ? ".cta_group::2" : "";
    for (uint32_t i = 0; i < (is_mn ? rows / per_box : 1); i++) {
        say("add.u32 v, %s, %u;\nadd.u32 y, %s, %u;\n", to, i * box_bytes, first,
            is_mn ? i * per_box : 0);
        say("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes%s "
            "[v], [%s, {%s, %s}], [lead_bar];\n",
            group, map, is_mn ? "y" : "zero", is_mn ? "zero" : "y");
    }
}

/* Descriptor bits above the start address. */
static uint64_t desc_of(const struct mma_case *c, bool is_mn)
{
    static const uint64_t modes[] = {
        [PL_TMAP_SWIZZLE_32B] = 6, [PL_TMAP_SWIZZLE_64B] = 4, [PL_TMAP_SWIZZLE_128B] = 2};
    uint64_t lbo = is_mn ? k_of(c) * 128 : 16, sbo = is_mn ? 1024 : 8 * span_of(c);
    return modes[is_mn ? PL_TMAP_SWIZZLE_128B : c->swizzle] << 61 | UINT64_C(1) << 46 |
           sbo >> 4 << 32 | lbo >> 4 << 16;
}

static void say_mma(const struct mma_case *c)
{
    uint32_t group = n_ctas_of(c), a_rows = c->m / group, b_rows = c->n / group,
             k_step = 32 / c->es;
    uint32_t a_bytes = a_rows * span_of(c), b_bytes = b_rows * span_of(c);
    uint32_t idesc = c->d_code << 4 | c->a_code << 7 | c->b_code << 10 |
                     (uint32_t)c->is_a_mn << 15 | (uint32_t)c->is_b_mn << 16 | c->n >> 3 << 17 |
                     c->m >> 4 << 24;
    uint32_t columns = c->n <= 32 ? 32 : c->n <= 64 ? 64 : c->n <= 128 ? 128 : 256;
    say("%s.visible .entry k(.param .align 64 .b8 ma[128], .param .align 64 .b8 mb[128], .param "
        ".u64 out)\n{\n",
        head);
    say(".shared .align 8 .b64 loaded;\n.shared .align 8 .b64 done;\n.shared .align 4 .b32 "
        "slot;\n");
    say(".reg .pred p, lead, warp0, leader, en;\n.reg .b32 t, w, sa, sb, ta, v, y, zero, bt, bd, "
        "lead_bar, id, fa, fb, rank, r<8>;\n");
    say(".reg .b16 both;\n.reg .b64 pa, pb, da, db, g, o, x;\n");
    say("mov.u32 t, %%tid.x;\nshr.u32 w, t, 5;\nmov.u32 sa, dyn;\nadd.u32 sb, sa, %u;\nmov.u32 "
        "zero, 0;\n",
        (a_bytes + 1023) / 1024 * 1024);
    say("mov.b64 pa, ma;\ncvta.param.u64 pa, pa;\nmov.b64 pb, mb;\ncvta.param.u64 pb, pb;\nmov.u32 "
        "bt, loaded;\nmov.u32 bd, done;\n");
    say("and.b32 lead_bar, bt, 0xFEFFFFFF;\nmov.u32 rank, %%cluster_ctarank;\n");
    say("setp.eq.u32 lead, t, 0;\nsetp.eq.u32 warp0, w, 0;\nsetp.eq.and.u32 leader, rank, 0, "
        "lead;\n");
    say("@!lead bra I;\nmbarrier.init.shared::cta.b64 [bt], 1;\nmbarrier.init.shared::cta.b64 "
        "[bd], 1;\nfence.mbarrier_init.release.cluster;\nI:\n");
    say("@!warp0 bra J;\nbar.warp.sync "
        "-1;\ntcgen05.alloc.cta_group::%u.sync.aligned.shared::cta.b32 [slot], %u;\n",
        group, columns);
    say("tcgen05.relinquish_alloc_permit.cta_group::%u.sync.aligned;\nJ:\n", group);
    say("tcgen05.fence::before_thread_sync;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;"
        "\ntcgen05.fence::after_thread_sync;\n");
    say("ld.shared.u32 ta, [slot];\n@leader mbarrier.arrive.expect_tx.shared::cta.b64 _, [bt], "
        "%u;\n",
        group * (a_bytes + b_bytes));
    say("barrier.cluster.arrive;\nbarrier.cluster.wait;\n@!lead bra W;\nmul.lo.u32 fa, rank, "
        "%u;\nmul.lo.u32 fb, rank, %u;\n",
        a_rows, b_rows);
    say_loads(c, "pa", "sa", a_rows, c->is_a_mn, "fa");
    say_loads(c, "pb", "sb", b_rows, c->is_b_mn, "fb");
    say("@!leader bra W;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 p, [bt], 0;\n@!p bra "
        "L;\ntcgen05.fence::after_thread_sync;\n");
    say("shr.u32 v, sa, 4;\nand.b32 v, v, 0x3fff;\ncvt.u64.u32 da, v;\nmov.b64 x, 0x%llx;\nor.b64 "
        "da, da, x;\n",
        (unsigned long long)desc_of(c, c->is_a_mn));
    say("shr.u32 v, sb, 4;\nand.b32 v, v, 0x3fff;\ncvt.u64.u32 db, v;\nmov.b64 x, 0x%llx;\nor.b64 "
        "db, db, x;\n",
        (unsigned long long)desc_of(c, c->is_b_mn));
    say("mov.b32 id, 0x%x;\nsetp.ne.u32 en, 0, 0;\n", idesc);
    for (uint32_t k = 0; k < k_of(c); k += k_step) {
        say("tcgen05.mma.cta_group::%u.kind::%s [ta], da, db, id, en;\nsetp.eq.u32 en, 0, 0;\n",
            group, c->kind);
        say("add.u64 da, da, %u;\nadd.u64 db, db, %u;\n", c->is_a_mn ? k_step * 128 / 16 : 2,
            c->is_b_mn ? k_step * 128 / 16 : 2);
    }
    if (c->is_pair)
        say("mov.b16 both, "
            "3;\ntcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::"
            "cluster.b64 [bd], both;\n");
    else
        say("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bd];\n");
    say("W:\nmbarrier.try_wait.parity.shared::cta.b64 p, [bd], 0;\n@!p bra W;\nbar.warp.sync "
        "-1;\ntcgen05.fence::after_thread_sync;\n");
    say("ld.param.u64 g, [out];\ncvta.to.global.u64 g, g;\nmad.lo.u32 v, rank, 128, "
        "t;\nmul.wide.u32 o, v, %u;\nadd.u64 g, g, o;\nshl.b32 v, w, 21;\nadd.u32 ta, ta, v;\n",
        c->n * 4);
    uint32_t n_columns = c->is_pair && c->m == 128 ? c->n / 2 : c->n;
    say("setp.lt.u32 p, %u, 128;\nand.b32 v, t, 16;\nsetp.ne.and.u32 p, v, 0, p;\n", c->m);
    for (uint32_t n = 0; n < n_columns; n += 8) {
        if (c->m == 64) /* half of the lanes hold nothing */
            say("tcgen05.ld.sync.aligned.16x64b.x8.b32 {r0, r1, r2, r3, r4, r5, r6, r7}, "
                "[ta+%u];\n",
                n);
        else
            say("tcgen05.ld.sync.aligned.32x32b.x8.b32 {r0, r1, r2, r3, r4, r5, r6, r7}, "
                "[ta+%u];\n",
                n);
        say("tcgen05.wait::ld.sync.aligned;\nst.global.v4.u32 [g+%u], {r0, r1, r2, "
            "r3};\nst.global.v4.u32 [g+%u], {r4, r5, r6, r7};\n",
            n * 4, n * 4 + 16);
        n += c->m == 64 ? 8 : 0; /* 16 columns of 16 lanes */
    }
    say("tcgen05.fence::before_thread_sync;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n@!"
        "warp0 bra E;\nsub.u32 ta, ta, 0;\nbar.warp.sync -1;\n");
    say("tcgen05.dealloc.cta_group::%u.sync.aligned.b32 ta, %u;\nE:\nret;\n}\n", group, columns);
}

struct matrix {
    const struct pl_emu_allocation *memory;
    int32_t v[256][64]; /* [row][k] */
};
static struct matrix mat_a, mat_b;

/* Random small numbers, stored K-major (row after row) or MN-major (k after k). */
static void fill_matrix(struct matrix *x, const struct mma_case *c, uint32_t rows, uint32_t set,
                        bool is_mn)
{
    uint32_t k_n = k_of(c);
    x->memory = new_memory(rows * k_n * c->es);
    for (uint32_t i = 0; i < rows; i++)
        for (uint32_t k = 0; k < k_n; k++) {
            uint32_t pick = below(5);
            x->v[i][k % 64] = k < 64 ? (int32_t)pick - 2 : x->v[i][k % 64];
            uint32_t code = codes[set][k < 64 ? pick : (uint32_t)(x->v[i][k % 64] + 2)];
            memcpy(x->memory->host + (is_mn ? k * rows + i : i * k_n + k) * c->es, &code, c->es);
        }
}

static void put_map(uint8_t *out, const struct matrix *x, const struct mma_case *c, uint32_t rows,
                    uint32_t rows_a_cta, bool is_mn)
{
    static const uint32_t types[] = {[1] = PL_TMAP_U8, [2] = PL_TMAP_U16, [4] = PL_TMAP_U32};
    uint32_t k_n = k_of(c);
    struct pl_tmap_request r = {
        .map = {.type = types[c->es],
                .swizzle = is_mn ? PL_TMAP_SWIZZLE_128B : c->swizzle,
                .rank = 2,
                .address = x->memory->address,
                .dims = {is_mn ? rows : k_n, is_mn ? k_n : rows},
                .strides_bytes = {0, (is_mn ? rows : k_n) * c->es},
                .box = {is_mn ? 128 / c->es : k_n, is_mn ? k_n : rows_a_cta},
                .elem_strides = {1, 1}}};
    struct pl_arena arena = {0};
    struct pl_diags ds;
    pl_diags_init(&ds, &arena);
    ck_assert_msg(pl_tensormap_encode(&r, &ds, out), "%s",
                  ds.list.n != 0 ? ds.list.data[0].text : "");
    pl_arena_fini(&arena);
}

/* The word of the output that holds row m, column n; threads wrote lane after lane, CTA after CTA. */
static uint32_t out_word(const struct mma_case *c, const struct pl_emu_allocation *out, uint32_t m,
                         uint32_t n)
{
    uint32_t lane = m, column = n, v;
    if (c->is_pair && c->m == 128) {
        lane = m / 64 * 128 + m % 64 + 64 * (n / (c->n / 2));
        column = n % (c->n / 2);
    }
    if (!c->is_pair &&
        c->m ==
            64) { /* 16x64b: lane l of the quarter, column c of 16 is in thread 4 (l % 8) + l / 8 + 2 (c % 2), register c / 2 */
        uint32_t l = m % 16, in = n % 16;
        lane = m / 16 * 32 + l % 8 * 4 + l / 8 + 2 * (in % 2);
        column = n / 16 * 16 + in / 2;
    }
    memcpy(&v, out->host + (lane * c->n + column) * 4, 4);
    return v;
}

static float half_to_float(uint32_t h)
{
    uint32_t e = h >> 10 & 31, bits = (h & 0x8000) << 16;
    float f;
    bits |=
        e == 0 ? 0 : (e + 112) << 23 | (h & 0x3ff) << 13; /* whole numbers only: no subnormals */
    memcpy(&f, &bits, sizeof f);
    return f;
}

START_TEST(product_is_exact_on_small_numbers)
{
    const struct mma_case *c = &mma_cases[_i / N_POLICIES];
    rng = 17 + (uint64_t)_i;
    open_device(_i % N_POLICIES);
    say_mma(c);
    load_text();
    fill_matrix(&mat_a, c, c->m, c->a_set, c->is_a_mn);
    fill_matrix(&mat_b, c, c->n, c->b_set, c->is_b_mn);
    const struct pl_emu_allocation *out = new_memory(256 * 256 * 4);
    uint8_t params[320] = {0};
    put_map(params, &mat_a, c, c->m, c->m / n_ctas_of(c), c->is_a_mn);
    put_map(params + 128, &mat_b, c, c->n, c->n / n_ctas_of(c), c->is_b_mn);
    memcpy(params + 256, &out->address, 8);
    run(params, n_ctas_of(c), 1 << 17);
    for (uint32_t m = 0; m < c->m; m++)
        for (uint32_t n = 0; n < c->n; n++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < k_of(c); k++)
                sum += mat_a.v[m][k % 64] * mat_b.v[n][k % 64];
            uint32_t got = out_word(c, out, m, n);
            float f;
            memcpy(&f, &got, sizeof f);
            if (c->d_code == 0)
                f = half_to_float(got);
            ck_assert_msg(c->d_code == 2 ? (int32_t)got == sum : f == (float)sum,
                          "case %d row %u column %u: 0x%x, not %d", _i / N_POLICIES, m, n, got,
                          sum);
        }
    close_all();
}
END_TEST

/* ---- scale factors, A in tensor memory ------------------------------------------------------------------------------------------ */

/*
 * One kernel of 128 threads without tensor copies: 16 KiB of shared memory are filled from `in` (A and B, 128 rows of 32 bytes
 * each in 8 x 16 byte atoms; two chunks of scale factors), and D comes out lane by lane.
 *
 *   scaled   mxf8f6f4 of e4m3, factors brought to tensor memory by tcgen05.cp.32x128b.warpx4
 *   else     f16 with A stored to tensor memory by tcgen05.st
 */
static void say_direct(bool is_scaled)
{
    say(".version 8.8\n.target sm_100a\n.address_size 64\n.extern .shared .align 1024 .b8 "
        "dyn[];\n");
    say(".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.shared .align 8 .b64 "
        "done;\n.shared .align 4 .b32 slot;\n");
    say(".reg .pred p, lead, warp0;\n.reg .b32 t, w, s, a, ta, td, v, id, sa, sb, r<8>;\n.reg .b64 "
        "g, o, da, db, dc;\n");
    say("mov.u32 t, %%tid.x;\nshr.u32 w, t, 5;\nmov.u32 s, dyn;\nsetp.eq.u32 lead, t, "
        "0;\nsetp.eq.u32 warp0, w, 0;\n");
    say("ld.param.u64 g, [in];\ncvta.to.global.u64 g, g;\nmul.wide.u32 o, t, 128;\nadd.u64 g, g, "
        "o;\nmad.lo.u32 a, t, 128, s;\n");
    for (uint32_t i = 0; i < 128; i += 16)
        say("ld.global.v4.u32 {r0, r1, r2, r3}, [g+%u];\nst.shared.v4.u32 [a+%u], {r0, r1, r2, "
            "r3};\n",
            i, i);
    say("fence.proxy.async.shared::cta;\n@!lead bra I;\nmbarrier.init.shared::cta.b64 [done], "
        "1;\nfence.mbarrier_init.release.cluster;\nI:\n");
    say("@!warp0 bra J;\nbar.warp.sync "
        "-1;\ntcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 256;\nJ:\n");
    say("tcgen05.fence::before_thread_sync;\nbar.sync "
        "0;\ntcgen05.fence::after_thread_sync;\nld.shared.u32 ta, [slot];\n");
    say("shl.b32 v, w, 21;\nadd.u32 td, ta, v;\n");
    if (!is_scaled) { /* row t of A: 8 columns of two elements; two atoms of 8 rows by 16 bytes, 2048 apart */
        say("and.b32 v, t, 7;\nshl.b32 v, v, 4;\nadd.u32 a, s, v;\nshr.u32 v, t, 3;\nmad.lo.u32 a, "
            "v, 128, a;\n");
        say("ld.shared.v4.u32 {r0, r1, r2, r3}, [a];\nld.shared.v4.u32 {r4, r5, r6, r7}, "
            "[a+2048];\n");
        say("tcgen05.st.sync.aligned.32x32b.x8.b32 [td+128], {r0, r1, r2, r3, r4, r5, r6, "
            "r7};\ntcgen05.wait::st.sync.aligned;\n");
    }
    say("tcgen05.fence::before_thread_sync;\nbar.sync "
        "0;\ntcgen05.fence::after_thread_sync;\n@!lead bra W;\n");
    /* no swizzle: LBO 2048 between 16-byte columns, SBO 128 between groups of 8 rows */
    const char *const names[3] = {"da", "db", "dc"};
    for (uint32_t i = 0; i < 3; i++)
        say("add.u32 v, s, %u;\nshr.u32 v, v, 4;\nand.b32 v, v, 0x3fff;\ncvt.u64.u32 %s, "
            "v;\nor.b64 %s, %s, 0x%llx;\n",
            i * 4096, names[i], names[i], names[i],
            (unsigned long long)(UINT64_C(1) << 46 | UINT64_C(8) << 32 | UINT64_C(128) << 16));
    say("setp.ne.u32 p, 0, 0;\n");
    if (is_scaled) {
        say("add.u32 sa, ta, 128;\nadd.u32 sb, ta, 132;\ntcgen05.cp.cta_group::1.32x128b.warpx4 "
            "[sa], dc;\nadd.u64 dc, dc, 32;\n");
        say("tcgen05.cp.cta_group::1.32x128b.warpx4 [sb], dc;\n");
        /* e4m3 by e4m3, N = 128, M = 128 in bits 27 and 28, factor ids 1 (A) and 2 (B), ue8m0 */
        say("mov.b32 id, 0x%x;\n", 2u << 4 | 16u << 17 | 1u << 23 | 1u << 27 | 1u << 29);
        say("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [ta], da, db, id, [sa], "
            "[sb], p;\n");
    } else {
        say("add.u32 a, ta, 128;\nmov.b32 id, 0x08200490;\ntcgen05.mma.cta_group::1.kind::f16 "
            "[ta], [a], db, id, p;\n");
    }
    say("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];\nW:\n");
    say("mbarrier.try_wait.parity.shared::cta.b64 p, [done], 0;\n@!p bra W;\nbar.warp.sync "
        "-1;\ntcgen05.fence::after_thread_sync;\n");
    say("ld.param.u64 g, [out];\ncvta.to.global.u64 g, g;\nmul.wide.u32 o, t, 512;\nadd.u64 g, g, "
        "o;\n");
    for (uint32_t n = 0; n < 128; n += 8)
        say("tcgen05.ld.sync.aligned.32x32b.x8.b32 {r0, r1, r2, r3, r4, r5, r6, r7}, "
            "[td+%u];\ntcgen05.wait::ld.sync.aligned;\n"
            "st.global.v4.u32 [g+%u], {r0, r1, r2, r3};\nst.global.v4.u32 [g+%u], {r4, r5, r6, "
            "r7};\n",
            n, n * 4, n * 4 + 16);
    say("tcgen05.fence::before_thread_sync;\nbar.sync 0;\n@!warp0 bra E;\nbar.warp.sync -1;\n");
    say("tcgen05.dealloc.cta_group::1.sync.aligned.b32 ta, 256;\nE:\nret;\n}\n");
}

/* Element (i, k) of es bytes in the atoms that say_direct describes. */
static uint32_t direct_byte(uint32_t i, uint32_t k, uint32_t es)
{
    return i % 8 * 16 + i / 8 * 128 + k * es % 16 + k * es / 16 * 2048;
}

START_TEST(direct_product_is_exact)
{
    bool is_scaled = _i / N_POLICIES != 0;
    uint32_t es = is_scaled ? 1 : 2, k_n = 32 / es, set = is_scaled ? SET_E4M3 : SET_BF16;
    static int32_t v[2][128][32];
    static uint32_t exponents[2][128];
    rng = 91 + (uint64_t)_i;
    open_device(_i % N_POLICIES);
    say_direct(is_scaled);
    load_text();
    const struct pl_emu_allocation *in = new_memory(1 << 14), *out = new_memory(1 << 16);
    for (uint32_t x = 0; x < 2; x++)
        for (uint32_t i = 0; i < 128; i++) {
            exponents[x][i] = 120 + below(15);
            for (uint32_t k = 0; k < k_n; k++) {
                uint32_t pick = below(5);
                v[x][i][k] = (int32_t)pick - 2;
                memcpy(in->host + x * 4096 + direct_byte(i, k, es), &codes[set][pick], es);
            }
            for (uint32_t id = 0; id < 4 && is_scaled;
                 id++) /* chunk of 512 bytes; only the factor of our id is right */
                in->host[8192 + x * 512 + i % 32 * 16 + i / 32 * 4 + id] =
                    (uint8_t)(id == 1 + x ? exponents[x][i] : 0xff);
        }
    const uint64_t params[2] = {in->address, out->address};
    run(params, 1, 1 << 14);
    for (uint32_t m = 0; m < 128; m++)
        for (uint32_t n = 0; n < 128; n++) {
            int32_t sum = 0;
            for (uint32_t k = 0; k < k_n; k++)
                sum += v[0][m][k] * v[1][n][k];
            float got, want = (float)sum;
            for (uint32_t x = 0; x < 2 && is_scaled; x++) {
                uint32_t e = exponents[x][x == 0 ? m : n];
                for (; e > 127; e--)
                    want *= 2;
                for (; e < 127; e++)
                    want /= 2;
            }
            memcpy(&got, out->host + (m * 128 + n) * 4, 4);
            ck_assert_msg(got == want, "row %u column %u: %g, not %g", m, n, (double)got,
                          (double)want);
        }
    close_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("tcgen05");
    TCase *t = tcase_create("tmem");
    tcase_add_loop_test(t, registers_hold_the_cells_of_the_table, 0, N_LDST * N_POLICIES);
    suite_add_tcase(s, t);
    t = tcase_create("mma");
    tcase_add_loop_test(t, product_is_exact_on_small_numbers, 0, N_MMA * N_POLICIES);
    tcase_add_loop_test(t, direct_product_is_exact, 0, 2 * N_POLICIES);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
