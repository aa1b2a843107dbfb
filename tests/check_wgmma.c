/*
 * wgmma on the emulated device: descriptors against the tables of tests/ptx/tables/ (computed apart from any emulator), products
 * of every type, major, swizzle and operand source against a plain loop, under every policy of asynchronous work.
 */
#include "base/debug.h"
#include "base/num.h"
#include "emu/launch.h"
#include "emu/mma_desc.h"
#include "tests/random.h"

#include <check.h>
#include <string.h>

static struct random_source rnd;

enum { IMAGE_BYTES = 40960, B_AT = 8192, M = 64, MAX_N = 256, MAX_K = 256 };

/* ---- where elements are ---- */

START_TEST(addresses_are_those_of_the_tables)
{
    char path[1024], line[256];
    unsigned n = 0;
    snprintf(path, sizeof path, "%s/tests/ptx/tables/smem_operand_tiles.tsv", PL_SRCDIR);
    FILE *f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f) != NULL) {
        char major[8], mode[24];
        unsigned es, rows, cols, lbo, sbo, i, k, before, after;
        if (sscanf(line, "%7[^-]-major_%23[^_]_es%u %u %u %u %u %u %u %u %u", major, mode, &es,
                   &rows, &cols, &lbo, &sbo, &i, &k, &before, &after) != 11)
            continue; /* the heading; 128B_BASE32B, which wgmma does not have */
        uint64_t code = strcmp(mode, "128B") == 0  ? 1
                        : strcmp(mode, "64B") == 0 ? 2
                        : strcmp(mode, "32B") == 0 ? 3
                                                   : 0;
        uint64_t bits = (uint64_t)(1024 >> 4) | (uint64_t)(lbo >> 4) << 16 |
                        (uint64_t)(sbo >> 4) << 32 | code << 62;
        struct pl_mma_desc d = pl_mma_desc_of_wgmma(bits);
        if (strcmp(major, "K") == 0 && code != 0 && k * es >= d.swizzle_bytes)
            continue; /* of the next line: another start address */
        ck_assert_msg(pl_mma_address(&d, strcmp(major, "MN") == 0, es, i, k) == 1024 + after, "%s",
                      line);
        n++;
    }
    fclose(f);
    ck_assert_uint_gt(n, 1800);
}
END_TEST

/* ---- products ---- */

enum kind { FLOAT, INT, BITS };

struct form {
    const char *text; /* the mnemonic after the shape */
    uint8_t es;       /* bytes of an element; .b1: of eight */
    enum kind kind;
    uint8_t a_fmt, b_fmt; /* FLOAT */
    bool a_signed, b_signed;
    bool is_f16_acc, has_trans, is_sat;
};

static const struct form forms[] = {
    {"f32.f16.f16", 2, FLOAT, PL_NUM_F16, PL_NUM_F16, false, false, false, true, false},
    {"f16.f16.f16", 2, FLOAT, PL_NUM_F16, PL_NUM_F16, false, false, true, true, false},
    {"f32.bf16.bf16", 2, FLOAT, PL_NUM_BF16, PL_NUM_BF16, false, false, false, true, false},
    {"f32.tf32.tf32", 4, FLOAT, PL_NUM_TF32, PL_NUM_TF32, false, false, false, false, false},
    {"f32.e4m3.e5m2", 1, FLOAT, PL_NUM_E4M3, PL_NUM_E5M2, false, false, false, false, false},
    {"f16.e5m2.e4m3", 1, FLOAT, PL_NUM_E5M2, PL_NUM_E4M3, false, false, true, false, false},
    {"s32.s8.u8", 1, INT, 0, 0, true, false, false, false, false},
    {"s32.u8.s8.satfinite", 1, INT, 0, 0, false, true, false, false, true},
    {"s32.b1.b1.and.popc", 1, BITS, 0, 0, false, false, false, false, false},
};

/* One choice of everything that the form leaves open. */
struct variant {
    unsigned n;
    uint8_t swizzle_bytes;
    bool is_a_in_regs, a_trans, b_trans, a_negated, b_negated, is_accumulating;
    enum pl_emu_policy policy;
};

struct problem {
    double a[M][MAX_K], b[MAX_N][MAX_K], c[M][MAX_N];
    uint8_t image[IMAGE_BYTES];
    uint32_t a_regs[4][128], d_regs[MAX_N / 2][128];
    uint64_t desc[2];
};

static unsigned k_of(const struct form *f) { return 32u / f->es; }

