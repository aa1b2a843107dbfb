/*
 * mma.sync, ldmatrix, stmatrix and movmatrix on the emulated device, against the fragment tables of tests/ptx/tables/, which
 * were computed apart from any emulator: operands are put into registers as the tables say, the product is a plain loop.
 */
#include "base/debug.h"
#include "base/num.h"
#include "emu/launch.h"
#include "tests/random.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>

static struct random_source rnd;

/* ---- a device and one kernel on it ---- */

struct bench {
    struct pl_emu_device *device;
    struct pl_emu_program *program;
    uint64_t address[5];
    void *host[5];
};

enum { BUFFER_BYTES = 64 * 1024 };

static void bench_init(struct bench *b, uint16_t sm, const char *text)
{
    const struct pl_emu_config config = {.sm = sm,
                                         .n_sms = 1,
                                         .memory_bytes = 1 << 26,
                                         .check = PL_EMU_CHECK_FAULTS,
                                         .n_threads = 1};
    struct pl_emu_fault fault;
    b->device = pl_emu_device_create(&config);
    ck_assert_ptr_nonnull(b->device);
    if (!pl_emu_program_load(b->device, text, strlen(text), &b->program, &fault))
        ck_abort_msg("line %u: %s\n%s", fault.line, fault.text, text);
    struct pl_emu_memory *m = pl_emu_device_memory(b->device);
    for (int i = 0; i < 5; i++) {
        b->address[i] = pl_emu_memory_alloc(m, BUFFER_BYTES, 0, NULL)->address;
        b->host[i] = pl_emu_memory_host(m, b->address[i], BUFFER_BYTES);
    }
}

static void bench_run(struct bench *b)
{
    const struct pl_emu_launch l = {.func = pl_emu_program_func(b->program, 0),
                                    .params = b->address,
                                    .grid = {1, 1, 1},
                                    .block = {32, 1, 1}};
    struct pl_emu_fault fault;
    if (!pl_emu_launch(b->device, &l, &fault))
        ck_abort_msg("%s", fault.text);
}

static void bench_fini(struct bench *b)
{
    pl_emu_program_unload(b->program);
    pl_emu_device_destroy(b->device);
}

/* ---- tables ---- */

struct place {
    char name[48];
    char operand; /* A, B or C */
    uint8_t lane, reg, bit;
    uint16_t row, col; /* A: m, k; B: k, n; C: m, n */
};

static struct place places[8192];
static unsigned n_places;

static FILE *open_table(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/ptx/tables/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    return f;
}

static void read_places(void)
{
    char line[256];
    FILE *f = open_table("mma_sync_fragments.tsv");
    n_places = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        struct place p;
        unsigned lane, element, reg, bit, row, col;
        if (sscanf(line, "%47s %c %u %u %u %u %u %u", p.name, &p.operand, &lane, &element, &reg,
                   &bit, &row, &col) != 8)
            continue;
        p.lane = (uint8_t)lane, p.reg = (uint8_t)reg, p.bit = (uint8_t)bit;
        p.row = (uint16_t)row, p.col = (uint16_t)col;
        places[n_places++] = p;
    }
    fclose(f);
    ck_assert_uint_gt(n_places, 7000);
}

/* ---- mma ---- */

enum kind { FLOAT, INT, BITS, DOUBLE };

struct form {
    const char *text; /* after mma.sync.aligned. */
    uint16_t sm;
    const char *ab_case, *c_case;
    uint16_t m, k;
    uint8_t a_bits; /* of an element's place in a register */
    enum kind kind;
    uint8_t a_fmt, b_fmt, c_fmt; /* FLOAT: enum pl_num_fmt */
    bool a_signed, b_signed, is_sat, is_xor;
    uint16_t scale_k; /* elements along k that share a scale; 0: none */
};

#define F16_ROW(shape, kk, acc, ab, cfmt, abfmt)                                                   \
    {                                                                                              \
        shape ".row.col." acc "." ab "." ab "." acc, 80, "m16n8k" #kk "_f16", "m16n8_CD", 16, kk,  \
            16, FLOAT, PL_NUM_##abfmt, PL_NUM_##abfmt, PL_NUM_##cfmt, false, false, false, false,  \
            0                                                                                      \
    }
