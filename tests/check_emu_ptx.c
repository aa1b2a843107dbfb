/*
 * Runs the data tests tests/ptx/NAME.ptx on the emulated device. A file carries its expectations as comments:
 *
 *   //! run ENTRY [grid=X[,Y[,Z]]] [block=…] [cluster=…] [smem=BYTES] [sm=90] [check=off|faults|race] [async=eager|late|random]
 *           [seed=N] [threads=N] [steps=LIMIT] [stack=BYTES] [cooperative=1] [policies]    (policies: under every one, eight
 *           seeds)
 *   //! arg u32|s32|u64|s64|f32|f64 EXPR           a scalar
 *   //! arg buf TYPE COUNT [= EXPR]                an array in device memory; EXPR of the index i, zeros without one
 *   //! arg ptr ARG EXPR                           address of another argument's array plus bytes
 *   //! arg tmap ARG TYPE dims=AxB… box=AxB… [strides=A…] [swizzle=0|32|64|128] [fill=nan] [estrides=AxB…]
 *   //! expect ARG[FIRST..LAST] TYPE = EXPR        elements (all without a range), compared bit for bit
 *   //! print "TEXT"                               what printf in kernels wrote, all of it
 *   //! fault PLnnnn [line=N|here] [lane=N] [warp=N] [cta=X[,Y[,Z]]] [text="PART"]…
 *   //! load PLnnnn [line=N|here] [text="PART"]    the load is refused; no run
 *
 * `here` is the line that ends in the comment "//here". A file may hold several runs; each is followed by its own lines.
 * Expressions are C's, on 64-bit integers and doubles, with the index i. Adding a case adds a file.
 */
#include "base/diag.h"
#include "emu/launch.h"
#include "emu/tensormap.h"
#include "jit/ptx/ptx.h"

#include <check.h>
#include <glob.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- expressions ----------------------------------------------------------------------------------------------------------------------- */

struct expr {
    const char *at;
    long double i;
};

static long double ternary(struct expr *e);

static void blanks(struct expr *e) { e->at += strspn(e->at, " \t"); }

static bool eat(struct expr *e, const char *token)
{
    blanks(e);
    size_t n = strlen(token);
    if (strncmp(e->at, token, n) != 0)
        return false;
    e->at += n;
    return true;
}

static long double number(struct expr *e)
{
    char *end;
    long double v = strncmp(e->at, "0x", 2) == 0 ? (long double)strtoull(e->at, &end, 16)
                                                 : strtold(e->at, &end);
    ck_assert_msg(end != e->at, "an expression goes wrong at \"%s\"", e->at);
    e->at = end;
    return v;
}

static long double primary(struct expr *e)
{
    if (eat(e, "-"))
        return -primary(e);
    if (eat(e, "~"))
        return (long double)~(uint64_t)primary(e);
    if (eat(e, "!"))
        return primary(e) == 0;
    if (eat(e, "(")) {
        long double v = ternary(e);
        ck_assert(eat(e, ")"));
        return v;
    }
    if (eat(e, "i"))
        return e->i;
    return number(e);
}

static uint64_t bits_of(long double v) { return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v; }

static long double apply(const char *op, long double a, long double b)
{
    switch (op[0]) {
    case '*': return a * b;
    case '/':
        return a == (int64_t)a && b == (int64_t)b ? (long double)((int64_t)a / (int64_t)b) : a / b;
    case '%': return (long double)(bits_of(a) % bits_of(b));
    case '+': return a + b;
    case '-': return a - b;
    case '&': return op[1] != 0 ? a != 0 && b != 0 : (long double)(bits_of(a) & bits_of(b));
    case '|': return op[1] != 0 ? a != 0 || b != 0 : (long double)(bits_of(a) | bits_of(b));
    case '^': return (long double)(bits_of(a) ^ bits_of(b));
    case '=': return a == b;
    case '!': return a != b;
    case '<':
        if (op[1] == '<')
            return (long double)(bits_of(a) << bits_of(b));
        return op[1] == '=' ? a <= b : a < b;
    default:
        if (op[1] == '>')
            return (long double)(bits_of(a) >> bits_of(b));
        return op[1] == '=' ? a >= b : a > b;
    }
}

