/*
 * wmma on the emulated device: matrices lie in memory by rows or columns with some stride, are loaded, multiplied and stored; the
 * product is a plain loop over memory, for how fragments lie in the lanes is left open.
 */
#include "base/num.h"
#include "emu/launch.h"
#include "tests/random.h"

#include <check.h>
#include <stdbool.h>
#include <string.h>

static struct random_source rnd;

enum { BUFFER_BYTES = 8192, N_LAYOUTS = 16, N_SPACES = 3, SM = 90 };

/* Types by the letters of PTX; kept is how many registers of A, B and C a lane has. */
static const struct form {
    unsigned m, n, k;
    const char *ab, *c, *d;
    unsigned kept_a, kept_b, kept_c, kept_d;
    const char *op; /* of b1 */
} forms[] = {
#define HALF(m, n)                                                                                 \
    {m, n, 16, "f16", "f16", "f16", 8, 8, 4, 4, ""},                                               \
        {m, n, 16, "f16", "f32", "f16", 8, 8, 8, 4, ""},                                           \
        {m, n, 16, "f16", "f16", "f32", 8, 8, 4, 8, ""},                                           \
    {                                                                                              \
        m, n, 16, "f16", "f32", "f32", 8, 8, 8, 8, ""                                              \
    }
    HALF(16, 16),
    HALF(8, 32),
    HALF(32, 8),
#undef HALF
    {16, 16, 16, "bf16", "f32", "f32", 4, 4, 8, 8, ""},
    {8, 32, 16, "bf16", "f32", "f32", 2, 8, 8, 8, ""},
    {32, 8, 16, "bf16", "f32", "f32", 8, 2, 8, 8, ""},
    {16, 16, 16, "s8", "s32", "s32", 2, 2, 8, 8, ""},
    {8, 32, 16, "u8", "s32", "s32", 1, 4, 8, 8, ""},
    {32, 8, 16, "s8", "s32", "s32", 4, 1, 8, 8, ""},
    {16, 16, 8, "tf32", "f32", "f32", 4, 4, 8, 8, ""},
    {8, 8, 4, "f64", "f64", "f64", 1, 1, 2, 2, ""},
    {8, 8, 32, "s4", "s32", "s32", 1, 1, 2, 2, ""},
    {8, 8, 32, "u4", "s32", "s32", 1, 1, 2, 2, ""},
    {8, 8, 128, "b1", "s32", "s32", 1, 1, 2, 2, ".xor.popc"},
    {8, 8, 128, "b1", "s32", "s32", 1, 1, 2, 2, ".and.popc"},
};

enum { N_FORMS = sizeof forms / sizeof forms[0] };

static unsigned bits_of(const char *type)
{
    return strcmp(type, "tf32") == 0
               ? 32
               : (unsigned)atoi(type + (type[0] == 'b' && type[1] == 'f' ? 2 : 1));
}

/* ---- matrices in memory ---- */

struct matrix {
    const char *type;
    unsigned n_rows, n_cols, stride;
    bool is_row_major;
    void *host;
};

static uint64_t *element(const struct matrix *m, unsigned row, unsigned col, unsigned *shift)
{
    unsigned bits = bits_of(m->type);
    unsigned at = (m->is_row_major ? row * m->stride + col : col * m->stride + row) * bits;
    *shift = at % 8;
    return (void *)((char *)m->host + at / 8);
}

static uint64_t get(const struct matrix *m, unsigned row, unsigned col)
{
    unsigned shift, bits = bits_of(m->type);
    uint64_t v = 0;
    memcpy(&v, element(m, row, col, &shift), bits < 8 ? 1 : bits / 8);
    return v >> shift & (bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1);
}

static void put(const struct matrix *m, unsigned row, unsigned col, uint64_t v)
{
    unsigned shift, bits = bits_of(m->type);
    void *p = element(m, row, col, &shift);
    uint8_t byte;
    if (bits >= 8) {
        memcpy(p, &v, bits / 8);
        return;
    }
    memcpy(&byte, p, 1);
    byte = (uint8_t)((byte & ~(((1u << bits) - 1) << shift)) | (uint8_t)v << shift);
    memcpy(p, &byte, 1);
}

static enum pl_num_fmt fmt_of(const char *type)
{
    return strcmp(type, "f16") == 0    ? PL_NUM_F16
           : strcmp(type, "bf16") == 0 ? PL_NUM_BF16
           : strcmp(type, "f64") == 0  ? PL_NUM_F64
                                       : PL_NUM_F32;
}

static bool is_float(const char *type) { return strchr(type, 'f') != NULL; }

static double value_of(const struct matrix *m, unsigned row, unsigned col)
{
    uint64_t u = get(m, row, col);
    unsigned bits = bits_of(m->type);
    if (is_float(m->type))
        return pl_num_to_double(fmt_of(m->type), u);
    bool is_negative = m->type[0] == 's' && u >> (bits - 1) & 1;
    return (double)u - (is_negative ? (double)((uint64_t)1 << bits) : 0.0);
}