static uint32_t element(const struct form *f, bool is_a, double *value)
{
    uint64_t u = random_u64(&rnd);
    bool is_signed = is_a ? f->a_signed : f->b_signed;
    if (f->kind == FLOAT) {
        *value = (double)(int)(u % 5) - 2.0;
        return (uint32_t)pl_num_of_double((enum pl_num_fmt)(is_a ? f->a_fmt : f->b_fmt), *value) |
               (f->es == 4 ? (uint32_t)(u >> 40) & 0x1fff : 0); /* tf32: low bits do not count */
    }
    *value = is_signed ? (double)(int8_t)u : (double)(uint8_t)u;
    return (uint8_t)u;
}

/* Strides of a dense tile whose rows (K-major) or columns (MN-major) fill the swizzle's span. */
static uint64_t make_desc(const struct form *f, const struct variant *v, bool is_trans,
                          unsigned rows, uint32_t start)
{
    unsigned w = v->swizzle_bytes,
             n_groups = is_trans ? (w ? rows / (w / f->es) : rows / (16 / f->es)) : rows / 8;
    unsigned lbo = w == 0     ? n_groups * 128
                   : is_trans ? 8 * w
                              : 16,
             sbo = w == 0     ? 128
                   : is_trans ? n_groups * 8 * w
                              : 8 * w;
    uint64_t code = w == 128 ? 1 : w == 64 ? 2 : w == 32 ? 3 : 0;
    return (uint64_t)(start >> 4) | (uint64_t)(lbo >> 4) << 16 | (uint64_t)(sbo >> 4) << 32 |
           code << 62;
}

static void place_operand(const struct form *f, const struct variant *v, struct problem *p,
                          bool is_a)
{
    unsigned rows = is_a ? M : v->n;
    bool is_trans = is_a ? v->a_trans : v->b_trans;
    uint32_t at = is_a ? 0 : B_AT;
    p->desc[is_a ? 0 : 1] = make_desc(f, v, is_trans, rows, at);
    struct pl_mma_desc d = pl_mma_desc_of_wgmma(p->desc[is_a ? 0 : 1]);
    for (unsigned i = 0; i < rows; i++)
        for (unsigned k = 0; k < k_of(f); k++) {
            double *value = is_a ? &p->a[i][k] : &p->b[i][k];
            uint32_t bits = element(f, is_a, value);
            memcpy(p->image + pl_mma_address(&d, is_trans, f->es, i, k), &bits, f->es);
            if (!is_a)
                continue;
            /* the register of mma.sync's rule, warp i / 16 */
            unsigned e = 4u / f->es, half = i % 16 / 8, part = k / (4 * e),
                     t = i % 8 * 4 + k % (4 * e) / e;
            memcpy((uint8_t *)&p->a_regs[half + 2 * part][i / 16 * 32 + t] + k % e * f->es, &bits,
                   f->es);
        }
}

static void place_c(const struct form *f, const struct variant *v, struct problem *p)
{
    for (unsigned row = 0; row < M; row++)
        for (unsigned col = 0; col < v->n; col++) {
            double c = (double)(int)random_below(&rnd, 9) - 4.0;
            if (f->is_sat && random_below(&rnd, 2))
                c = random_below(&rnd, 2) ? 2147483640.0 : -2147483640.0;
            float c32 = (float)c;
            int32_t ci = (int32_t)c;
            unsigned j = col / 8, h = row % 16 / 8, b = col % 2,
                     thread = row / 16 * 32 + row % 8 * 4 + col % 8 / 2;
            p->c[row][col] = c;
            if (f->is_f16_acc)
                ((uint16_t *)&p->d_regs[2 * j + h][thread])[b] =
                    (uint16_t)pl_num_of_double(PL_NUM_F16, c);
            else
                memcpy(&p->d_regs[4 * j + 2 * h + b][thread],
                       f->kind == FLOAT ? (void *)&c32 : (void *)&ci, 4);
        }
}

static double expected(const struct form *f, const struct variant *v, const struct problem *p,
                       unsigned row, unsigned col)
{
    double sum = v->is_accumulating ? p->c[row][col] : 0.0,
           sign = v->a_negated != v->b_negated ? -1.0 : 1.0;
    for (unsigned k = 0; k < k_of(f); k++) {
        double x = p->a[row][k], y = p->b[col][k];
        sum += f->kind == BITS ? (double)__builtin_popcount((uint8_t)x & (uint8_t)y) : sign * x * y;
    }
    if (f->is_sat)
        return sum > 2147483647.0 ? 2147483647.0 : sum < -2147483648.0 ? -2147483648.0 : sum;
    return f->kind == INT ? (double)(int32_t)(uint32_t)(int64_t)sum : sum;
}