static long double binary(struct expr *e, int level)
{
    static const char *const ops[][5] = {{"||"},
                                         {"&&"},
                                         {"|"},
                                         {"^"},
                                         {"&"},
                                         {"==", "!="},
                                         {"<=", ">=", "<", ">"},
                                         {"<<", ">>"},
                                         {"+", "-"},
                                         {"*", "/", "%"}};
    if (level == 10)
        return primary(e);
    long double v = binary(e, level + 1);
    for (;;) {
        const char *op = NULL;
        blanks(e);
        for (int k = 0; k < 5 && ops[level][k] != NULL && op == NULL; k++) {
            size_t n = strlen(ops[level][k]);
            bool is_longer = strchr("|&<>", e->at[0]) != NULL && n == 1 && e->at[1] == e->at[0];
            if (strncmp(e->at, ops[level][k], n) == 0 && !is_longer)
                op = ops[level][k];
        }
        if (op == NULL)
            return v;
        e->at += strlen(op);
        v = apply(op, v, binary(e, level + 1));
    }
}

static long double ternary(struct expr *e)
{
    long double v = binary(e, 0);
    if (!eat(e, "?"))
        return v;
    long double a = ternary(e);
    ck_assert(eat(e, ":"));
    long double b = ternary(e);
    return v != 0 ? a : b;
}

static long double evaluate(const char *text, uint64_t i)
{
    struct expr e = {.at = text, .i = (long double)i};
    long double v = ternary(&e);
    blanks(&e);
    ck_assert_msg(*e.at == 0 || *e.at == '\n', "an expression goes wrong at \"%s\"", e.at);
    return v;
}

/* ---- types -------------------------------------------------------------------------------------------------------------------------------- */

static uint32_t type_bytes(const char *type)
{
    unsigned bits = (unsigned)strtoul(type + strcspn(type, "0123456789"), NULL, 10);
    ck_assert_msg(bits == 8 || bits == 16 || bits == 32 || bits == 64, "unknown type \"%s\"", type);
    return bits / 8;
}

static uint64_t encode(const char *type, long double v)
{
    uint64_t bits = 0;
    if (strcmp(type, "f32") == 0) {
        float f = (float)v;
        memcpy(&bits, &f, sizeof f);
    } else if (strcmp(type, "f64") == 0) {
        double d = (double)v;
        memcpy(&bits, &d, sizeof d);
    } else {
        bits = bits_of(v);
        uint32_t n = type_bytes(type);
        if (n < 8)
            bits &= ((uint64_t)1 << n * 8) - 1;
    }
    return bits;
}

/* ---- a case -------------------------------------------------------------------------------------------------------------------------------- */

enum { MAX_ARGS = 16, MAX_LINES = 64, MAX_PARAM_BYTES = 4096, MAX_PRINT_BYTES = 1 << 16 };

struct arg {
    uint64_t address, n_bytes; /* of an array */
};

struct run {
    const char *path, *text;
    size_t n_bytes;
    char lines[MAX_LINES][400]; /* without "//! " */
    uint32_t numbers[MAX_LINES];
    int n_lines;
    struct pl_emu_config config;
    struct pl_emu_device *device;
    struct pl_emu_program *program;
    struct arg args[MAX_ARGS];
    int n_args;
    uint8_t params[MAX_PARAM_BYTES];
    char printed[MAX_PRINT_BYTES];
    size_t n_printed;
    char what[300]; /* for messages */
};

static uint32_t line_here(const char *text)
{
    uint32_t n = 1;
    for (const char *p = text; *p != 0; p++) {
        if (strncmp(p, "//here", 6) == 0)
            return n;
        n += *p == '\n';
    }
    ck_abort_msg("no line ends in //here");
    return 0;
}