#define F8_ROW(kk, kindtext, sm, acc, a, b, cfmt, af, bf)                                          \
    {                                                                                              \
        "m16n8k" #kk ".row.col" kindtext "." acc "." a "." b "." acc, sm,                          \
            kk == 32 ? "m16n8k32_s8_fp8_f8f6f4" : "m16n8k16_s8", "m16n8_CD", 16, kk, 8, FLOAT,     \
            PL_NUM_##af, PL_NUM_##bf, PL_NUM_##cfmt, false, false, false, false, 0                 \
    }
#define INT_ROW(mm, kk, a, b, as, bs, bits, cs)                                                    \
    {                                                                                              \
        "m" #mm "n8k" #kk ".row.col.s32." a "." b ".s32", 80, cs,                                  \
            mm == 8 ? "m8n8_CD" : "m16n8_CD", mm, kk, bits, INT, 0, 0, 0, as, bs, false, false, 0  \
    }
#define BIT_ROW(mm, kk, op, is_xor)                                                                \
    {                                                                                              \
        "m" #mm "n8k" #kk ".row.col.s32.b1.b1.s32." op ".popc", 80, "m" #mm "n8k" #kk "_b1",       \
            mm == 8 ? "m8n8_CD" : "m16n8_CD", mm, kk, 1, BITS, 0, 0, 0, false, false, false,       \
            is_xor, 0                                                                              \
    }
#define F64_ROW(mm, kk, sm)                                                                        \
    {                                                                                              \
        "m" #mm "n8k" #kk ".row.col.f64.f64.f64.f64", sm, "m" #mm "n8k" #kk "_f64",                \
            mm == 8 ? "m8n8_CD" : "m16n8_CD", mm, kk, 64, DOUBLE, 0, 0, 0, false, false, false,    \
            false, 0                                                                               \
    }

static const struct form forms[] = {
    F16_ROW("m16n8k8", 8, "f32", "f16", F32, F16),
    F16_ROW("m16n8k8", 8, "f16", "f16", F16, F16),
    F16_ROW("m16n8k8", 8, "f32", "bf16", F32, BF16),
    F16_ROW("m16n8k16", 16, "f32", "f16", F32, F16),
    F16_ROW("m16n8k16", 16, "f16", "f16", F16, F16),
    F16_ROW("m16n8k16", 16, "f32", "bf16", F32, BF16),
    {"m16n8k4.row.col.f32.tf32.tf32.f32", 80, "m16n8k4_tf32", "m16n8_CD", 16, 4, 32, FLOAT,
     PL_NUM_TF32, PL_NUM_TF32, PL_NUM_F32, false, false, false, false, 0},
    {"m16n8k8.row.col.f32.tf32.tf32.f32", 80, "m16n8k8_tf32", "m16n8_CD", 16, 8, 32, FLOAT,
     PL_NUM_TF32, PL_NUM_TF32, PL_NUM_F32, false, false, false, false, 0},
    F8_ROW(16, "", 89, "f32", "e4m3", "e5m2", F32, E4M3, E5M2),
    F8_ROW(16, "", 89, "f16", "e5m2", "e5m2", F16, E5M2, E5M2),
    F8_ROW(32, "", 89, "f32", "e4m3", "e4m3", F32, E4M3, E4M3),
    F8_ROW(32, "", 89, "f16", "e4m3", "e5m2", F16, E4M3, E5M2),
    F8_ROW(32, ".kind::f8f6f4", 120, "f32", "e3m2", "e2m3", F32, E3M2, E2M3),
    F8_ROW(32, ".kind::f8f6f4", 120, "f32", "e2m1", "e4m3", F32, E2M1, E4M3),
    F8_ROW(32, ".kind::f8f6f4", 120, "f16", "e2m1", "e2m1", F16, E2M1, E2M1),
    INT_ROW(8, 16, "s8", "u8", true, false, 8, "m8n8k16_s8"),
    INT_ROW(16, 16, "u8", "s8", false, true, 8, "m16n8k16_s8"),
    INT_ROW(16, 32, "s8", "s8", true, true, 8, "m16n8k32_s8_fp8_f8f6f4"),
    INT_ROW(8, 32, "s4", "u4", true, false, 4, "m8n8k32_s4"),
    INT_ROW(16, 32, "u4", "s4", false, true, 4, "m16n8k32_s4"),
    INT_ROW(16, 64, "s4", "s4", true, true, 4, "m16n8k64_s4_e2m1"),
    BIT_ROW(8, 128, "xor", true),
    BIT_ROW(16, 128, "and", false),
    BIT_ROW(16, 256, "xor", true),
    F64_ROW(8, 4, 80),
    F64_ROW(16, 4, 90),
    F64_ROW(16, 8, 90),
    F64_ROW(16, 16, 90),
};

