/*
 * plaunch emu: runs one entry of any PTX file on the emulated driver (--driver cuda: on the chip, to compare), through the Driver
 * API by name. Arguments:
 *
 *   u32:N i32:N u64:N f32:X f64:X      a value
 *   in:F.npy inout:F.npy               the array's address; inout is written back to its file
 *   out:F.npy:f32:128x128              an array of that dtype and shape, written to its file
 *   zeros:NBYTES                       the address of that many zero bytes
 *   tmap:ARG#:dtype:dims:box:swizzle   a tensor map over argument ARG# (from 0), such as tmap:0:bf16:128x64:64x64:128; options that
 *                                      may follow are in tools/map_arg.h
 */
#include "tools/cmd.h"
#include "tools/driver.h"
#include "tools/map_arg.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 64 };

struct arg {
    enum { VALUE, IN, INOUT, OUT, ZEROS, MAP } kind;
    const char *path;
    uint64_t address;
    struct pl_npy npy; /* IN, INOUT, OUT */
    _Alignas(128) unsigned char value[128];
};

struct job {
    struct pl_tool_driver api;
    const char *file, *entry, *arch, *driver;
    unsigned grid[3], block[3], cluster[3];
    int64_t smem_bytes;
    struct arg args[MAX_ARGS];
    int n_args;
};

static bool check(const struct job *j, int rc, const char *what)
{
    if (rc == 0)
        return true;
    const char *name = "unknown error";
    j->api.error_name(rc, &name);
    pl_cmd_fail("emu", "%s: %s (%d)", what, name, rc);
    char fault[4096];
    if (j->api.last_fault != NULL && j->api.last_fault(fault, sizeof fault) != 0)
        fprintf(stderr, "%s\n", fault);
    return false;
}

static bool parse_dims(const char *text, unsigned out[3])
{
    out[0] = out[1] = out[2] = 1;
    for (int i = 0; i < 3; i++) {
        char *end;
        unsigned long v = strtoul(text, &end, 10);
        if (end == text || v == 0 || v > 0x7fffffffu)
            return false;
        out[i] = (unsigned)v;
        if (*end == '\0')
            return true;
        if (*end != ',')
            return false;
        text = end + 1;
    }
    return false;
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, cap = 0;
    bool is_whole = f != NULL;
    while (is_whole && !feof(f)) {
        if (n + 65536 > cap) {
            cap = cap * 2 + 131072;
            char *p = realloc(text, cap);
            if (p == NULL) {
                is_whole = false;
                break;
            }
            text = p;
        }
        n += fread(text + n, 1, 65535, f);
        text[n] = '\0';
        is_whole = !ferror(f);
    }
    const int error = errno;
    if (!is_whole) {
        free(text);
        text = NULL;
    }
    if (f != NULL)
        fclose(f);
    errno = error;
    return text;
}

static bool place(struct job *j, struct arg *a, size_t n_bytes, const void *data)
{
    void *zeros = data == NULL ? calloc(1, n_bytes + 1) : NULL;
    bool is_ok =
        (data != NULL || zeros != NULL) &&
        check(j, j->api.mem_alloc(&a->address, n_bytes == 0 ? 1 : n_bytes), "cuMemAlloc") &&
        check(j, j->api.to_device(a->address, data != NULL ? data : zeros, n_bytes),
              "cuMemcpyHtoD");
    free(zeros);
    memcpy(a->value, &a->address, sizeof a->address);
    return is_ok;
}

static bool parse_value(struct arg *a, const char *text)
{
    char *end = NULL;
    const char *v = text + 4;
    errno = 0;
    if (strncmp(text, "u32:", 4) == 0 || strncmp(text, "i32:", 4) == 0) {
        const long long wide = strtoll(v, &end, 0), most = text[0] == 'u' ? UINT32_MAX : INT32_MAX;
        if (wide < INT32_MIN || wide > most)
            return false;
        const uint32_t x = (uint32_t)wide; /* u32:-1 is all ones, as in C */
        memcpy(a->value, &x, sizeof x);
    } else if (strncmp(text, "u64:", 4) == 0) {
        const uint64_t x = strtoull(v, &end, 0);
        if (errno == ERANGE)
            return false;
        memcpy(a->value, &x, sizeof x);
    } else if (strncmp(text, "f32:", 4) == 0) {
        const float x = strtof(v, &end);
        memcpy(a->value, &x, sizeof x);
    } else if (strncmp(text, "f64:", 4) == 0) {
        const double x = strtod(v, &end);
        memcpy(a->value, &x, sizeof x);
    }
    return end != NULL && end != v && *end == '\0';
}