/* The value of key=… in a line, or NULL. */
static const char *find_key(const char *line, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = line; (p = strstr(p, key)) != NULL; p += n)
        if (p[n] == '=' && (p == line || p[-1] == ' '))
            return p + n + 1;
    return NULL;
}

static uint64_t key_number(const char *line, const char *key, uint64_t otherwise)
{
    const char *p = find_key(line, key);
    return p != NULL ? strtoull(p, NULL, 0) : otherwise;
}

/* "4", "4,2,1" or "4x2x1" */
static int key_list(const char *line, const char *key, uint64_t *out, int n_max)
{
    const char *p = find_key(line, key);
    int n = 0;
    while (p != NULL && n < n_max) {
        char *end;
        out[n++] = strtoull(p, &end, 0);
        if (*end != ',' && *end != 'x')
            break;
        p = end + 1;
    }
    return n;
}

static void key_dims(const char *line, const char *key, uint32_t out[3])
{
    uint64_t v[3] = {1, 1, 1};
    key_list(line, key, v, 3);
    for (int k = 0; k < 3; k++)
        out[k] = (uint32_t)v[k];
}

static void on_print(const char *text, size_t n_bytes, void *user)
{
    struct run *r = user;
    size_t n = sizeof r->printed - 1 - r->n_printed;
    n = n_bytes < n ? n_bytes : n;
    memcpy(r->printed + r->n_printed, text, n);
    r->n_printed += n;
}

static void configure(struct run *r, const char *line)
{
    const char *target = strstr(r->text, ".target sm_");
    uint64_t sm = target != NULL ? strtoull(target + 11, NULL, 10) : 90;
    const char *check = find_key(line, "check"), *async = find_key(line, "async");
    r->config = (struct pl_emu_config){.sm = (uint16_t)key_number(line, "sm", sm),
                                       .check = PL_EMU_CHECK_FAULTS,
                                       .n_threads = (uint32_t)key_number(line, "threads", 2),
                                       .step_limit = key_number(line, "steps", 20000000),
                                       .stack_bytes = (uint32_t)key_number(line, "stack", 0),
                                       .seed = key_number(line, "seed", 0),
                                       .print = on_print,
                                       .print_user = r};
    if (check != NULL)
        r->config.check = strncmp(check, "off", 3) == 0    ? PL_EMU_CHECK_OFF
                          : strncmp(check, "race", 4) == 0 ? PL_EMU_CHECK_RACE
                                                           : PL_EMU_CHECK_FAULTS;
    if (async != NULL)
        r->config.policy = strncmp(async, "late", 4) == 0     ? PL_EMU_ASYNC_LATE
                           : strncmp(async, "random", 6) == 0 ? PL_EMU_ASYNC_RANDOM
                                                              : PL_EMU_ASYNC_EAGER;
}

/* ---- arguments --------------------------------------------------------------------------------------------------------------------------- */

static void make_buffer(struct run *r, const char *rest)
{
    char type[16];
    unsigned long long n = 0;
    ck_assert_int_eq(sscanf(rest, "%15s %llu", type, &n), 2);
    uint32_t size = type_bytes(type);
    struct pl_emu_memory *m = pl_emu_device_memory(r->device);
    const struct pl_emu_allocation *a = pl_emu_memory_alloc(m, n * size, 0, NULL);
    ck_assert_ptr_nonnull(a);
    const char *value = strchr(rest, '=');
    for (unsigned long long i = 0; value != NULL && i < n; i++) {
        uint64_t bits = encode(type, evaluate(value + 1, i));
        memcpy(a->host + i * size, &bits, size);
    }
    r->args[r->n_args] = (struct arg){a->address, a->n_bytes};
}

