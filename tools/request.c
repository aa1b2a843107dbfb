/* Options that run, ptx and bench share. */
#include "tools/cmd.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool pl_cmd_parse_i64(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 0);
    *out = v;
    return end != text && *end == '\0' && errno == 0;
}

bool pl_cmd_parse_shape(const char *text, pl_shape *out)
{
    *out = (pl_shape){0};
    for (const char *p = text;; p++) {
        char *end;
        errno = 0;
        long long d = strtoll(p, &end, 10);
        if (end == p || errno != 0 || d < 0 || out->rank == PL_MAX_RANK)
            return false;
        out->d[out->rank++] = d;
        if (*end == '\0')
            return true;
        if (*end != 'x')
            return false;
        p = end;
    }
}

void pl_cmd_print_report(const pl_report *report)
{
    pl_report_item item;
    for (size_t i = 0; pl_report_get(report, i, &item); i++) {
        static const char *const levels[] = {"note", "warning", "error"};
        fprintf(stderr, "%s PL%04d: %s\n", levels[item.level], (int)item.code, item.text);
        if (item.file[0] != '\0')
            fprintf(stderr, "  at %s:%d\n", item.file, (int)item.line);
        if (item.remedy[0] != '\0')
            fprintf(stderr, "  fix: %s\n", item.remedy);
    }
}

void pl_cmd_print_error(const char *name, const pl_error *err)
{
    fprintf(stderr, "plaunch %s: %s%s", name, pl_status_name(err->status),
            err->code != 0 ? " " : "");
    if (err->code != 0)
        fprintf(stderr, "PL%04d", (int)err->code);
    fprintf(stderr, ": %s\n", err->text);
}

/* True when `word` is one of the words of `list`. */
static bool has_word(const char *list, const char *word, size_t n_bytes)
{
    for (const char *p = list; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (n == n_bytes && memcmp(p, word, n) == 0)
            return true;
        p += n + (p[n] == ' ');
    }
    return false;
}

/* A key of the kernel's own: a number, or row and col, which are 0 and 1. */
static bool set_extra(struct pl_case_spec *spec, const char *text, size_t n, const char *value)
{
    char *end;
    if (n >= sizeof spec->extra[0].key || spec->n_extra == PL_CASE_MAX_EXTRAS)
        return false;
    const double v = strcmp(value, "row") == 0   ? 0
                     : strcmp(value, "col") == 0 ? 1
                                                 : strtod(value, &end);
    if (strcmp(value, "row") != 0 && strcmp(value, "col") != 0 && (end == value || *end != '\0'))
        return false;
    memcpy(spec->extra[spec->n_extra].key, text, n);
    spec->extra[spec->n_extra++].value = v;
    return true;
}

static bool set_key(const char *cmd, struct pl_cmd_request *r, const char *text)
{
    const char *value = strchr(text, '=');
    const size_t n = value == NULL ? strlen(text) : (size_t)(value - text);
    if (value == NULL ||
        (!has_word(r->kernel->keys, text, n) && !has_word("base_offset pitch batch", text, n))) {
        pl_cmd_usage(cmd, "--set %s: kernel %s takes base_offset pitch batch %s", text,
                     r->kernel->name, r->kernel->keys);
        return false;
    }
    value++;
    int64_t number = 0;
    const bool is_number = pl_cmd_parse_i64(value, &number);
    bool is_ok = is_number;
    if (has_word("out_dtype", text, n)) {
        r->spec.out_dtype = pl_dtype_find(value);
        is_ok = r->spec.out_dtype != PL_DTYPE_NONE;
    } else if (has_word("op", text, n)) {
        r->spec.op = value;
        is_ok = true;
    } else if (has_word("axis", text, n)) {
        r->spec.axis = (int)number;
        is_ok = is_ok && number >= -PL_MAX_RANK && number < PL_MAX_RANK;
    } else if (!has_word("base_offset pitch batch", text, n)) {
        is_ok = set_extra(&r->spec, text, n, value);
    } else {
        is_ok = is_ok && number >= 0 && number <= (int64_t)1 << 40;
        if (has_word("batch", text, n))
            r->spec.batch = number;
        else if (has_word("base_offset", text, n))
            r->spec.base_offset_bytes = number;
        else if (has_word("pitch", text, n))
            r->spec.pitch_elems = number;
    }
    if (!is_ok)
        pl_cmd_usage(cmd, "--set %s: the value is not understood, or out of range", text);
    return is_ok;
}

enum option_id {
    OPT_SHAPE = 256,
    OPT_DTYPE,
    OPT_SET,
    OPT_ARCH,
    OPT_DRIVER,
    OPT_CONFIG,
    OPT_IN,
    OPT_OUT,
    OPT_SEED,
    OPT_JSON,
    OPT_PLAN,
    OPT_TRACE
};