static unsigned regs_of(const struct form *f, char operand)
{
    unsigned reg_bits = f->a_bits == 64 ? 64 : 32;
    if (operand == 'A')
        return (unsigned)f->m * f->k * f->a_bits / (32 * reg_bits);
    if (operand == 'B')
        return 8u * f->k * f->a_bits / (32 * reg_bits);
    return f->m * 8u / 32 / (f->kind == FLOAT && f->c_fmt == PL_NUM_F16 ? 2 : 1);
}

static char *put_regs(char *out, char name, unsigned n)
{
    *out++ = '{';
    for (unsigned i = 0; i < n; i++)
        out += sprintf(out, "%s%%%c%u", i ? ", " : "", name, i);
    *out++ = '}';
    *out = '\0';
    return out;
}

static char *put_loads(char *out, char name, unsigned param, unsigned n, unsigned bytes)
{
    out +=
        sprintf(out, "ld.param.u64 %%p, [p%u];\nmad.wide.u32 %%q, %%t, %u, %%p;\n", param, bytes);
    for (unsigned i = 0; i < n; i++)
        out +=
            sprintf(out, "ld.global.b%u %%%c%u, [%%q + %u];\n", bytes * 8, name, i, i * 32 * bytes);
    return out;
}

/* Parameters: A, B, C, D; register i of lane t at 32 i + t. */
static void write_kernel(const struct form *f, char *out)
{
    unsigned bytes = f->kind == DOUBLE ? 8 : 4, n_c = regs_of(f, 'C');
    const char *suffix = f->sm == 120 ? "a" : "";
    out += sprintf(out, ".version 9.0\n.target sm_%u%s\n.address_size 64\n", f->sm, suffix);
    out += sprintf(out,
                   ".visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 "
                   "p3, .param .u64 p4)\n{\n"
                   ".reg .b64 %%p, %%q; .reg .b32 %%t; .reg .b%u %%a<8>, %%b<8>, %%c<8>, "
                   "%%d<8>;\nmov.u32 %%t, %%tid.x;\n",
                   bytes * 8);
    out = put_loads(out, 'a', 0, regs_of(f, 'A'), bytes);
    out = put_loads(out, 'b', 1, regs_of(f, 'B'), bytes);
    out = put_loads(out, 'c', 2, n_c, bytes);
    out += sprintf(out, "mma.sync.aligned.%s ", f->text);
    out = put_regs(out, 'd', n_c);
    out += sprintf(out, ", ");
    out = put_regs(out, 'a', regs_of(f, 'A'));
    out += sprintf(out, ", ");
    out = put_regs(out, 'b', regs_of(f, 'B'));
    out += sprintf(out, ", ");
    out = put_regs(out, 'c', n_c);
    out += sprintf(out, ";\nld.param.u64 %%p, [p3];\nmad.wide.u32 %%q, %%t, %u, %%p;\n", bytes);
    for (unsigned i = 0; i < n_c; i++)
        out += sprintf(out, "st.global.b%u [%%q + %u], %%d%u;\n", bytes * 8, i * 32 * bytes, i);
    sprintf(out, "ret;\n}\n");
}

/* A small code of the format, and its value; fp4 stands two bits up where its place is a byte. */
static uint64_t random_element(const struct form *f, bool is_a, double *value)
{
    uint64_t u = random_u64(&rnd);
    bool is_signed = is_a ? f->a_signed : f->b_signed;
    double v = (double)(int)(u % 5) - 2.0;
    if (f->kind == BITS) {
        *value = (double)(u & 1);
        return u & 1;
    }
    if (f->kind == INT) {
        u &= ((uint64_t)1 << f->a_bits) - 1;
        bool is_negative = is_signed && u >> (f->a_bits - 1);
        *value = (double)u - (is_negative ? (double)(1 << f->a_bits) : 0.0);
        return u;
    }
    *value = v;
    if (f->kind == DOUBLE) {
        memcpy(&u, &v, sizeof u);
        return u;
    }
    enum pl_num_fmt fmt = (enum pl_num_fmt)(is_a ? f->a_fmt : f->b_fmt);
    u = pl_num_of_double(fmt, v);
    return fmt == PL_NUM_E2M1 && f->a_bits == 8 ? u << 2 : u;
}