static uint32_t map_type(const char *name)
{
    for (uint32_t t = 0; t < PL_TMAP_TYPE_COUNT; t++)
        if (strcasecmp(pl_tmap_type_name((enum pl_tmap_type)t), name) == 0)
            return t;
    ck_abort_msg("unknown tensor-map type \"%s\"", name);
    return 0;
}

static void make_map(struct run *r, const char *rest, uint8_t *image)
{
    char type[32];
    unsigned of = 0;
    ck_assert_int_eq(sscanf(rest, "%u %31s", &of, type), 2);
    struct pl_tmap_request q = {.map = {.mode = PL_TMAP_TILED, .type = map_type(type)},
                                .image_address = 64};
    struct pl_tensormap *m = &q.map;
    uint64_t box[5] = {1, 1, 1, 1, 1}, strides[5] = {0}, steps[5] = {1, 1, 1, 1, 1};
    m->address = r->args[of].address;
    m->rank = (uint32_t)key_list(rest, "dims", m->dims, 5);
    key_list(rest, "box", box, 5);
    key_list(rest, "estrides", steps, 5);
    int n_strides = key_list(rest, "strides", strides, 5);
    uint64_t dense = pl_tmap_type_bits((enum pl_tmap_type)m->type) / 8;
    for (uint32_t k = 0; k < m->rank; k++) {
        m->strides_bytes[k] = k != 0 && (int)k <= n_strides ? strides[k - 1] : dense;
        dense = m->strides_bytes[k] * m->dims[k];
        m->box[k] = (uint32_t)box[k];
        m->elem_strides[k] = (uint32_t)steps[k];
    }
    uint64_t swizzle = key_number(rest, "swizzle", 0);
    m->swizzle = swizzle == 128  ? PL_TMAP_SWIZZLE_128B
                 : swizzle == 64 ? PL_TMAP_SWIZZLE_64B
                 : swizzle == 32 ? PL_TMAP_SWIZZLE_32B
                                 : PL_TMAP_SWIZZLE_NONE;
    m->fill = find_key(rest, "fill") != NULL;
    struct pl_arena arena = {0};
    struct pl_diags diags;
    pl_diags_init(&diags, &arena);
    ck_assert_msg(pl_tensormap_encode(&q, &diags, image), "%s: %s", r->what,
                  diags.list.n != 0 ? diags.list.data[0].text : "the map is refused");
    pl_arena_fini(&arena);
}

static void add_arg(struct run *r, const struct pl_emu_func_info *info, const char *line)
{
    char kind[16];
    int n_read = 0;
    ck_assert_int_eq(sscanf(line, "%15s %n", kind, &n_read), 1);
    const char *rest = line + n_read;
    ck_assert_msg(r->n_args < (int)info->n_params && r->n_args < MAX_ARGS,
                  "%s: more arguments than parameters", r->what);
    const struct pl_emu_param_info *p = &info->params[r->n_args];
    uint8_t value[128] = {0};
    uint64_t bits = 0;
    if (strcmp(kind, "buf") == 0) {
        make_buffer(r, rest);
        bits = r->args[r->n_args].address;
        memcpy(value, &bits, 8);
    } else if (strcmp(kind, "tmap") == 0) {
        make_map(r, rest, value);
    } else if (strcmp(kind, "ptr") == 0) {
        char *end;
        unsigned long of = strtoul(rest, &end, 10);
        bits = r->args[of].address + bits_of(evaluate(end, 0));
        memcpy(value, &bits, 8);
    } else {
        bits = encode(kind, evaluate(rest, 0));
        memcpy(value, &bits, 8);
    }
    memcpy(r->params + p->offset_bytes, value,
           p->n_bytes < sizeof value ? p->n_bytes : sizeof value);
    r->n_args++;
}

/* ---- expectations ------------------------------------------------------------------------------------------------------------------------- */