/* Values whose products and sums are exact in double. */
static void fill(const struct matrix *m)
{
    unsigned bits = bits_of(m->type);
    for (unsigned row = 0; row < m->n_rows; row++)
        for (unsigned col = 0; col < m->n_cols; col++) {
            uint64_t u = random_u64(&rnd);
            double v = ((double)(u % 257) - 128.0) / 16.0;
            if (is_float(m->type))
                u = pl_num_of_double(fmt_of(m->type), v);
            else if (bits == 32)
                u = (uint32_t)((int32_t)(u % 4001) - 2000);
            else
                u &= ((uint64_t)1 << bits) - 1;
            put(m, row, col, u);
        }
}

static uint64_t result(const struct form *f, const struct matrix *a, const struct matrix *b,
                       const struct matrix *c, unsigned row, unsigned col)
{
    double sum = 0.0;
    for (unsigned k = 0; k < f->k; k++) {
        double x = value_of(a, row, k), y = value_of(b, k, col);
        sum += f->op[0] == 0 ? x * y : strcmp(f->op, ".xor.popc") == 0 ? (double)(x != y) : x * y;
    }
    sum += value_of(c, row, col);
    return is_float(f->d) ? pl_num_of_double(fmt_of(f->d), sum) : (uint32_t)(int32_t)sum;
}

/* ---- the kernel ---- */

static char *put_regs(char *out, char name, unsigned n)
{
    out += sprintf(out, "{");
    for (unsigned i = 0; i < n; i++)
        out += sprintf(out, "%s%c%u", i == 0 ? "" : ", ", name, i);
    return out + sprintf(out, "}");
}

static const char *reg_type(const char *type)
{
    return strcmp(type, "f64") == 0 ? "f64" : strcmp(type, "f32") == 0 ? "f32" : "b32";
}

static const char *layout(const struct matrix *m) { return m->is_row_major ? "row" : "col"; }

static char *put_load(char *out, char role, const struct form *f, const struct matrix *m,
                      unsigned kept, const char *space, bool has_stride)
{
    out += sprintf(out, "wmma.load.%c.sync.aligned.%s.m%un%uk%u%s.%s ", role, layout(m), f->m, f->n,
                   f->k, space, m->type);
    out = put_regs(out, role, kept);
    out += sprintf(out, ", [p%c]", role);
    if (has_stride)
        out += sprintf(out, ", %u", m->stride);
    return out + sprintf(out, ";\n");
}

static void write_kernel(char *out, const struct form *f, const struct matrix m[4], int space,
                         bool has_stride)
{
    static const char *const spaces[N_SPACES] = {".global", "", ".shared"};
    const char *s = spaces[space];
    out += sprintf(out, ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param "
                        ".u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{\n.reg .b64 "
                        "pa, pb, pc, pd, t;\n.reg .b32 x, i, s, lane;\n.reg .pred p;\n");
    out += sprintf(out, ".shared .align 32 .b8 tile[%d];\n", 3 * BUFFER_BYTES);
    out += sprintf(out, ".reg .%s a<8>, b<8>;\n.reg .%s c<8>;\n.reg .%s d<8>;\n", reg_type(f->ab),
                   reg_type(f->c), reg_type(f->d));
    out += sprintf(out, "ld.param.u64 pa, [a];\nld.param.u64 pb, [b];\nld.param.u64 pc, "
                        "[c];\nld.param.u64 pd, [d];\nmov.u32 lane, %%tid.x;\n");
    for (int k = 0; space == 2 && k < 3; k++)
        out += sprintf(out,
                       "shl.b32 i, lane, 2;\nL%d:\ncvt.u64.u32 t, i;\nadd.u64 t, p%c, t;\n"
                       "ld.global.u32 x, [t];\nmov.u32 s, tile;\nadd.u32 s, s, i;\n"
                       "st.shared.u32 [s+%d], x;\nadd.u32 i, i, 128;\nsetp.lt.u32 p, i, %d;\n"
                       "@p bra L%d;\nmov.u32 s, tile;\nadd.u32 s, s, %d;\ncvt.u64.u32 p%c, s;\n",
                       k, "abc"[k], k * BUFFER_BYTES, BUFFER_BYTES, k, k * BUFFER_BYTES, "abc"[k]);
    out += sprintf(out, "bar.warp.sync -1;\n");
    out = put_load(out, 'a', f, &m[0], f->kept_a, s, has_stride);
    out = put_load(out, 'b', f, &m[1], f->kept_b, s, has_stride);
    out = put_load(out, 'c', f, &m[2], f->kept_c, s, has_stride);
    out += sprintf(out, "wmma.mma%s.sync.aligned.%s.%s.m%un%uk%u.%s", f->op, layout(&m[0]),
                   layout(&m[1]), f->m, f->n, f->k, f->d);
    if (strcmp(f->ab, "f16") != 0)
        out += sprintf(out, ".%s.%s", f->ab, f->ab);
    out += sprintf(out, ".%s%s ", f->c, strcmp(f->ab, "f64") == 0 ? ".rn" : "");
    out = put_regs(out, 'd', f->kept_d);
    out = put_regs(out + sprintf(out, ", "), 'a', f->kept_a);
    out = put_regs(out + sprintf(out, ", "), 'b', f->kept_b);
    out = put_regs(out + sprintf(out, ", "), 'c', f->kept_c);
    out += sprintf(out, ";\nwmma.store.d.sync.aligned.%s.m%un%uk%u%s.%s [pd], ", layout(&m[3]),
                   f->m, f->n, f->k, space == 2 ? ".global" : s, f->d);
    out = put_regs(out, 'd', f->kept_d);
    if (has_stride)
        out += sprintf(out, ", %u", m[3].stride);
    sprintf(out, ";\nret;\n}\n");
}