static void place_bits(void *buffer, const struct place *p, bool is_64, unsigned shift,
                       uint64_t bits)
{
    unsigned at = p->reg * 32u + p->lane;
    if (is_64)
        ((uint64_t *)buffer)[at] = bits;
    else
        ((uint32_t *)buffer)[at] |= (uint32_t)bits << (p->bit + shift);
}

struct matrices {
    double a[16][256], b[256][8], c[16][8];
};

static void fill_operand(const struct form *f, char operand, void *buffer, struct matrices *m)
{
    memset(buffer, 0, BUFFER_BYTES);
    unsigned n = 0, per_row = f->a_bits == 1 ? 8 : 1; /* the table has every eighth bit of .b1 */
    for (unsigned i = 0; i < n_places; i++) {
        const struct place *p = &places[i];
        if (strcmp(p->name, f->ab_case) != 0 || p->operand != operand)
            continue;
        for (unsigned j = 0; j < per_row; j++) {
            bool is_a = operand == 'A';
            double *v = is_a ? &m->a[p->row][p->col + j] : &m->b[p->row + j][p->col];
            place_bits(buffer, p, f->a_bits == 64, j, random_element(f, is_a, v));
            n++;
        }
    }
    ck_assert_uint_eq(n, (operand == 'A' ? f->m : 8u) * f->k);
}

/* Where element (row, col) of C or D is: register, lane; f16 in halves. */
static void fill_c(const struct form *f, void *buffer, struct matrices *m)
{
    memset(buffer, 0, BUFFER_BYTES);
    for (unsigned i = 0; i < n_places; i++) {
        struct place p = places[i];
        if (strcmp(p.name, f->c_case) != 0)
            continue;
        double v = (double)(int)random_below(&rnd, 9) - 4.0;
        uint64_t u = (uint32_t)(int32_t)v;
        m->c[p.row][p.col] = v;
        if (f->kind == DOUBLE)
            memcpy(&u, &v, sizeof u);
        if (f->kind == FLOAT)
            u = pl_num_of_double((enum pl_num_fmt)f->c_fmt, v);
        if (f->kind == FLOAT && f->c_fmt == PL_NUM_F16) {
            p.bit = (uint8_t)(16 * (p.reg & 1));
            p.reg /= 2;
        }
        place_bits(buffer, &p, f->kind == DOUBLE, 0, u);
    }
}

static double element_of_d(const struct form *f, const void *buffer, struct place p)
{
    if (f->kind == DOUBLE)
        return ((const double *)buffer)[p.reg * 32 + p.lane];
    if (f->kind != FLOAT)
        return ((const int32_t *)buffer)[p.reg * 32 + p.lane];
    if (f->c_fmt == PL_NUM_F32)
        return (double)((const float *)buffer)[p.reg * 32 + p.lane];
    uint32_t pair = ((const uint32_t *)buffer)[p.reg / 2 * 32 + p.lane];
    return pl_num_to_double(PL_NUM_F16, pair >> (16 * (p.reg & 1)) & 0xffff);
}

START_TEST(mma_multiplies_by_the_fragment_tables)
{
    random_turn(&rnd, _i);
    const struct form *f = &forms[_i];
    static char text[8192];
    static struct matrices m;
    struct bench b;
    read_places();
    write_kernel(f, text);
    bench_init(&b, f->sm, text);
    for (int round = 0; round < 4; round++) {
        fill_operand(f, 'A', b.host[0], &m);
        fill_operand(f, 'B', b.host[1], &m);
        fill_c(f, b.host[2], &m);
        bench_run(&b);
        for (unsigned i = 0; i < n_places; i++) {
            if (strcmp(places[i].name, f->c_case) != 0)
                continue;
            double want = m.c[places[i].row][places[i].col];
            for (unsigned k = 0; k < f->k; k++) {
                double x = m.a[places[i].row][k], y = m.b[k][places[i].col];
                want += f->is_xor ? (x != y ? 1.0 : 0.0) : x * y;
            }
            double got = element_of_d(f, b.host[3], places[i]);
            ck_assert_msg(got == want, "%s at %u, %u: %g, want %g", f->text, places[i].row,
                          places[i].col, got, want);
        }
    }
    bench_fini(&b);
}
END_TEST

