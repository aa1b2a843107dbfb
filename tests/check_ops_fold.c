/*
 * NVIDIA's own arithmetic without a GPU: ptxas folds many instructions whose operands are constants. Every scalar form of the
 * vector files is assembled on fresh random constants; where the machine code holds nothing but a constant to store, that
 * constant must be ours. Forms that ptxas keeps prove nothing and are counted apart. Skipped (77) without ptxas.
 *
 * Machine code of sm_90a: 16 bytes an instruction, the opcode in the low 12 bits, an immediate in bits 32 to 63.
 */
#include "base/debug.h"
#include "tests/ops_rows.h"
#include "tests/ptxas.h"
#include "tests/random.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { N_PROBES = 3000, PROBES_A_MODULE = 150, MODULE_BYTES = PROBES_A_MODULE * 1200 };

static struct random_source rnd;

/* One form on one set of constants; a 64-bit result is looked at in halves. */
struct probe {
    struct ops_row row; /* form, widths, constants */
    char body[256];
    bool is_high_half;
};

/* Of the frame around the value: loads of parameters, descriptors, store, exit, branch, nop. */
static const uint16_t frame_opcodes[] = {0xb82, 0xab9, 0x986, 0x94d, 0x947, 0x918, 0x9c3};
static const uint16_t constant_opcodes[] = {0x802, 0x435, 0x424};

static bool is_one_of(uint16_t opcode, const uint16_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == opcode)
            return true;
    return false;
}

/* The constant that the code stores; false where it computes one. */
static bool read_constant(const unsigned char *code, size_t n_bytes, uint32_t *value)
{
    unsigned n_constants = 0;
    *value = 0;
    for (size_t at = 0; at + 16 <= n_bytes; at += 16) {
        uint64_t word;
        memcpy(&word, code + at, sizeof word);
        uint16_t opcode = word & 0xfff;
        if (is_one_of(opcode, frame_opcodes, PL_COUNT(frame_opcodes)))
            continue;
        if (!is_one_of(opcode, constant_opcodes, PL_COUNT(constant_opcodes)) || n_constants++ > 0)
            return false;
        *value = (uint32_t)(word >> 32);
    }
    return true;
}

static size_t write_probe(const struct probe *p, unsigned k, char *out, size_t n_bytes)
{
    size_t n = 0;
#define PUT(...) (n += (size_t)snprintf(out + n, n_bytes - n, __VA_ARGS__))
    PUT(".visible .entry k%u(.param .u64 o)\n{\n.reg .b64 %%o, %%d<10>; .reg .b32 %%r<10>; .reg "
        ".b16 %%h<10>; "
        ".reg .pred %%p<10>;\nld.param.u64 %%o, [o];\ncvta.to.global.u64 %%o, %%o;\n",
        k);
    for (unsigned i = 0; i < p->row.n_src; i++) {
        static const char *const types[] = {['h'] = "b16", ['r'] = "b32", ['d'] = "b64"};
        char bank = ops_bank(p->row.src_digits[i]);
        unsigned long long v = p->row.src[i];
        if (bank == 'p')
            PUT("setp.ne.b32 %%p%u, %llu, 0;\n", i + 1, v);
        else
            PUT("mov.%s %%%c%u, 0x%llx;\n", types[(unsigned char)bank], bank, i + 1, v);
    }
    PUT("%s\n", p->body);
    switch (ops_bank(p->row.result_digits)) {
    case 'p': PUT("selp.b32 %%r0, 1, 0, %%p0;\n"); break;
    case 'h': PUT("cvt.u32.u16 %%r0, %%h0;\n"); break;
    case 'd':
        PUT("mov.b64 {%%r%d, %%r%d}, %%d0;\n", p->is_high_half ? 8 : 0, p->is_high_half ? 0 : 8);
        break;
    default: break;
    }
    PUT("st.global.b32 [%%o], %%r0;\nret;\n}\n");
#undef PUT
    return n;
}

/* What we compute, from the same text. */
static bool our_value(const struct probe *p, uint64_t *value)
{
    static struct ops_frame frame;
    char why[300];
    struct ops_code *code = ops_compile(p->body, why);
    ck_assert_msg(code != NULL, "%s: %s", p->body, why);
    memset(&frame, 0, sizeof frame);
    for (unsigned i = 0; i < p->row.n_src; i++)
        ops_set_lane(&frame, ops_bank(p->row.src_digits[i]), i + 1, 7, p->row.src[i]);
    ops_run(code, &frame, UINT32_MAX, true);
    ops_free(code);
    *value = ops_get_lane(&frame, ops_bank(p->row.result_digits), 0, 7);
    return true;
}

/* ---- where the folding is known to differ from the manual or from the chip (tests/ptx/disagreements.tsv) ---- */