/* ---- runs ---- */

static void run(const char *text, struct pl_emu_device *d, const uint64_t params[4])
{
    struct pl_emu_program *program;
    struct pl_emu_fault fault;
    if (!pl_emu_program_load(d, text, strlen(text), &program, &fault))
        ck_abort_msg("line %u: %s\n%s", fault.line, fault.text, text);
    const struct pl_emu_launch l = {.func = pl_emu_program_func(program, 0),
                                    .params = params,
                                    .grid = {1, 1, 1},
                                    .block = {32, 1, 1}};
    if (!pl_emu_launch(d, &l, &fault))
        ck_abort_msg("%s\n%s", fault.text, text);
    pl_emu_program_unload(program);
}

/* Which of A, B, C and D lie by rows; narrow A and B can lie in one way only. */
static void choose_layout(const struct form *f, int layouts, struct matrix m[4], bool has_stride)
{
    const unsigned rows[] = {f->m, f->k, f->m, f->m}, cols[] = {f->k, f->n, f->n, f->n};
    const char *const types[] = {f->ab, f->ab, f->c, f->d};
    for (int i = 0; i < 4; i++) {
        m[i] = (struct matrix){.type = types[i],
                               .n_rows = rows[i],
                               .n_cols = cols[i],
                               .is_row_major = (layouts >> i & 1) != 0};
        if (bits_of(f->ab) < 8 && i < 2)
            m[i].is_row_major = i == 0;
        m[i].stride = m[i].is_row_major ? cols[i] : rows[i];
        if (has_stride)
            m[i].stride += bits_of(types[i]) < 8 ? 128 : 128 / bits_of(types[i]);
    }
}

START_TEST(products_by_any_layout_and_space)
{
    static char text[16384];
    const struct form *f = &forms[_i % N_FORMS];
    int space = _i / N_FORMS;
    const struct pl_emu_config config = {
        .sm = SM, .n_sms = 1, .memory_bytes = 1 << 26, .check = PL_EMU_CHECK_RACE, .n_threads = 1};
    struct pl_emu_device *device = pl_emu_device_create(&config);
    struct pl_emu_memory *memory = pl_emu_device_memory(device);
    uint64_t address[4];
    for (int i = 0; i < 4; i++)
        address[i] = pl_emu_memory_alloc(memory, BUFFER_BYTES, 0, NULL)->address;
    for (int layouts = 0; layouts < N_LAYOUTS; layouts++) {
        struct matrix m[4];
        bool has_stride = random_below(&rnd, 2) != 0;
        choose_layout(f, layouts, m, has_stride);
        for (int i = 0; i < 4; i++) {
            m[i].host = pl_emu_memory_host(memory, address[i], BUFFER_BYTES);
            memset(m[i].host, 0, BUFFER_BYTES);
            if (i < 3)
                fill(&m[i]);
        }
        write_kernel(text, f, m, space, has_stride);
        run(text, device, address);
        for (unsigned row = 0; row < f->m; row++)
            for (unsigned col = 0; col < f->n; col++) {
                uint64_t got = get(&m[3], row, col),
                         want = result(f, &m[0], &m[1], &m[2], row, col);
                ck_assert_msg(got == want, "(%u, %u) is %#llx, not %#llx\n%s", row, col,
                              (unsigned long long)got, (unsigned long long)want, text);
            }
    }
    pl_emu_device_destroy(device);
}
END_TEST

static Suite *make_suite(void)
{
    rnd = random_start("check_wmma");
    Suite *s = suite_create("wmma");
    TCase *t = tcase_create("wmma");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, products_by_any_layout_and_space, 0, N_FORMS * N_SPACES);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