/* ---- block scales: sfa, {byte-id, thread-id-a}, sfb, {byte-id, thread-id-b} ---- */

static const struct {
    const char *text, *table, *ab_case;
    uint16_t k, scale_k;
    uint8_t a_bits, a_fmt, b_fmt, scale_fmt,
        n_bytes; /* byte ids: 0, or multiples below 4 of the factors a register holds */
} scaled_forms[] = {
    {"m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e5m2.f32.ue8m0", "k32_1X",
     "m16n8k32_s8_fp8_f8f6f4", 32, 32, 8, PL_NUM_E4M3, PL_NUM_E5M2, PL_NUM_UE8M0, 1},
    {"m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m3.e2m1.f32.ue8m0", "k32_1X",
     "m16n8k32_s8_fp8_f8f6f4", 32, 32, 8, PL_NUM_E2M3, PL_NUM_E2M1, PL_NUM_UE8M0, 1},
    {"m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0", "k64_2X",
     "m16n8k64_s4_e2m1", 64, 32, 4, PL_NUM_E2M1, PL_NUM_E2M1, PL_NUM_UE8M0, 2},
    {"m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", "k64_4X",
     "m16n8k64_s4_e2m1", 64, 16, 4, PL_NUM_E2M1, PL_NUM_E2M1, PL_NUM_E4M3, 4},
};

struct scales {
    double a[16][4], b[8][4];
    unsigned byte_a, byte_b, thread_a, thread_b;
};

/* Every lane's word is random; the lanes of the table hold the factors that count. */
static void fill_scales(unsigned form, uint32_t *sfa, uint32_t *sfb, struct scales *s)
{
    char line[128], name[16], operand[8];
    unsigned lane, index, selected, n = 0,
                                    n_factors = scaled_forms[form].k / scaled_forms[form].scale_k;
    bool is_ue8m0 = scaled_forms[form].scale_fmt == PL_NUM_UE8M0;
    for (unsigned i = 0; i < 32; i++) {
        sfa[i] = (uint32_t)random_u64(&rnd);
        sfb[i] = (uint32_t)random_u64(&rnd);
    }
    FILE *f = open_table("mma_block_scale_lanes.tsv");
    while (fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "%15s %7s %u %u thread-id-%*c=%u", name, operand, &lane, &index,
                   &selected) != 5 ||
            strcmp(name, scaled_forms[form].table) != 0)
            continue;
        bool is_a = strcmp(operand, "SFA") == 0;
        if (selected != (is_a ? s->thread_a : s->thread_b))
            continue;
        for (unsigned k = 0; k < n_factors; k++) {
            unsigned code =
                (unsigned)(is_ue8m0 ? 125 + random_below(&rnd, 5) : 0x30 + random_below(&rnd, 24));
            unsigned shift = 8 * ((is_a ? s->byte_a : s->byte_b) + k);
            uint32_t *word = is_a ? &sfa[lane] : &sfb[lane];
            *word = (*word & ~(0xffu << shift)) | code << shift;
            *(is_a ? &s->a[index][k] : &s->b[index][k]) =
                pl_num_to_double((enum pl_num_fmt)scaled_forms[form].scale_fmt, code);
        }
        n++;
    }
    fclose(f);
    ck_assert_uint_eq(n, 24);
}