static bool make_out(struct arg *a, char *spec)
{
    char *shape_text = strrchr(spec, ':');
    if (shape_text == NULL)
        return false;
    *shape_text++ = '\0';
    char *dtype_text = strrchr(spec, ':');
    if (dtype_text == NULL)
        return false;
    *dtype_text++ = '\0';
    pl_shape s;
    const pl_dtype dtype = pl_dtype_find(dtype_text);
    const char *descr = pl_host_npy_descr(dtype);
    if (!pl_cmd_parse_shape(shape_text, &s) || descr == NULL)
        return false;
    a->path = spec;
    a->npy = (struct pl_npy){.rank = s.rank, .elem_bytes = (size_t)pl_dtype_bits(dtype) / 8};
    snprintf(a->npy.descr, sizeof a->npy.descr, "%s", descr);
    a->npy.n_bytes = a->npy.elem_bytes;
    for (int i = 0; i < s.rank; i++) {
        a->npy.shape[i] = s.d[i];
        if (__builtin_mul_overflow(a->npy.n_bytes, (size_t)s.d[i], &a->npy.n_bytes) ||
            a->npy.n_bytes > PTRDIFF_MAX / 2)
            return false;
    }
    a->npy.data = calloc(1, a->npy.n_bytes + 1);
    return a->npy.data != NULL;
}

static bool make_map(struct job *j, struct arg *a, char *spec)
{
    char *end;
    struct pl_map_arg map;
    const long over = strtol(spec, &end, 10);
    if (end == spec || *end != ':' || over < 0 || over >= j->n_args ||
        !pl_map_arg_parse(end + 1, &map))
        return false;
    return check(j, pl_map_arg_encode(&j->api, &map, j->args[over].address, a->value),
                 map.wide != 0 ? "cuTensorMapEncodeIm2colWide" : "cuTensorMapEncodeTiled");
}

static bool make_arg(struct job *j, char *text)
{
    struct arg *a = &j->args[j->n_args];
    char why[256], whole[80]; /* what parsing cuts into pieces, for the message */
    int64_t n;
    bool is_ok = false;
    snprintf(whole, sizeof whole, "%s", text);
    if (strncmp(text, "in:", 3) == 0 || strncmp(text, "inout:", 6) == 0) {
        a->kind = text[2] == ':' ? IN : INOUT;
        a->path = strchr(text, ':') + 1;
        is_ok = pl_npy_read(a->path, &a->npy, why, sizeof why);
        if (!is_ok)
            pl_cmd_fail("emu", "%s: %s", a->path, why);
        is_ok = is_ok && place(j, a, a->npy.n_bytes, a->npy.data);
    } else if (strncmp(text, "out:", 4) == 0) {
        a->kind = OUT;
        is_ok = make_out(a, text + 4) && place(j, a, a->npy.n_bytes, a->npy.data);
    } else if (strncmp(text, "zeros:", 6) == 0 && pl_cmd_parse_i64(text + 6, &n) && n >= 0) {
        a->kind = ZEROS;
        is_ok = place(j, a, (size_t)n, NULL);
    } else if (strncmp(text, "tmap:", 5) == 0) {
        a->kind = MAP;
        is_ok = make_map(j, a, text + 5);
    } else
        is_ok = parse_value(a, text);
    if (!is_ok)
        pl_cmd_usage("emu", "argument %d (%s) is not understood", j->n_args, whole);
    j->n_args++;
    return is_ok;
}

enum { NOT_FOUND = 500 }; /* CUresult */

/* As many values as the entry has parameters: the driver takes the pointers on trust. */
static bool has_params(struct job *j, void *function)
{
    size_t offset, n_bytes;
    int n = 0;
    if (j->api.param_info == NULL)
        return true;
    while (n <= MAX_ARGS && j->api.param_info(function, (size_t)n, &offset, &n_bytes) == 0)
        n++;
    if (n == j->n_args)
        return true;
    pl_cmd_fail("emu", "%s has %d parameters, and %d arguments were given", j->entry, n, j->n_args);
    return false;
}

static bool launch(struct job *j, const char *text)
{
    void *module = NULL, *function = NULL, *params[MAX_ARGS] = {0};
    struct pl_tool_launch_attribute cluster = {.id = PL_TOOL_ATTRIBUTE_CLUSTER};
    struct pl_tool_launch_config config = {.smem_bytes = (unsigned)j->smem_bytes,
                                           .attrs = &cluster};
    memcpy(config.grid, j->grid, sizeof config.grid);
    memcpy(config.block, j->block, sizeof config.block);
    memcpy(cluster.value.dims, j->cluster, sizeof j->cluster);
    config.n_attrs = j->cluster[0] != 0;
    for (int i = 0; i < j->n_args; i++)
        params[i] = j->args[i].value;
    if (!check(j, j->api.load(&module, text), j->file))
        return false;
    const int found = j->api.get_function(&function, module, j->entry);
    if (found == NOT_FOUND) {
        pl_cmd_fail("emu", "%s has no entry named %s", j->file, j->entry);
        return false;
    }
    if (!check(j, found, j->entry) || !has_params(j, function))
        return false;
    if (j->smem_bytes > 48 * 1024 &&
        !check(j, j->api.set_attribute(function, PL_TOOL_FUNC_MAX_DYNAMIC_SMEM, (int)j->smem_bytes),
               "--smem, more than the chip gives a block"))
        return false;
    if (j->cluster[0] * j->cluster[1] * j->cluster[2] > 8 &&
        !check(j, j->api.set_attribute(function, PL_TOOL_FUNC_NON_PORTABLE_CLUSTER, 1),
               "cluster size"))
        return false;
    return check(j, j->api.launch_ex(&config, function, params, NULL), "cuLaunchKernelEx") &&
           check(j, j->api.synchronize(), "the kernel");
}

