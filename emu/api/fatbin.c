/*
 * Fat binaries: a header of 16 bytes, then members, each a header of its own and a payload.
 *
 *   of all     0 magic ba55ed50   4 u16 version 1   6 u16 bytes of this header   8 u64 bytes of all members
 *   a member   0 u16 kind (1 PTX, 2 machine code)   4 u32 bytes of this header   8 u64 bytes of payload, padded to 8
 *              16 u32 bytes in use of a compressed payload   28 u32 compute capability * 10
 *              40 u64 flags   56 u64 bytes when decompressed
 *
 * Found by comparing what nvcc 13.0 writes for one source under its options; no document has it.
 */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#include "emu/api/fatbin.h"

#include "base/os.h"
#include "emu/api/diag.h"
#include "emu/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_BYTES = 16, MEMBER_BYTES = 64, KIND_PTX = 1 };
enum { IS_LZ4 = 0x2000, IS_ZSTD = 0x8000, IS_ARCH_A = 0x100000, IS_ARCH_F = 0x200000 };

struct member {
    uint16_t kind;
    uint32_t sm;
    uint64_t flags;
    const uint8_t *data;
    size_t n_bytes;      /* of data that count */
    size_t n_text_bytes; /* of the text when decompressed */
};

static uint64_t number(const uint8_t *p, size_t n_bytes)
{
    uint64_t v = 0;
    memcpy(&v, p, n_bytes); /* little-endian, as the hosts we build for */
    return v;
}

static bool has_magic(const void *image, uint32_t magic)
{
    const uint8_t *b = image;
    for (int i = 0; i < 4; i++) /* byte by byte: a text may end before the fourth */
        if (b[i] != (uint8_t)(magic >> 8 * i))
            return false;
    return true;
}

static bool is_wrapper(const void *image) { return has_magic(image, 0x466243b1); }

bool pl_fatbin_is(const void *image) { return is_wrapper(image) || has_magic(image, 0xba55ed50); }

const uint8_t *pl_fatbin_find(const void *image, size_t *n_bytes)
{
    const uint8_t *b = image;
    if (is_wrapper(image))
        memcpy(&b, b + 8, sizeof b);
    if (b == NULL || !has_magic(b, 0xba55ed50) || number(b + 6, 2) != HEADER_BYTES)
        return NULL;
    uint64_t n = number(b + 8, 8);
    if (n > SIZE_MAX / 2)
        return NULL;
    *n_bytes = HEADER_BYTES + (size_t)n;
    return b;
}

bool pl_fatbin_is_cut(const void *image, size_t n_bytes)
{
    size_t n_wanted;
    if (!pl_fatbin_is(image))
        return false;
    return is_wrapper(image) || n_bytes < HEADER_BYTES ||
           (pl_fatbin_find(image, &n_wanted) != NULL && n_wanted > n_bytes);
}

/* The member at *at, which moves behind it; false: the bytes are none. */
static bool read_member(const uint8_t **at, const uint8_t *end, struct member *m)
{
    const uint8_t *b = *at;
    size_t n_left = (size_t)(end - b);
    if (n_left < MEMBER_BYTES)
        return false;
    uint64_t n_header = number(b + 4, 4), n_payload = number(b + 8, 8), n_used = number(b + 16, 4);
    if (n_header < MEMBER_BYTES || n_header > n_left || n_payload > n_left - n_header)
        return false;
    *m = (struct member){
        .kind = (uint16_t)number(b, 2),
        .sm = (uint32_t)number(b + 28, 4),
        .flags = number(b + 40, 8),
        .data = b + n_header,
        .n_bytes = (size_t)n_payload,
        .n_text_bytes = (size_t)n_payload,
    };
    *at = b + n_header + n_payload;
    if ((m->flags & (IS_LZ4 | IS_ZSTD)) == 0)
        return true;
    m->n_bytes = (size_t)n_used;
    m->n_text_bytes = (size_t)number(b + 56, 8);
    return n_used <= n_payload && m->n_text_bytes < SIZE_MAX / 2;
}

/* ---- which one --------------------------------------------------------------------------------------------------- */

static char suffix_of(const struct member *m)
{
    return (m->flags & IS_ARCH_A) != 0 ? 'a' : (m->flags & IS_ARCH_F) != 0 ? 'f' : 0;
}

/* Newest chip first; of one chip the narrower target, which may use more. */
static bool is_better(const struct member *m, const struct member *best)
{
    if (best->data == NULL || m->sm != best->sm)
        return best->data == NULL || m->sm > best->sm;
    return suffix_of(m) == 'a' || (suffix_of(m) == 'f' && suffix_of(best) == 0);
}

static void list(const struct member *m, char *text, size_t n_bytes)
{
    size_t n = strlen(text);
    const char suffix[2] = {suffix_of(m), 0};
    snprintf(text + n, n_bytes - n, "%s%s of sm_%u%s", n != 0 ? ", " : "",
             m->kind == KIND_PTX ? "PTX" : "machine code", m->sm, suffix);
}