static void write_scaled_kernel(unsigned form, const struct form *f, const struct scales *s,
                                char *out)
{
    out += sprintf(out, ".version 9.0\n.target sm_120a\n.address_size 64\n.visible .entry k(.param "
                        ".u64 p0, .param .u64 p1, "
                        ".param .u64 p2, .param .u64 p3, .param .u64 p4)\n{\n.reg .b64 %%p, %%q; "
                        ".reg .b32 %%t, %%s<2>, %%a<8>, "
                        "%%b<8>, %%c<8>, %%d<8>;\nmov.u32 %%t, %%tid.x;\n");
    out = put_loads(out, 'a', 0, regs_of(f, 'A'), 4);
    out = put_loads(out, 'b', 1, regs_of(f, 'B'), 4);
    out = put_loads(out, 'c', 2, 4, 4);
    out = put_loads(out, 's', 4, 2, 4);
    out += sprintf(out,
                   "mma.sync.aligned.%s {%%d0, %%d1, %%d2, %%d3}, {%%a0, %%a1, %%a2, %%a3}, {%%b0, "
                   "%%b1}, {%%c0, %%c1, %%c2, "
                   "%%c3}, %%s0, {%u, %u}, %%s1, {%u, %u};\nld.param.u64 %%p, [p3];\nmad.wide.u32 "
                   "%%q, %%t, 4, %%p;\n",
                   scaled_forms[form].text, s->byte_a, s->thread_a, s->byte_b, s->thread_b);
    for (unsigned i = 0; i < 4; i++)
        out += sprintf(out, "st.global.b32 [%%q + %u], %%d%u;\n", i * 128, i);
    sprintf(out, "ret;\n}\n");
}

START_TEST(block_scales_come_from_the_lanes_of_the_table)
{
    random_turn(&rnd, _i);
    static char text[8192];
    static struct matrices m;
    const struct form f = {scaled_forms[_i].text,
                           120,
                           scaled_forms[_i].ab_case,
                           "m16n8_CD",
                           16,
                           scaled_forms[_i].k,
                           scaled_forms[_i].a_bits,
                           FLOAT,
                           scaled_forms[_i].a_fmt,
                           scaled_forms[_i].b_fmt,
                           PL_NUM_F32,
                           false,
                           false,
                           false,
                           false,
                           scaled_forms[_i].scale_k};
    read_places();
    for (unsigned round = 0; round < 6; round++) {
        struct scales s = {.thread_a = round & 1, .thread_b = round & 3};
        struct bench b;
        s.byte_a =
            (unsigned)random_below(&rnd, 4 / scaled_forms[_i].n_bytes) * scaled_forms[_i].n_bytes;
        s.byte_b =
            (unsigned)random_below(&rnd, 4 / scaled_forms[_i].n_bytes) * scaled_forms[_i].n_bytes;
        write_scaled_kernel((unsigned)_i, &f, &s, text);
        bench_init(&b, 120, text);
        fill_operand(&f, 'A', b.host[0], &m);
        fill_operand(&f, 'B', b.host[1], &m);
        fill_c(&f, b.host[2], &m);
        fill_scales((unsigned)_i, b.host[4], (uint32_t *)b.host[4] + 32, &s);
        bench_run(&b);
        for (unsigned i = 0; i < n_places; i++) {
            if (strcmp(places[i].name, "m16n8_CD") != 0)
                continue;
            unsigned row = places[i].row, col = places[i].col;
            double want = m.c[row][col], got = element_of_d(&f, b.host[3], places[i]);
            for (unsigned k = 0; k < f.k; k++)
                want +=
                    m.a[row][k] * m.b[k][col] * s.a[row][k / f.scale_k] * s.b[col][k / f.scale_k];
            ck_assert_msg(got == (double)(float)want, "%s at %u, %u: %g, want %g", f.text, row, col,
                          got, want);
        }
        bench_fini(&b);
    }
}
END_TEST

/* ---- ldmatrix, stmatrix: rows of 16 bytes in shared memory, lane i names row i of a shuffled order ---- */

static const struct {
    const char *table, *text;
    uint8_t n_regs;
    bool is_store;
    uint8_t n_rows, n_packed_bits; /* 0: not packed */
} matrix_forms[] = {
    {"ldmatrix.m8n8.x4.b16", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4, false, 32, 0},
    {"ldmatrix.m8n8.x4.trans.b16", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", 4, false, 32,
     0},
    {"ldmatrix.m16n16.x2.trans.b8", "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8", 4, false, 32,
     0},
    {"ldmatrix.m16n16.x2.trans.b8", "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b6x16_p32",
     4, false, 32, 6},
    {"ldmatrix.m16n16.x2.trans.b8", "ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8x16.b4x16_p64",
     4, false, 32, 4},
    {"ldmatrix.m8n16.x4.b8x16", "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b6x16_p32", 4, false,
     32, 6},
    {"ldmatrix.m8n16.x4.b8x16", "ldmatrix.sync.aligned.m8n16.x4.shared.b8x16.b4x16_p64", 4, false,
     32, 4},
    {"stmatrix.m16n8.x4.trans.b8", "stmatrix.sync.aligned.m16n8.x4.trans.shared.b8", 4, true, 32,
     0},
};