static bool write_back(struct job *j)
{
    char why[256];
    for (int i = 0; i < j->n_args; i++) {
        struct arg *a = &j->args[i];
        if (a->kind != OUT && a->kind != INOUT)
            continue;
        if (!check(j, j->api.to_host(a->npy.data, a->address, a->npy.n_bytes), "cuMemcpyDtoH"))
            return false;
        if (!pl_npy_write(a->path, &a->npy, why, sizeof why)) {
            pl_cmd_fail("emu", "%s: %s", a->path, why);
            return false;
        }
    }
    return true;
}

static bool is_bad(const char *option, const char *wanted)
{
    pl_cmd_usage("emu", "%s %s: wanted %s", option, optarg, wanted);
    return false;
}

static bool take_option(struct job *j, int o, const char *word)
{
    static const char extents[] = "1 to 3 extents above 0, such as 4 or 4,2,1";
    switch (o) {
    case 'e': j->entry = optarg; return true;
    case 'g': return parse_dims(optarg, j->grid) || is_bad("--grid", extents);
    case 'b': return parse_dims(optarg, j->block) || is_bad("--block", extents);
    case 'c': return parse_dims(optarg, j->cluster) || is_bad("--cluster", extents);
    case 's':
        return (pl_cmd_parse_i64(optarg, &j->smem_bytes) && j->smem_bytes >= 0 &&
                j->smem_bytes <= INT32_MAX) ||
               is_bad("--smem", "a number of bytes");
    case 'a': j->arch = optarg; return true;
    case 'd': j->driver = optarg; return true;
    default:
        pl_cmd_usage("emu", "%s is not an option here, or its value is missing", word);
        return false;
    }
}

static bool parse_options(int argc, char **argv, struct job *j)
{
    static const struct option options[] = {
        {"entry", required_argument, NULL, 'e'},  {"grid", required_argument, NULL, 'g'},
        {"block", required_argument, NULL, 'b'},  {"cluster", required_argument, NULL, 'c'},
        {"smem", required_argument, NULL, 's'},   {"arch", required_argument, NULL, 'a'},
        {"driver", required_argument, NULL, 'd'}, {0}};
    optind = 1;
    opterr = 0; /* said by take_option(), under the command's name */
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (!take_option(j, o, argv[optind - 1]))
            return false;
    if (optind >= argc || j->entry == NULL || j->grid[0] == 0 || j->block[0] == 0 ||
        argc - optind - 1 > MAX_ARGS) {
        pl_cmd_usage("emu", "wanted a PTX file, --entry, --grid, --block, and at most %d arguments",
                     MAX_ARGS);
        return false;
    }
    j->file = argv[optind++];
    return true;
}

int pl_cmd_emu(int argc, char **argv)
{
    struct job *j = aligned_alloc(_Alignof(struct job), sizeof *j); /* tensor maps lie in it */
    if (j == NULL)
        return pl_cmd_fail("emu", "out of memory");
    memset(j, 0, sizeof *j);
    int status = PL_CMD_USAGE, device = 0;
    void *ctx = NULL;
    char *text = NULL;
    if (!parse_options(argc, argv, j))
        goto done;
    status = PL_CMD_FAILED;
    if (j->arch != NULL)
        setenv("PLAUNCH_EMU_ARCH", j->arch, 1);
    text = read_file(j->file);
    if (text == NULL) {
        pl_cmd_fail("emu", "%s cannot be read: %s", j->file, strerror(errno));
        goto done;
    }
    char why[512];
    if (!pl_tool_driver_load(&j->api, j->driver != NULL ? j->driver : "emulator", why,
                             sizeof why)) {
        pl_cmd_fail("emu", "%s", why);
        goto done;
    }
    if (!check(j, j->api.init(0), "cuInit") ||
        !check(j, j->api.device_get(&device, 0), "cuDeviceGet") ||
        !check(j, j->api.ctx_retain(&ctx, device), "cuDevicePrimaryCtxRetain") ||
        !check(j, j->api.ctx_set(ctx), "cuCtxSetCurrent"))
        goto done;
    for (int i = optind; i < argc; i++)
        if (!make_arg(j, argv[i])) {
            status = PL_CMD_USAGE;
            goto done;
        }
    if (launch(j, text) && write_back(j))
        status = PL_CMD_OK;
done:
    for (int i = 0; i < j->n_args; i++)
        pl_npy_fini(&j->args[i].npy);
    free(text);
    free(j);
    return status;
}