static void expect_values(const struct run *r, const char *line)
{
    char *at, type[16];
    unsigned long of = strtoul(line, &at, 10), first = 0, last = ULONG_MAX;
    if (*at == '[') {
        first = strtoul(at + 1, &at, 10);
        last = strncmp(at, "..", 2) == 0 ? strtoul(at + 2, &at, 10) : first;
        ck_assert_int_eq(*at++, ']');
    }
    const char *value = strchr(at, '=');
    ck_assert(value != NULL && sscanf(at, "%15s", type) == 1);
    uint32_t size = type_bytes(type);
    uint64_t n = r->args[of].n_bytes / size;
    if (last >= n)
        last = n - 1;
    const uint8_t *host = pl_emu_memory_host(pl_emu_device_memory(r->device), r->args[of].address,
                                             r->args[of].n_bytes);
    for (uint64_t i = first; i <= last; i++) {
        uint64_t got = 0, want = encode(type, evaluate(value + 1, i));
        memcpy(&got, host + i * size, size);
        ck_assert_msg(got == want,
                      "%s: argument %lu, element %" PRIu64 ": 0x%" PRIx64 ", expected 0x%" PRIx64,
                      r->what, of, i, got, want);
    }
}

/* Copies "…" with \n, \t, \" and \\ resolved. */
static const char *unquote(const char *p, char *out, size_t n_bytes)
{
    size_t n = 0;
    for (p++; *p != 0 && *p != '"'; p++) {
        char c = *p;
        if (c == '\\' && p[1] != 0) {
            p++;
            c = *p == 'n' ? '\n' : *p == 't' ? '\t' : *p;
        }
        if (n + 1 < n_bytes)
            out[n++] = c;
    }
    out[n] = 0;
    return p;
}

static void expect_fault(const struct run *r, const char *line, const struct pl_emu_fault *f)
{
    const char *place = find_key(line, "line");
    ck_assert_msg(f->code == atoi(line + 2), "%s: PL%d at line %u (%s), expected %.6s", r->what,
                  f->code, f->line, f->text, line);
    if (place != NULL) {
        uint32_t want = strncmp(place, "here", 4) == 0 ? line_here(r->text)
                                                       : (uint32_t)strtoul(place, NULL, 10);
        ck_assert_msg(f->line == want, "%s: the fault is at line %u, expected %u: %s", r->what,
                      f->line, want, f->text);
    }
    ck_assert_msg(key_number(line, "lane", f->lane) == f->lane, "%s: in lane %u", r->what, f->lane);
    ck_assert_msg(key_number(line, "warp", f->warp) == f->warp, "%s: in warp %u", r->what, f->warp);
    uint64_t cta[3] = {f->cta[0], f->cta[1], f->cta[2]};
    key_list(line, "cta", cta, 3);
    for (int k = 0; k < 3; k++)
        ck_assert_msg(cta[k] == f->cta[k], "%s: in CTA (%u,%u,%u)", r->what, f->cta[0], f->cta[1],
                      f->cta[2]);
    for (const char *p = line; (p = strstr(p, "text=\"")) != NULL;) {
        char part[256];
        p = unquote(p + 5, part, sizeof part);
        ck_assert_msg(strstr(f->text, part) != NULL, "%s: \"%s\" is not in: %s", r->what, part,
                      f->text);
    }
}

/* ---- running ------------------------------------------------------------------------------------------------------------------------------- */

static const char *directive(const struct run *r, int i, const char *word)
{
    size_t n = strlen(word);
    return strncmp(r->lines[i], word, n) == 0 && r->lines[i][n] == ' ' ? r->lines[i] + n + 1 : NULL;
}

