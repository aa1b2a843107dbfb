#include "tools/map_arg.h"

#include "tools/cmd.h"

#include <string.h>

enum { TYPE_F32 = 7, TYPE_F32_FTZ = 10, TYPE_TF32 = 11, TYPE_TF32_FTZ = 12 };
enum { NOT_SUPPORTED = 801 };

/* CUtensorMapDataType by our names (CUDA 13.0, "Tensor Map Object Management"). */
static int type_code(pl_dtype t)
{
    static const struct {
        pl_dtype dtype;
        int code;
    } map[] = {{PL_U8, 0},  {PL_I8, 0},  {PL_E4M3, 0}, {PL_E5M2, 0},       {PL_U16, 1},
               {PL_I16, 1}, {PL_U32, 2}, {PL_I32, 3},  {PL_U64, 4},        {PL_I64, 5},
               {PL_F16, 6}, {PL_F64, 8}, {PL_BF16, 9}, {PL_F32, TYPE_F32}, {PL_TF32, TYPE_TF32}};
    for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
        if (map[i].dtype == t)
            return map[i].code;
    return -1;
}

/* CUtensorMapSwizzle: the place in this list. */
static int swizzle_code(const char *text)
{
    static const char *const names[] = {"0", "32", "64", "128", "128/32", "128/32flip", "128/64"};
    for (int i = 0; i < (int)(sizeof names / sizeof names[0]); i++)
        if (strcmp(names[i], text) == 0)
            return i;
    return -1;
}

static bool parse_pair(const char *text, int *lower, int *upper)
{
    char *end;
    *lower = (int)strtol(text, &end, 10);
    if (end == text || *end != 'x')
        return false;
    text = end + 1;
    *upper = (int)strtol(text, &end, 10);
    return end != text && *end == '\0';
}

static bool parse_strides(const char *text, struct pl_map_arg *out)
{
    char *end;
    for (int i = out->dims.rank - 2; i >= 0; i--) {
        out->stride_bytes[i] = strtoull(text, &end, 10);
        if (end == text || *end != (i == 0 ? '\0' : 'x'))
            return false;
        text = end + 1;
    }
    return out->dims.rank > 1;
}

static bool parse_option(const char *text, struct pl_map_arg *out)
{
    const char *value = strchr(text, '=');
    const size_t n = value != NULL ? (size_t)(value - text) : strlen(text);
    value += value != NULL;
    if (strcmp(text, "nan") == 0)
        out->fill = 1;
    else if (strcmp(text, "ftz") == 0 && out->type == TYPE_F32)
        out->type = TYPE_F32_FTZ;
    else if (strcmp(text, "ftz") == 0 && out->type == TYPE_TF32)
        out->type = TYPE_TF32_FTZ;
    else if (value == NULL)
        return false;
    else if (strcmp(text, "interleave=16") == 0)
        out->interleave = 1;
    else if (strcmp(text, "interleave=32") == 0)
        out->interleave = 2;
    else if (n == 7 && strncmp(text, "strides", n) == 0)
        return parse_strides(value, out);
    else if (text[0] == 'w' && (n == 1 || (n == 4 && strncmp(text, "w128", n) == 0))) {
        out->wide = n == 1 ? 1 : 128;
        return parse_pair(value, &out->lower, &out->upper);
    } else
        return false;
    return true;
}

static void make_dense(struct pl_map_arg *m)
{
    uint64_t n_bytes = m->elem_bytes;
    for (int i = 0; i + 1 < m->dims.rank; i++) {
        n_bytes *= (uint64_t)m->dims.d[m->dims.rank - 1 - i];
        m->stride_bytes[i] = n_bytes;
    }
}

static bool has_box(const struct pl_map_arg *m)
{
    bool is_ok = m->box.rank == (m->wide != 0 ? 2 : m->dims.rank);
    for (int i = 0; i < m->box.rank; i++)
        is_ok = is_ok && m->box.d[i] <= UINT32_MAX;
    return is_ok;
}

bool pl_map_arg_parse(char *text, struct pl_map_arg *out)
{
    char *part[4] = {text}, *next = NULL;
    for (int i = 1; i < 4; i++) {
        part[i] = strchr(part[i - 1], ':');
        if (part[i] == NULL)
            return false;
        *part[i]++ = '\0';
    }
    next = strchr(part[3], ':');
    if (next != NULL)
        *next++ = '\0';
    const pl_dtype dtype = pl_dtype_find(part[0]);
    *out = (struct pl_map_arg){.type = type_code(dtype),
                               .elem_bytes = (uint64_t)pl_dtype_bits(dtype) / 8,
                               .swizzle = swizzle_code(part[3])};
    if (out->type < 0 || out->swizzle < 0 || !pl_cmd_parse_shape(part[1], &out->dims) ||
        !pl_cmd_parse_shape(part[2], &out->box) || out->dims.rank > 5)
        return false;
    make_dense(out);
    while (next != NULL) {
        char *option = next;
        next = strchr(option, ':');
        if (next != NULL)
            *next++ = '\0';
        if (!parse_option(option, out))
            return false;
    }
    return has_box(out);
}

int pl_map_arg_encode(const struct pl_tool_driver *api, const struct pl_map_arg *m,
                      uint64_t address, void *image)
{
    const uint32_t rank = (uint32_t)m->dims.rank, ones[5] = {1, 1, 1, 1, 1};
    void *at = (void *)(uintptr_t)address;
    uint64_t extent[5];
    uint32_t box[5];
    for (int i = 0; i < m->dims.rank; i++) /* innermost first */
        extent[i] = (uint64_t)m->dims.d[m->dims.rank - 1 - i];
    for (int i = 0; i < m->box.rank; i++)
        box[i] = (uint32_t)m->box.d[m->box.rank - 1 - i];
    if (m->wide == 0)
        return api->encode(image, m->type, rank, at, extent, m->stride_bytes, box, ones,
                           m->interleave, m->swizzle, 0, m->fill);
    if (api->encode_wide == NULL)
        return NOT_SUPPORTED;
    return api->encode_wide(image, m->type, rank, at, extent, m->stride_bytes, m->lower, m->upper,
                            box[0], box[1], ones, m->interleave, m->wide == 128, m->swizzle, 0,
                            m->fill);
}
