/*
 * Every configuration of matmul, for every operand type and chip that it serves, through the assembler with warnings as errors: no
 * spills, and none of the notes that mean slow code (serialised wgmma, a register budget that is ignored). Prints a table of bytes
 * and registers. PL_LONG=1: also other majors, output types and epilogues. Exit 77 where there is no toolkit.
 */
#include "tests/ptxas.h"
#include "tools/case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof(a)[0]))

static const char *const archs[] = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"};
static const pl_dtype dtypes[] = {PL_BF16, PL_F16, PL_TF32, PL_E4M3, PL_E5M2, PL_I8};
/* What changes the text beside configuration, type and chip. */
static const struct variant {
    const char *name, *op;
    bool a_is_col, b_is_col, has_all; /* c, bias, alpha, beta */
    int64_t depth;                    /* 4096; odd: nothing is aligned */
    pl_dtype out;
} variants[] = {
    {"plain", NULL, false, true, false, 4096, PL_DTYPE_NONE},
    {"across", NULL, true, false, false, 4096, PL_F32},
    {"unaligned", NULL, false, false, false, 4097, PL_DTYPE_NONE},
    {"fused", "gelu", false, false, true, 4096, PL_F32},
    {"fused16", "silu", false, true, true, 4096, PL_BF16},
};

struct text {
    char data[1 << 19];
    size_t n_bytes;
};

static void put(const char *data, size_t n_bytes, void *user)
{
    struct text *t = user;
    if (t->n_bytes + n_bytes < sizeof t->data)
        memcpy(t->data + t->n_bytes, data, n_bytes);
    t->n_bytes += n_bytes;
}

static void set(struct pl_case_spec *s, const char *key, double value)
{
    snprintf(s->extra[s->n_extra].key, sizeof s->extra[0].key, "%s", key);
    s->extra[s->n_extra++].value = value;
}

/* False: this configuration does not serve it. */
static bool emit(struct text *t, const char *arch, pl_dtype type, const struct variant *v,
                 int32_t config)
{
    struct pl_case_spec s = {.shape = PL_SHAPE(4096, v->depth, 4096 + v->depth % 2),
                             .dtype = type,
                             .out_dtype = type == PL_I8 && v->has_all ? PL_F32 : v->out,
                             .op = v->op,
                             .has_no_values = true};
    set(&s, "a_major", v->a_is_col);
    set(&s, "b_major", v->b_is_col);
    set(&s, "c", v->has_all);
    set(&s, "bias", v->has_all);
    if (v->has_all) {
        set(&s, "alpha", 2);
        set(&s, "beta", 3);
    }
    struct pl_case c;
    char why[512];
    pl_arg args[PL_CASE_MAX_ARGS];
    pl_error err = {0};
    if (!pl_case_make(pl_case_find("matmul"), &s, &c, why, sizeof why)) {
        printf("FAIL %s\n", why);
        exit(1);
    }
    for (size_t i = 0; i < c.n_args; i++)
        args[i] = c.args[i].kind == PL_ARG_TENSOR
                      ? pl_arg_tensor(pl_host_tensor(&c.args[i].host, (uint64_t)(i + 1) << 40))
                  : c.args[i].kind == PL_ARG_F32 ? pl_arg_f32(c.args[i].f32)
                                                 : pl_arg_none();
    const pl_emit_options o = {
        .struct_size = sizeof o, .arch = arch, .params = c.options, .config = config + 1};
    t->n_bytes = 0;
    const pl_status st = pl_emit(c.kernel, args, c.n_args, &o, put, t, &err);
    pl_case_fini(&c);
    if (st != PL_OK && err.code != 6121) {
        printf("FAIL %s %s %s config %d: %s\n", arch, pl_dtype_name(type), v->name, (int)config,
               err.text);
        exit(1);
    }
    t->data[t->n_bytes < sizeof t->data ? t->n_bytes : sizeof t->data - 1] = '\0';
    return st == PL_OK;
}

static int run_ptxas(const char *ptxas, const char *arch, const struct text *t, char log[8192])
{
    char path[64], command[1024];
    snprintf(path, sizeof path, "matmul_ptxas_%ld.ptx", (long)getpid());
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(t->data, 1, t->n_bytes, f) != t->n_bytes)
        return 1;
    fclose(f);
    snprintf(command, sizeof command, "%s -arch=%s -v --warning-as-error -o /dev/null %s 2>&1",
             ptxas, arch, path);
    FILE *p = popen(command, "r");
    const size_t n = p == NULL ? 0 : fread(log, 1, 8191, p);
    log[n] = '\0';
    const int rc = p == NULL ? 1 : pclose(p);
    unlink(path);
    return rc;
}

/* Slow code: told in words, not by the exit status. */
static bool is_slow(const char *log)
{
    return strstr(log, " 0 bytes spill stores, 0 bytes spill loads") == NULL ||
           strstr(log, "serializ") != NULL || strstr(log, "setmaxnreg ignored") != NULL;
}

static int n_texts, n_bad;

static void assemble(const char *ptxas, const char *arch, pl_dtype type, const struct variant *v,
                     int32_t config)
{
    static struct text t;
    char log[8192];
    if (!emit(&t, arch, type, v, config))
        return;
    const int rc = run_ptxas(ptxas, arch, &t, log);
    const char *used = strstr(log, "Used ");
    printf("%-8s %-5s %-10s %2d %6zu %4d\n", arch, pl_dtype_name(type), v->name, (int)config,
           t.n_bytes, used != NULL ? atoi(used + 5) : 0);
    n_texts++;
    if (rc != 0 || is_slow(log)) {
        printf("FAIL %s\n", log);
        n_bad++;
    }
    if (v == &variants[0] && type == PL_BF16 && strcmp(arch, "sm_90a") == 0 && t.n_bytes > 20000) {
        printf("FAIL the text has more than 20,000 bytes\n");
        n_bad++;
    }
}

int main(void)
{
    const char *ptxas = ptxas_path();
    const bool is_long = getenv("PL_LONG") != NULL;
    if (ptxas == NULL) {
        puts("SKIP: no ptxas");
        return 77;
    }
    const int32_t n = pl_case_find("matmul")->kernel->n_configs;
    printf("%-8s %-5s %-10s %2s %6s %4s\n", "chip", "type", "variant", "n", "bytes", "regs");
    for (int a = 0; a < COUNT(archs); a++)
        for (int t = 0; t < COUNT(dtypes); t++)
            for (int v = 0; v < COUNT(variants); v++)
                for (int32_t c = 0; c < n; c++)
                    if (is_long || (c + t + v + a) % 13 == 0 || (t == 0 && v == 0 && a == 2))
                        assemble(ptxas, archs[a], dtypes[t], &variants[v], c);
    printf("%d texts, %d bad\n", n_texts, n_bad);
    return n_bad != 0 || n_texts == 0;
}
