#include "tests/ops_rows.h"

#include "base/debug.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

static const struct {
    const char *prefix;
} other_forms[] = {{"ld."}, {"mov."}, {"atom."}, {"shfl."}, {"vote."}, {"form"}};

static bool is_scalar_form(const char *form)
{
    for (size_t i = 0; i < PL_COUNT(other_forms); i++)
        if (strncmp(form, other_forms[i].prefix, strlen(other_forms[i].prefix)) == 0)
            return false;
    return true;
}

char *ops_field(char **rest)
{
    char *start = *rest, *tab = strpbrk(start, "\t\n");
    if (tab == NULL) {
        *rest = start + strlen(start);
        return start;
    }
    *rest = *tab == '\t' ? tab + 1 : tab;
    *tab = '\0';
    return start;
}

static bool parse_row(char *line, struct ops_row *row)
{
    char *rest = line;
    memset(row, 0, sizeof *row);
    snprintf(row->form, sizeof row->form, "%s", ops_field(&rest));
    char *operands = ops_field(&rest), *result = ops_field(&rest);
    snprintf(row->text, sizeof row->text, "%s -> %s", operands, result);
    snprintf(row->oracle, sizeof row->oracle, "%s", ops_field(&rest));
    snprintf(row->note, sizeof row->note, "%s", ops_field(&rest));
    if (!is_scalar_form(row->form))
        return false;
    row->result = strtoull(result, NULL, 16);
    row->result_digits = (uint8_t)strlen(result);
    for (char *t = strtok(operands, " "); t != NULL && row->n_src < OPS_MAX_SOURCES;
         t = strtok(NULL, " ")) {
        row->src_digits[row->n_src] = (uint8_t)strlen(t);
        row->src[row->n_src++] = strtoull(t, NULL, 16);
    }
    return true;
}

const char *const ops_vector_files[2] = {"vectors.tsv", "vectors_more.tsv"};

FILE *ops_open_data(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/ptx/%s", PL_SRCDIR, name);
    FILE *f = fopen(path, "r");
    if (f == NULL) {
        perror(path);
        exit(EXIT_FAILURE);
    }
    return f;
}

/* ---- a row as an instruction ---- */

char ops_bank(unsigned digits)
{
    return digits == 1 ? 'p' : digits <= 4 ? 'h' : digits == 8 ? 'r' : 'd';
}

static bool is_element_row(const struct ops_row *row)
{
    return strstr(row->note, "one element") != NULL;
}

/* Packed operands: what the element of a row becomes in its register. */
static void spread_element(struct ops_row *row)
{
    bool from_f32 = strstr(row->form, ".f32") != NULL;
    unsigned out_bits = row->result_digits * 4u, slot = out_bits < 8 ? 4 : out_bits;
    if (strstr(row->form, "e2m1x2.f32") != NULL)
        slot = 4;
    row->result |= row->result << slot;
    row->result_digits = (uint8_t)(slot == 16 ? 8 : 4);
    if (from_f32) {
        row->n_src = 2;
        row->src[1] = row->src[0];
        row->src_digits[1] = row->src_digits[0];
        return;
    }
    unsigned in_slot = strstr(row->form, ".e2m1x2") != NULL ? 4 : row->src_digits[0] * 4u;
    row->src[0] |= row->src[0] << in_slot;
    row->src_digits[0] = (uint8_t)(in_slot == 16 ? 8 : 4);
}

bool ops_next_row(FILE *f, struct ops_row *row)
{
    char line[OPS_LINE_BYTES];
    while (fgets(line, sizeof line, f) != NULL) {
        if (line[0] == '#' || !parse_row(line, row))
            continue;
        if (is_element_row(row))
            spread_element(row);
        return true;
    }
    return false;
}

/* The text of the instruction(s) of a row; destination %X0, sources %X1 … of their widths. Chains: %X9 between. */
/* ", %r1, %r2": the sources [first, end), the last one negated where the note says so. */
static void write_sources(const struct ops_row *row, unsigned first, unsigned end, char *out,
                          size_t n_bytes)
{
    out[0] = '\0';
    for (unsigned i = first; i < end; i++) {
        bool is_not = i == row->n_src - 1 && strstr(row->note, "c operand negated") != NULL;
        snprintf(out + strlen(out), n_bytes - strlen(out), ", %s%%%c%u", is_not ? "!" : "",
                 ops_bank(row->src_digits[i]), i + 1);
    }
}