static void launch(struct run *r, const char *line)
{
    char name[128];
    ck_assert_int_eq(sscanf(line, "%127s", name), 1);
    const struct pl_emu_func *func = pl_emu_program_find(r->program, name);
    ck_assert_msg(func != NULL, "%s: no entry", r->what);
    struct pl_emu_launch l = {.func = func,
                              .params = r->params,
                              .dynamic_shared_bytes = (uint32_t)key_number(line, "smem", 0),
                              .is_cooperative = key_number(line, "cooperative", 0) != 0};
    key_dims(line, "grid", l.grid);
    key_dims(line, "block", l.block);
    key_dims(line, "cluster", l.cluster);
    for (int i = 1; i < r->n_lines; i++) {
        const char *a = directive(r, i, "arg");
        if (a != NULL)
            add_arg(r, pl_emu_func_info(func), a);
    }
    struct pl_emu_fault fault;
    bool is_ok = pl_emu_launch(r->device, &l, &fault), wants_fault = false;
    for (int i = 1; i < r->n_lines; i++) {
        const char *v = directive(r, i, "expect"), *p = directive(r, i, "print"),
                   *f = directive(r, i, "fault");
        char text[1024];
        snprintf(r->what, sizeof r->what, "%s:%u", r->path, r->numbers[i]);
        if (f != NULL) {
            wants_fault = true;
            ck_assert_msg(!is_ok, "%s: there was no fault", r->what);
            expect_fault(r, f, &fault);
        } else if (v != NULL && (is_ok || wants_fault)) {
            expect_values(r, v);
        } else if (p != NULL && is_ok) {
            unquote(p, text, sizeof text);
            r->printed[r->n_printed] = 0;
            ck_assert_msg(strcmp(r->printed, text) == 0, "%s: printed \"%s\"", r->what, r->printed);
        }
    }
    ck_assert_msg(is_ok || wants_fault, "%s: PL%d at line %u, CTA %u, warp %u, lane %u: %s",
                  r->what, fault.code, fault.line, fault.cta[0], fault.warp, fault.lane,
                  fault.text);
}

static void run_once(struct run *r)
{
    const char *line = directive(r, 0, "run"), *load = directive(r, 0, "load");
    r->n_args = 0;
    r->n_printed = 0;
    r->device = pl_emu_device_create(&r->config);
    ck_assert_ptr_nonnull(r->device);
    struct pl_emu_fault fault;
    bool is_loaded = pl_emu_program_load(r->device, r->text, r->n_bytes, &r->program, &fault);
    if (load != NULL) {
        ck_assert_msg(!is_loaded, "%s: the load was not refused", r->what);
        expect_fault(r, load, &fault);
    } else {
        ck_assert_msg(is_loaded, "%s: PL%d at line %u: %s", r->what, fault.code, fault.line,
                      fault.text);
        launch(r, line);
        pl_emu_program_unload(r->program);
    }
    pl_emu_device_destroy(r->device);
}

static void run_section(struct run *r)
{
    if (r->n_lines == 0)
        return;
    configure(r, r->lines[0]);
    snprintf(r->what, sizeof r->what, "%s:%u", r->path, r->numbers[0]);
    if (strstr(r->lines[0], " policies") == NULL) {
        run_once(r);
        return;
    }
    for (int k = 0; k < 10; k++) {
        r->config.policy = k == 0   ? PL_EMU_ASYNC_EAGER
                           : k == 1 ? PL_EMU_ASYNC_LATE
                                    : PL_EMU_ASYNC_RANDOM;
        r->config.seed = (uint64_t)k;
        snprintf(r->what, sizeof r->what, "%s:%u, policy %d", r->path, r->numbers[0], k);
        run_once(r);
    }
}

static char *read_file(const char *path, size_t *n_bytes)
{
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s cannot be read", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *text = malloc((size_t)n + 1);
    *n_bytes = fread(text, 1, (size_t)n, f);
    text[*n_bytes] = 0;
    fclose(f);
    return text;
}