static double result(const struct form *f, const uint32_t d[][128], unsigned row, unsigned col)
{
    unsigned j = col / 8, h = row % 16 / 8, b = col % 2,
             thread = row / 16 * 32 + row % 8 * 4 + col % 8 / 2;
    if (f->is_f16_acc)
        return pl_num_to_double(PL_NUM_F16, d[2 * j + h][thread] >> (16 * b) & 0xffff);
    uint32_t u = d[4 * j + 2 * h + b][thread];
    return f->kind == FLOAT ? pl_num_to_double(PL_NUM_F32, u) : (double)(int32_t)u;
}

/* ---- the kernel: parameters are the image, A's registers, D's registers, the descriptors ---- */

static char *put_regs(char *out, char name, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        out += sprintf(out, "%s%%%c%u", i ? ", " : "{", name, i);
    return out + sprintf(out, "}");
}

static char *put_mma(char *out, const struct form *f, const struct variant *v)
{
    unsigned k = k_of(f) * (f->kind == BITS ? 8 : 1), n_d = v->n / (f->is_f16_acc ? 4 : 2);
    out += sprintf(out, "wgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n%uk%u.%s ",
                   v->n, k, f->text);
    out = put_regs(out, 'c', n_d);
    out += sprintf(out, ", ");
    out = v->is_a_in_regs ? put_regs(out, 'a', 4) : out + sprintf(out, "%%x0");
    out += sprintf(out, ", %%x1, %%s");
    if (f->kind == FLOAT)
        out += sprintf(out, ", %d, %d", v->a_negated ? -1 : 1, v->b_negated ? -1 : 1);
    if (f->has_trans && !v->is_a_in_regs)
        out += sprintf(out, ", %d", v->a_trans);
    if (f->has_trans)
        out += sprintf(out, ", %d", v->b_trans);
    return out +
           sprintf(out, ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
}

static void write_kernel(const struct form *f, const struct variant *v, char *out)
{
    unsigned n_d = v->n / (f->is_f16_acc ? 4 : 2);
    out += sprintf(out,
                   ".version 8.4\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 "
                   "p0, .param .u64 p1, .param .u64 p2, "
                   ".param .u64 p3, .param .u64 p4)\n.reqntid 128\n{\n.shared .align 1024 .b8 "
                   "tile[%u];\n.reg .pred %%s, %%q; "
                   ".reg .b64 %%p, %%g, %%x<3>; .reg .b32 %%t, %%o, %%m, %%v<4>, %%a<4>, "
                   "%%c<%u>;\nmov.u32 %%t, %%tid.x;\n"
                   "mov.u32 %%m, tile;\nld.param.u64 %%p, [p0];\nshl.b32 %%o, %%t, "
                   "4;\ncopy:\ncvt.u64.u32 %%g, %%o;\n"
                   "add.u64 %%g, %%g, %%p;\nld.global.v4.b32 {%%v0, %%v1, %%v2, %%v3}, "
                   "[%%g];\nadd.u32 %%a0, %%m, %%o;\n"
                   "st.shared.v4.b32 [%%a0], {%%v0, %%v1, %%v2, %%v3};\nadd.u32 %%o, %%o, "
                   "2048;\nsetp.lt.u32 %%q, %%o, %u;\n@%%q bra copy;\n"
                   "fence.proxy.async.shared::cta;\nbar.sync 0;\n",
                   IMAGE_BYTES, n_d, IMAGE_BYTES);
    out +=
        sprintf(out,
                "shr.u32 %%o, %%m, 4;\ncvt.u64.u32 %%x2, %%o;\nld.param.u64 %%x0, "
                "[p3];\nld.param.u64 %%x1, [p4];\n"
                "add.u64 %%x0, %%x0, %%x2;\nadd.u64 %%x1, %%x1, %%x2;\nsetp.ne.u32 %%s, 0, %d;\n",
                v->is_accumulating);
    out += sprintf(out, "ld.param.u64 %%p, [p1];\nmad.wide.u32 %%g, %%t, 4, %%p;\n");
    for (unsigned i = 0; i < 4; i++)
        out += sprintf(out, "ld.global.b32 %%a%u, [%%g + %u];\n", i, i * 512);
    out += sprintf(out, "ld.param.u64 %%p, [p2];\nmad.wide.u32 %%g, %%t, 4, %%p;\n");
    for (unsigned i = 0; i < n_d; i++)
        out += sprintf(out, "ld.global.b32 %%c%u, [%%g + %u];\n", i, i * 512);
    out = put_mma(out, f, v);
    for (unsigned i = 0; i < n_d; i++)
        out += sprintf(out, "st.global.b32 [%%g + %u], %%c%u;\n", i * 512, i);
    sprintf(out, "ret;\n}\n");
}

static void run_variant(const struct form *f, const struct variant *v)
{
    static char text[65536];
    static struct problem p;
    const struct pl_emu_config config = {.sm = 90,
                                         .n_sms = 1,
                                         .memory_bytes = 1 << 26,
                                         .check = PL_EMU_CHECK_FAULTS,
                                         .n_threads = 1,
                                         .policy = v->policy,
                                         .seed = random_u64(&rnd)};
    struct pl_emu_device *device = pl_emu_device_create(&config);
    struct pl_emu_memory *memory = pl_emu_device_memory(device);
    struct pl_emu_program *program;
    struct pl_emu_fault fault;
    for (unsigned i = 0; i < IMAGE_BYTES; i++)
        p.image[i] = (uint8_t)random_u64(&rnd);
    place_operand(f, v, &p, true);
    place_operand(f, v, &p, false);
    place_c(f, v, &p);
    write_kernel(f, v, text);
    if (!pl_emu_program_load(device, text, strlen(text), &program, &fault))
        ck_abort_msg("line %u: %s", fault.line, fault.text);
    void *const host[3] = {p.image, p.a_regs, p.d_regs};
    const size_t n_bytes[3] = {sizeof p.image, sizeof p.a_regs, sizeof p.d_regs};
    uint64_t params[5] = {0, 0, 0, p.desc[0], p.desc[1]};
    uint32_t *d = NULL;
    for (unsigned i = 0; i < 3; i++) {
        params[i] = pl_emu_memory_alloc(memory, n_bytes[i], 0, NULL)->address;
        void *to = pl_emu_memory_host(memory, params[i], n_bytes[i]);
        memcpy(to, host[i], n_bytes[i]);
        d = to;
    }
    const struct pl_emu_launch l = {.func = pl_emu_program_func(program, 0),
                                    .params = params,
                                    .grid = {1, 1, 1},
                                    .block = {128, 1, 1}};
    if (!pl_emu_launch(device, &l, &fault))
        ck_abort_msg("%s: %s", f->text, fault.text);
    for (unsigned row = 0; row < M; row++)
        for (unsigned col = 0; col < v->n; col++) {
            double got = result(f, (const uint32_t(*)[128])(void *)d, row, col),
                   want = expected(f, v, &p, row, col);
            ck_assert_msg(got == want,
                          "%s n %u swizzle %u regs %d trans %d %d at %u, %u: %g, want %g", f->text,
                          v->n, v->swizzle_bytes, v->is_a_in_regs, v->a_trans, v->b_trans, row, col,
                          got, want);
        }
    pl_emu_program_unload(program);
    pl_emu_device_destroy(device);
}

START_TEST(products_are_those_of_a_plain_loop)
{
    random_turn(&rnd, _i);
    const struct form *f = &forms[_i];
    static const unsigned ns[] = {8, 64, 256};
    for (unsigned k = 0; k < 48; k++) {
        struct variant v = {.n = ns[k % 3],
                            .swizzle_bytes = (uint8_t)(k / 3 % 4 == 0 ? 0 : 16u << (k / 3 % 4))};
        v.is_a_in_regs = k / 12 & 1;
        v.a_trans = f->has_trans && !v.is_a_in_regs && random_below(&rnd, 2);
        v.b_trans = f->has_trans && v.n > 8 && random_below(&rnd, 2);
        v.a_negated = f->kind == FLOAT && random_below(&rnd, 2);
        v.b_negated = f->kind == FLOAT && random_below(&rnd, 2);
        v.is_accumulating = random_below(&rnd, 3) != 0;
        v.policy = (enum pl_emu_policy)random_below(&rnd, 3);
        run_variant(f, &v);
    }
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_wgmma");
    Suite *s = suite_create("wgmma");
    TCase *t = tcase_create("wgmma");
    tcase_set_timeout(t, 200);
    tcase_add_test(t, addresses_are_those_of_the_tables);
    tcase_add_loop_test(t, products_are_those_of_a_plain_loop, 0, PL_COUNT(forms));
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