/* Byte i of a row: itself, or element i of those packed from bit 0 on, in the low bits of its byte. */
static unsigned row_byte_of(const uint8_t *row, unsigned i, unsigned n_bits)
{
    unsigned v = 0;
    for (unsigned b = 0; b < n_bits; b++)
        v |= (unsigned)(row[(i * n_bits + b) / 8] >> (i * n_bits + b) % 8 & 1) << b;
    return n_bits == 0 ? row[i] : v;
}

static void write_matrix_kernel(unsigned form, char *out)
{
    out += sprintf(
        out,
        ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param "
        ".u64 p1, "
        ".param .u64 p2, .param .u64 p3, .param .u64 p4)\n{\n.reg .b64 %%p, %%q; .reg .b32 %%t, "
        "%%s, %%x, %%v<4>, "
        "%%w<4>;\n.shared .align 16 .b8 rows[512];\nmov.u32 %%t, %%tid.x;\nmov.u32 %%s, rows;\n");
    /* shared memory from p0; each lane moves 16 bytes */
    out += sprintf(
        out,
        "ld.param.u64 %%p, [p0];\nmad.wide.u32 %%q, %%t, 16, %%p;\nld.global.v4.b32 {%%v0, %%v1, "
        "%%v2, %%v3}, "
        "[%%q];\nmad.lo.u32 %%x, %%t, 16, %%s;\nst.shared.v4.b32 [%%x], {%%v0, %%v1, %%v2, %%v3};\n"
        "bar.warp.sync 0xffffffff;\n");
    /* p1: the row of each lane, scaled */
    out += sprintf(out, "ld.param.u64 %%p, [p1];\nmad.wide.u32 %%q, %%t, 4, %%p;\nld.global.b32 "
                        "%%x, [%%q];\nadd.u32 %%x, %%x, %%s;\n");
    out += sprintf(out, "ld.param.u64 %%p, [p2];\nmad.wide.u32 %%q, %%t, 16, %%p;\n");
    if (matrix_forms[form].is_store)
        out += sprintf(out,
                       "ld.global.v4.b32 {%%w0, %%w1, %%w2, %%w3}, [%%q];\n%s [%%x], {%%w0, %%w1, "
                       "%%w2, %%w3};\n"
                       "bar.warp.sync 0xffffffff;\nmad.lo.u32 %%x, %%t, 16, %%s;\nld.shared.v4.b32 "
                       "{%%w0, %%w1, %%w2, %%w3}, "
                       "[%%x];\nld.param.u64 %%p, [p3];\nmad.wide.u32 %%q, %%t, 16, %%p;\n",
                       matrix_forms[form].text);
    else
        out += sprintf(out, "%s {%%w0, %%w1, %%w2, %%w3}, [%%x];\n", matrix_forms[form].text);
    sprintf(out, "st.global.v4.b32 [%%q], {%%w0, %%w1, %%w2, %%w3};\nret;\n}\n");
}