static bool starts_with(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

static bool has_nan_source(const struct probe *p)
{
    for (unsigned i = 0; i < p->row.n_src; i++)
        if (p->row.src_digits[i] > 1 && ops_is_nan(p->row.src[i], p->row.src_digits[i]))
            return true;
    return false;
}

static bool is_excused(const struct probe *p, uint64_t ours, uint64_t theirs)
{
    const char *form = p->row.form;
    if (strstr(form, "approx") != NULL || strstr(form, ".full.") != NULL ||
        starts_with(form, "tanh"))
        return ops_is_within_bound(form, ours, theirs);
    /* NaNs: abs, neg, bf16 widening and f32 to f32 are other operations in the machine (the last is FADD in ptxas's sm_90 code,
     * which gives the canonical NaN, where the fold keeps the source); tf32 truncates; f64 payloads are not said */
    bool is_other_op = starts_with(form, "abs") || starts_with(form, "neg") ||
                       strstr(form, ".f32.bf16") != NULL || strstr(form, ".f32.f32") != NULL;
    if (has_nan_source(p) && (is_other_op || strstr(form, ".tf32.f32") != NULL))
        return true;
    if (has_nan_source(p) && strstr(form, ".f64") != NULL)
        return true;
    /* positions and lengths above 255 */
    if (starts_with(form, "bfe") || starts_with(form, "bfi"))
        return p->row.src[p->row.n_src - 1] > 255 || p->row.src[p->row.n_src - 2] > 255;
    /* fns: the base is a bit position, 0 to 31 (PTX ISA, "Integer Arithmetic Instructions: fns"), and -2^31 has no magnitude */
    if (starts_with(form, "fns") && (p->row.src[1] > 31 || p->row.src[2] == 0x80000000u))
        return true;
    /* division by zero is unspecified */
    return (starts_with(form, "div") || starts_with(form, "rem")) && p->row.src[1] == 0;
}

static void randomise(struct probe *p)
{
    for (unsigned i = 0; i < p->row.n_src; i++) {
        unsigned digits = p->row.src_digits[i];
        bool is_bf16 = strstr(p->row.form, "bf16") != NULL,
             is_float = strstr(p->row.form, "f") != NULL;
        if (digits == 1)
            p->row.src[i] = random_below(&rnd, 2);
        else if (is_float && random_below(&rnd, 4) != 0)
            p->row.src[i] = digits == 16  ? random_float(&rnd, 11, 52)
                            : digits == 8 ? random_float(&rnd, 8, 23)
                            : is_bf16     ? random_float(&rnd, 8, 7)
                                          : random_float(&rnd, 5, 10);
        else
            p->row.src[i] = random_int(&rnd, digits * 4);
        if (i > 0 && random_below(&rnd, 3) == 0 && digits == 8)
            p->row.src[i] &= 63; /* shift amounts, positions */
    }
    p->is_high_half = random_below(&rnd, 2);
    ops_write_body(&p->row, p->body, sizeof p->body);
}

/* Every n-th row that ptxas once folded, with constants of its own. */
static unsigned choose_probes(struct probe *probes, unsigned max)
{
    FILE *f = ops_open_data("vectors.tsv");
    struct ops_row row;
    unsigned n = 0, n_seen = 0;
    while (ops_next_row(f, &row)) {
        if (strcmp(row.oracle, "ptxas") != 0)
            continue;
        n_seen++;
        unsigned at = n < max ? n++ : (unsigned)random_below(&rnd, n_seen); /* reservoir sampling */
        if (at < max)
            probes[at].row = row;
    }
    fclose(f);
    for (unsigned i = 0; i < n; i++)
        randomise(&probes[i]);
    return n;
}

static unsigned check_module(const struct probe *probes, unsigned n, unsigned *n_folded)
{
    static char text[MODULE_BYTES];
    size_t n_text =
        (size_t)snprintf(text, sizeof text, ".version 8.6\n.target sm_90a\n.address_size 64\n");
    for (unsigned k = 0; k < n; k++)
        n_text += write_probe(&probes[k], k, text + n_text, sizeof text - n_text);
    char why[200];
    size_t n_bytes, n_code;
    unsigned n_wrong = 0;
    unsigned char *cubin = ptxas_assemble(text, "sm_90a", &n_bytes, why);
    ck_assert_msg(cubin != NULL, "ptxas: %s", why);
    for (unsigned k = 0; k < n; k++) {
        char section[32];
        uint32_t theirs;
        uint64_t value;
        snprintf(section, sizeof section, ".text.k%u", k);
        const unsigned char *code = elf_section(cubin, n_bytes, section, &n_code);
        ck_assert_ptr_nonnull(code);
        if (!read_constant(code, n_code, &theirs) || !our_value(&probes[k], &value))
            continue;
        (*n_folded)++;
        uint32_t ours =
            (uint32_t)(probes[k].is_high_half && probes[k].row.result_digits == 16 ? value >> 32
                                                                                   : value);
        if (ours == theirs || is_excused(&probes[k], ours, theirs))
            continue;
        n_wrong++;
        printf("%s of", probes[k].body);
        for (unsigned i = 0; i < probes[k].row.n_src; i++)
            printf(" %llx", (unsigned long long)probes[k].row.src[i]);
        printf(": %x, ptxas folds %x\n", ours, theirs);
    }
    free(cubin);
    return n_wrong;
}

START_TEST(the_assembler_folds_to_our_bits)
{
    static struct probe probes[N_PROBES];
    unsigned n = choose_probes(probes, N_PROBES), n_folded = 0, n_wrong = 0;
    for (unsigned first = 0; first < n; first += PROBES_A_MODULE)
        n_wrong += check_module(
            probes + first, n - first < PROBES_A_MODULE ? n - first : PROBES_A_MODULE, &n_folded);
    printf("%u of %u probes folded, %u wrong\n", n_folded, n, n_wrong);
    ck_assert_uint_eq(n_wrong, 0);
    ck_assert_uint_gt(n_folded, n / 4);
}
END_TEST

static Suite *make_suite(void)
{
    if (ptxas_path() == NULL) {
        puts("skipped: no ptxas");
        exit(77);
    }
    rnd = random_start("check_ops_fold");
    pl_emu_ops_init(PL_EMU_ISA_COUNT);
    Suite *s = suite_create("ops_fold");
    TCase *t = tcase_create("fold");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, the_assembler_folds_to_our_bits);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