static CUresult choose(const void *image, uint16_t sm, struct member *best, struct pl_diags *ds)
{
    struct pl_where nowhere = {0};
    size_t n_bytes;
    char held[300] = "";
    const uint8_t *b = pl_fatbin_find(image, &n_bytes);
    *best = (struct member){0};
    if (b == NULL)
        return pl_d_fat_damaged(ds, nowhere, "its header"), CUDA_ERROR_INVALID_IMAGE;
    const uint8_t *at = b + HEADER_BYTES, *end = b + n_bytes;
    while (at < end) {
        struct member m;
        if (!read_member(&at, end, &m))
            return pl_d_fat_damaged(ds, nowhere, "a member"), CUDA_ERROR_INVALID_IMAGE;
        list(&m, held, sizeof held);
        if (m.kind == KIND_PTX && m.sm <= UINT16_MAX &&
            pl_emu_runs_target(sm, (uint16_t)m.sm, suffix_of(&m)) && is_better(&m, best))
            *best = m;
    }
    if (best->data != NULL)
        return CUDA_SUCCESS;
    pl_d_image_fat(ds, nowhere, sm, held[0] != 0 ? held : "nothing");
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

/* ---- decompression ------------------------------------------------------------------------------------------------- */

/* A length of LZ4: 4 bits of the token, and while they or the bytes that follow are at their most, one byte more. */
static bool lz4_length(const uint8_t **in, const uint8_t *end, size_t *n)
{
    if (*n != 15)
        return true;
    uint8_t b;
    do {
        if (*in == end)
            return false;
        b = *(*in)++;
        *n += b;
    } while (b == 255);
    return true;
}

/* LZ4 Block Format Description: sequences of literals and a match behind them, which the last one has not. */
static bool expand_lz4(const struct member *m, uint8_t *text)
{
    const uint8_t *in = m->data, *end = in + m->n_bytes;
    size_t n_out = 0;
    while (in < end) {
        uint8_t token = *in++;
        size_t n = token >> 4, n_match = token & 15;
        if (!lz4_length(&in, end, &n) || n > (size_t)(end - in) || n > m->n_text_bytes - n_out)
            return false;
        memcpy(text + n_out, in, n);
        in += n;
        n_out += n;
        if (in == end)
            break;
        if (end - in < 2)
            return false;
        size_t distance = (size_t)number(in, 2);
        in += 2;
        if (!lz4_length(&in, end, &n_match) || distance == 0 || distance > n_out)
            return false;
        n_match += 4;
        if (n_match > m->n_text_bytes - n_out)
            return false;
        for (; n_match != 0; n_match--, n_out++) /* may overlap what it makes */
            text[n_out] = text[n_out - distance];
    }
    return n_out == m->n_text_bytes;
}

typedef size_t (*zstd_decompress)(void *to, size_t n_to, const void *from, size_t n_from);

/* By libzstd, where it is; without it the member is as good as none. */
static CUresult expand_zstd(const struct member *m, uint16_t sm, uint8_t *text, struct pl_diags *ds)
{
    char why[200];
    void *lib = pl_os_lib_open("libzstd.so.1", why, sizeof why);
    void *symbol = lib != NULL ? pl_os_lib_sym(lib, "ZSTD_decompress") : NULL;
    zstd_decompress decompress;
    memcpy(&decompress, &symbol, sizeof decompress);
    bool is_well = decompress != NULL &&
                   decompress(text, m->n_text_bytes, m->data, m->n_bytes) == m->n_text_bytes;
    if (lib != NULL)
        pl_os_lib_close(lib);
    if (is_well)
        return CUDA_SUCCESS;
    if (decompress == NULL)
        return pl_d_image_fat(ds, (struct pl_where){0}, sm, "PTX that zstd compressed"),
               CUDA_ERROR_NO_BINARY_FOR_GPU;
    pl_d_fat_damaged(ds, (struct pl_where){0}, "compressed PTX");
    return CUDA_ERROR_INVALID_IMAGE;
}

static CUresult expand(const struct member *m, uint16_t sm, uint8_t *text, struct pl_diags *ds)
{
    if ((m->flags & IS_ZSTD) != 0)
        return expand_zstd(m, sm, text, ds);
    if ((m->flags & IS_LZ4) == 0) {
        memcpy(text, m->data, m->n_bytes);
        return CUDA_SUCCESS;
    }
    if (expand_lz4(m, text))
        return CUDA_SUCCESS;
    pl_d_fat_damaged(ds, (struct pl_where){0}, "compressed PTX");
    return CUDA_ERROR_INVALID_IMAGE;
}

CUresult pl_fatbin_text(const void *image, uint16_t sm, char **text, struct pl_diags *ds)
{
    struct member m;
    CUresult r = choose(image, sm, &m, ds);
    if (r != CUDA_SUCCESS)
        return r;
    char *out = malloc(m.n_text_bytes + 1);
    if (out == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = expand(&m, sm, (uint8_t *)out, ds);
    if (r != CUDA_SUCCESS) {
        free(out);
        return r;
    }
    out[m.n_text_bytes] = '\0';
    *text = out;
    return CUDA_SUCCESS;
}