static void run_file(const char *path)
{
    struct run *r = calloc(1, sizeof *r);
    const char *name = strrchr(path, '/');
    r->path = name != NULL ? name + 1 : path;
    char *text = read_file(path, &r->n_bytes);
    r->text = text;
    uint32_t number = 1;
    int n_sections = 0;
    for (const char *p = text; *p != 0; number++) {
        size_t n = strcspn(p, "\n");
        if (strncmp(p, "//! ", 4) == 0) {
            if (strncmp(p + 4, "run ", 4) == 0 || strncmp(p + 4, "load ", 5) == 0) {
                run_section(r);
                r->n_lines = 0;
                n_sections++;
            }
            ck_assert_msg(r->n_lines < MAX_LINES && n - 4 < sizeof r->lines[0], "%s:%u is too long",
                          r->path, number);
            memcpy(r->lines[r->n_lines], p + 4, n - 4);
            r->lines[r->n_lines][n - 4] = 0;
            r->numbers[r->n_lines++] = number;
        }
        p += n + (p[n] == '\n');
    }
    run_section(r);
    ck_assert_msg(n_sections != 0, "%s holds no run", r->path);
    free(text);
    free(r);
}

/* ---- the suite: one case a file ------------------------------------------------------------------------------------------------------------- */

static glob_t files;

static bool is_case(const char *path)
{
    FILE *f = fopen(path, "rb");
    char line[512];
    bool found = false;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL)
        found = strncmp(line, "//! run ", 8) == 0 || strncmp(line, "//! load ", 9) == 0;
    if (f != NULL)
        fclose(f);
    return found;
}

START_TEST(case_holds)
{
    const char *only = getenv("PL_PTX_CASE"); /* a part of a path: run these alone */
    const char *path = files.gl_pathv[_i];
    if (is_case(path) && (only == NULL || strstr(path, only) != NULL))
        run_file(path);
}
END_TEST

/* Every form that the core executes stands in some case that runs. */
START_TEST(executed_row_has_a_case)
{
    static const struct {
        uint16_t form;
        const char *id;
    } rows[] = {
#define EXEC(id, fn)   {PL_PTX_##id, #id},
#define ACCESS(id, fn) {PL_PTX_##id, #id},
#define OP(id)         {PL_PTX_##id, #id},
#define REFUSE(id, reason)
#include "emu/exec/core.def"
#undef EXEC
#undef ACCESS
#undef OP
#undef REFUSE
    };
    static bool is_used[PL_PTX_COUNT];
    for (size_t i = 0; i < files.gl_pathc; i++) {
        struct pl_arena arena = {0};
        struct pl_ptx_module m;
        struct pl_ptx_error error;
        size_t n_bytes;
        char *text = read_file(files.gl_pathv[i], &n_bytes);
        if (strstr(text, "//! run ") != NULL && pl_ptx_parse(text, n_bytes, &arena, &m, &error))
            for (uint32_t k = 0; k < m.ins.n; k++)
                is_used[m.ins.data[k].form] = true;
        free(text);
        pl_arena_fini(&arena);
    }
    char missing[2000] = "";
    size_t n = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!is_used[rows[i].form] && n < sizeof missing - 64)
            n += (size_t)snprintf(missing + n, sizeof missing - n, " %s", rows[i].id);
    ck_assert_msg(n == 0, "no case runs:%s", missing);
}
END_TEST

START_TEST(cases_are_there) { ck_assert_uint_gt(files.gl_pathc, 20); }
END_TEST

static Suite *make_suite(void)
{
    Suite *s = suite_create("emu_ptx");
    TCase *t = tcase_create("data");
    const char *folder = getenv("PL_SRCDIR");
    char pattern[1024];
    snprintf(pattern, sizeof pattern, "%s/tests/ptx/*.ptx", folder != NULL ? folder : PL_SRCDIR);
    glob(pattern, 0, NULL, &files);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, cases_are_there);
    tcase_add_test(t, executed_row_has_a_case);
    if (files.gl_pathc != 0)
        tcase_add_loop_test(t, case_holds, 0, (int)files.gl_pathc);
    suite_add_tcase(s, t);
    return s;
}

#include "tests/suite.h"