static const struct option long_options[] = {
    {"shape", required_argument, NULL, OPT_SHAPE},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"set", required_argument, NULL, OPT_SET},
    {"arch", required_argument, NULL, OPT_ARCH},
    {"driver", required_argument, NULL, OPT_DRIVER},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"in", required_argument, NULL, OPT_IN},
    {"out", required_argument, NULL, OPT_OUT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"json", no_argument, NULL, OPT_JSON},
    {"plan", no_argument, NULL, OPT_PLAN},
    {"trace", no_argument, NULL, OPT_TRACE},
    {"output", required_argument, NULL, 'o'},
    {0},
};

/* One option; false: a message was printed. */
static bool take(const char *cmd, struct pl_cmd_request *r, int option, size_t *n_in)
{
    int64_t number;
    switch (option) {
    case OPT_SHAPE:
        if (pl_cmd_parse_shape(optarg, &r->spec.shape))
            return true;
        pl_cmd_usage(cmd, "--shape %s: wanted extents such as 4096x1000, at most 8", optarg);
        return false;
    case OPT_DTYPE:
        r->spec.dtype = pl_dtype_find(optarg);
        if (r->spec.dtype != PL_DTYPE_NONE)
            return true;
        pl_cmd_usage(cmd, "--dtype %s: wanted one of f32 f16 bf16 and so on", optarg);
        return false;
    case OPT_SET: return set_key(cmd, r, optarg);
    case OPT_ARCH: r->arch = optarg; return true;
    case OPT_DRIVER: r->driver = optarg; return true;
    case OPT_IN:
        if (*n_in < PL_CASE_MAX_ARGS) {
            r->spec.in_npy[(*n_in)++] = optarg;
            return true;
        }
        pl_cmd_usage(cmd, "--in: at most %d files", (int)PL_CASE_MAX_ARGS);
        return false;
    case OPT_OUT: r->out_npy = optarg; return true;
    case OPT_JSON: r->is_json = true; return true;
    case OPT_PLAN: r->wants_plan = true; return true;
    case OPT_TRACE: r->wants_trace = true; return true;
    case 'o': r->out_file = optarg; return true;
    case OPT_SEED:
    case OPT_CONFIG:
        if (!pl_cmd_parse_i64(optarg, &number) || number < 0 ||
            (option == OPT_CONFIG && number >= INT32_MAX)) {
            pl_cmd_usage(cmd, "%s: wanted a number, 0 or more", optarg);
            return false;
        }
        if (option == OPT_SEED) {
            r->spec.seed = (uint64_t)number;
            return true;
        }
        /* Which of these the kernel has is the library's to say; here only that the number arrives whole. */
        if (number >= INT32_MAX) {
            pl_cmd_usage(cmd, "%s: no kernel has so many configurations", optarg);
            return false;
        }
        r->config = (int32_t)number + 1;
        return true;
    default: pl_cmd_usage(cmd, "an option is wrong"); return false;
    }
}

bool pl_cmd_parse_request(int argc, char **argv, const char *allowed, struct pl_cmd_request *out)
{
    const char *cmd = argv[0];
    *out = (struct pl_cmd_request){
        .spec = {.shape = PL_SHAPE(1024, 1024), .dtype = PL_F32, .axis = -1, .seed = 1}};
    if (argc < 2 || argv[1][0] == '-') {
        pl_cmd_usage(cmd, "which kernel? (plaunch kernels lists them)");
        return false;
    }
    out->kernel = pl_case_find(argv[1]);
    if (out->kernel == NULL) {
        pl_cmd_usage(cmd, "no kernel named %s (plaunch kernels lists them)", argv[1]);
        return false;
    }
    if (out->kernel->n_axes == 3)
        out->spec.shape = PL_SHAPE(512, 512, 512);
    size_t n_in = 0;
    int index = -1;
    optind = 1;
    opterr = 0; /* said below, under the command's name */
    for (int option; (option = getopt_long(argc - 1, argv + 1, "o:", long_options, &index)) != -1;
         index = -1) {
        if (option == '?') {
            pl_cmd_usage(cmd, "%s is not an option here, or its value is missing", argv[optind]);
            return false;
        }
        if (option != 'o' && index >= 0 &&
            !has_word(allowed, long_options[index].name, strlen(long_options[index].name))) {
            pl_cmd_usage(cmd, "--%s is not an option here", long_options[index].name);
            return false;
        }
        if (!take(cmd, out, option, &n_in))
            return false;
    }
    if (optind != argc - 1) {
        pl_cmd_usage(cmd, "%s is one word too many", argv[1 + optind]);
        return false;
    }
    return true;
}