START_TEST(matrices_move_by_the_tables)
{
    random_turn(&rnd, _i);
    static char text[4096], line[256];
    struct bench b;
    uint32_t order[32];
    write_matrix_kernel((unsigned)_i, text);
    bench_init(&b, 100, text);
    for (uint32_t i = 0; i < 32; i++)
        order[i] = i;
    for (uint32_t i = 31; i > 0; i--) {
        uint32_t j = (uint32_t)random_below(&rnd, i + 1), t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (unsigned i = 0; i < 512; i++) {
        ((uint8_t *)b.host[0])[i] = (uint8_t)random_u64(&rnd);
        ((uint8_t *)b.host[2])[i] = (uint8_t)random_u64(&rnd);
    }
    for (unsigned i = 0; i < 32; i++)
        ((uint32_t *)b.host[1])[i] = order[i] * 16;
    bench_run(&b);
    const uint8_t *rows = b.host[matrix_forms[_i].is_store ? 3 : 0], *regs = b.host[2];
    unsigned n = 0;
    FILE *f = open_table("ldmatrix_stmatrix.tsv");
    while (fgets(line, sizeof line, f) != NULL) {
        char form[64];
        unsigned lane, reg, byte, row_lane, row_byte;
        if (sscanf(line, "%63s %u %u %u %u %u", form, &lane, &reg, &byte, &row_lane, &row_byte) !=
                6 ||
            strcmp(form, matrix_forms[_i].table) != 0)
            continue;
        unsigned width = strstr(form, "b16") != NULL
                             ? 2
                             : 1; /* b16 rows of the table name the first byte of an element */
        for (unsigned k = 0; k < width; k++, n++) {
            unsigned got = regs[lane * 16 + reg * 4 + byte + k],
                     want = row_byte_of(rows + order[row_lane] * 16, row_byte + k,
                                        matrix_forms[_i].n_packed_bits);
            ck_assert_msg(got == want, "%s lane %u reg %u byte %u", form, lane, reg, byte + k);
        }
    }
    fclose(f);
    ck_assert_uint_eq(n, 512);
    bench_fini(&b);
}
END_TEST

/* stmatrix of b16 is the mirror of ldmatrix, transposed or not; movmatrix is a store and a transposed load. */
START_TEST(stores_and_moves_mirror_loads)
{
    random_turn(&rnd, _i);
    static const char *const trans[] = {"", ".trans"};
    static char text[4096];
    struct bench b;
    sprintf(text,
            ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k(.param .u64 p0, "
            ".param .u64 p1, .param .u64 p2, "
            ".param .u64 p3, .param .u64 p4)\n{\n.reg .b64 %%p, %%q; .reg .b32 %%t, %%x, %%v<4>, "
            "%%w<4>;\n"
            ".shared .align 16 .b8 rows[512];\nmov.u32 %%t, %%tid.x;\nmov.u32 %%x, "
            "rows;\nmad.lo.u32 %%x, %%t, 16, %%x;\n"
            "ld.param.u64 %%p, [p0];\nmad.wide.u32 %%q, %%t, 16, %%p;\nld.global.v4.b32 {%%v0, "
            "%%v1, %%v2, %%v3}, [%%q];\n"
            "stmatrix.sync.aligned.m8n8.x4%s.shared.b16 [%%x], {%%v0, %%v1, %%v2, %%v3};\n"
            "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%w0, %%w1, %%w2, %%w3}, [%%x];\n"
            "ld.param.u64 %%p, [p1];\nmad.wide.u32 %%q, %%t, 16, %%p;\nst.global.v4.b32 [%%q], "
            "{%%w0, %%w1, %%w2, %%w3};\n"
            "ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%%w0, %%w1, %%w2, %%w3}, [%%x];\n"
            "movmatrix.sync.aligned.m8n8.trans.b16 %%v0, %%v0;\nsub.u32 %%w0, %%w0, %%v0;\n"
            "ld.param.u64 %%p, [p2];\nmad.wide.u32 %%q, %%t, 4, %%p;\nst.global.b32 [%%q], "
            "%%w0;\nret;\n}\n",
            trans[_i], trans[_i], trans[1 - _i]);
    bench_init(&b, 100, text);
    for (unsigned i = 0; i < 512; i++)
        ((uint8_t *)b.host[0])[i] = (uint8_t)random_u64(&rnd);
    memset(b.host[2], 0xff, 128);
    bench_run(&b);
    ck_assert_mem_eq(b.host[0], b.host[1], 512);
    for (unsigned t = 0; t < 32;
         t++) /* transposed in memory as movmatrix transposes in registers */
        ck_assert_uint_eq(((uint32_t *)b.host[2])[t], 0);
    bench_fini(&b);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_mma");
    Suite *s = suite_create("mma");
    TCase *t = tcase_create("mma");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, mma_multiplies_by_the_fragment_tables, 0, PL_COUNT(forms));
    tcase_add_loop_test(t, block_scales_come_from_the_lanes_of_the_table, 0,
                        PL_COUNT(scaled_forms));
    tcase_add_loop_test(t, matrices_move_by_the_tables, 0, PL_COUNT(matrix_forms));
    tcase_add_loop_test(t, stores_and_moves_mirror_loads, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