/* The pair of e2m1 is a byte: its register is %b, with the lanes of %h. */
static void use_byte_registers(const char *form, char *body)
{
    const char *pair = strstr(form, "e2m1x2");
    if (pair == NULL)
        return;
    char *reg = strstr(body, pair[strlen("e2m1x2")] == '.' ? "%h0" : "%h1");
    if (reg != NULL)
        reg[1] = 'b';
}

void ops_write_body(const struct ops_row *row, char *out, size_t n_bytes)
{
    const char *second = strstr(row->form, "; "), *lut = strstr(row->note, "immLut=");
    char d = ops_bank(row->result_digits), some[96], rest[96];
    if (strncmp(row->note, "body=", 5) == 0) { /* written out: video selectors */
        snprintf(out, n_bytes, "%s", row->note + 5);
        return;
    }
    unsigned cut = second != NULL ? row->n_src / 2 : lut != NULL ? 3 : row->n_src;
    write_sources(row, 0, cut, some, sizeof some);
    write_sources(row, cut, row->n_src, rest, sizeof rest);
    if (second != NULL)
        snprintf(out, n_bytes, "%.*s %%%c9%s;\n%s %%%c0%s;", (int)(second - row->form), row->form,
                 d, some, second + 2, d, rest);
    else if (lut != NULL) {
        bool is_p = strstr(row->note, "p of d|p") != NULL;
        const char *dst = is_p ? "%r9|%p0" : rest[0] != '\0' ? "%r0|%p9" : "%r0";
        snprintf(out, n_bytes, "%s %s%s, %.4s%s;", row->form, dst, some, lut + strlen("immLut="),
                 rest);
    } else if (strstr(row->form, "x4.f32") != NULL)
        snprintf(out, n_bytes, "%s %%%c0, {%%r1, %%r2, %%r3, %%r4}, %%r5;", row->form, d);
    else if (strncmp(row->note, "q of p|q", 8) == 0)
        snprintf(out, n_bytes, "%s %%p9|%%p0%s;", row->form, some);
    else if (strncmp(row->note, "p of p|q", 8) == 0)
        snprintf(out, n_bytes, "%s %%p0|%%p9%s;", row->form, some);
    else
        snprintf(out, n_bytes, "%s %%%c0%s;", row->form, d, some);
    use_byte_registers(row->form, out);
}

void ops_set_lane(struct ops_frame *f, char bank, unsigned reg, unsigned lane, uint64_t v)
{
    switch (bank) {
    case 'p': f->p[reg][0] = (f->p[reg][0] & ~(1u << lane)) | (uint32_t)(v & 1) << lane; break;
    case 'h': f->h[reg][lane] = (uint16_t)v; break;
    case 'r': f->r[reg][lane] = (uint32_t)v; break;
    default: f->d[reg][lane] = v; break;
    }
}

uint64_t ops_get_lane(const struct ops_frame *f, char bank, unsigned reg, unsigned lane)
{
    switch (bank) {
    case 'p': return f->p[reg][0] >> lane & 1;
    case 'h': return f->h[reg][lane];
    case 'r': return f->r[reg][lane];
    default: return f->d[reg][lane];
    }
}

/* ---- bounds ---- */

static float float_of(uint64_t u)
{
    uint32_t w = (uint32_t)u;
    float v;
    memcpy(&v, &w, sizeof v);
    return v;
}

/*
 * Error bounds of the approximate functions (PTX ISA, at each function; reference to the exact value). The oracles round to
 * f32 and may be off by as much again.
 */
bool ops_is_within_bound(const char *form, uint64_t got_bits, uint64_t want_bits)
{
    double got = (double)float_of(got_bits), want = (double)float_of(want_bits);
    if (got_bits == want_bits)
        return true;
    if (!isfinite(got) || !isfinite(want) || want == 0.0)
        return false;
    double ulp = ldexp(1.0, ilogb(want) - 23), error = fabs(got - want);
    ulp = ulp < 0x1p-149 ? 0x1p-149 : ulp;
    if (strncmp(form, "sin", 3) == 0 || strncmp(form, "cos", 3) == 0)
        return error <= 0x1p-20;
    if (strncmp(form, "lg2", 3) == 0)
        return error <= 0x1p-21 || error <= 0x1p-21 * fabs(want);
    return error <= (strncmp(form, "tanh", 4) == 0 ? 0x1p-11 * fabs(want) : 2 * ulp);
}

bool ops_is_nan(uint64_t u, unsigned digits)
{
    if (digits == 16)
        return (u & 0x7fffffffffffffffu) > 0x7ff0000000000000u;
    return digits == 8 ? (u & 0x7fffffffu) > 0x7f800000u : (u & 0x7fffu) > 0x7c00u;
}
