#include "tools/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER_BYTES = 65536, ALIGN_BYTES = 64 };

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* The value after `'key':` in the header's dictionary literal, or NULL. */
static const char *find_key(const char *header, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *p = strstr(header, quoted);
    if (p == NULL || (p = strchr(p, ':')) == NULL)
        return NULL;
    p++;
    while (*p == ' ')
        p++;
    return p;
}

static bool parse_descr(const char *header, struct pl_npy *out)
{
    const char *p = find_key(header, "descr");
    if (p == NULL || *p != '\'')
        return false;
    size_t n = strcspn(++p, "'");
    if (n < 3 || n >= sizeof out->descr || strchr("<|", p[0]) == NULL)
        return false;
    memcpy(out->descr, p, n);
    out->descr[n] = '\0';
    out->elem_bytes = strtoul(out->descr + 2, NULL, 10);
    return out->elem_bytes >= 1 && out->elem_bytes <= 16;
}

static bool parse_shape(const char *header, struct pl_npy *out)
{
    const char *p = find_key(header, "shape");
    if (p == NULL || *p++ != '(')
        return false;
    uint64_t n_bytes = out->elem_bytes;
    for (out->rank = 0; *p != ')';) {
        char *end;
        errno = 0;
        long long d = strtoll(p, &end, 10);
        if (end == p || errno != 0 || d < 0 || out->rank == PL_NPY_MAX_RANK)
            return false;
        if (d != 0 && n_bytes > SIZE_MAX / 2 / (uint64_t)d)
            return false;
        n_bytes *= (uint64_t)d;
        out->shape[out->rank++] = d;
        for (p = end; *p == ' ' || *p == ',' || *p == 'L'; p++)
            ;
    }
    out->n_bytes = (size_t)n_bytes;
    return true;
}

static bool read_all(FILE *f, struct pl_npy *out, char *why, size_t why_bytes)
{
    unsigned char head[12];
    if (fread(head, 1, 10, f) != 10 || memcmp(head, magic, sizeof magic) != 0 || head[6] < 1 ||
        head[6] > 2) {
        snprintf(why, why_bytes, "not a .npy file of format 1.0 or 2.0");
        return false;
    }
    size_t n = head[8] | (size_t)head[9] << 8;
    if (head[6] == 2) {
        if (fread(head + 10, 1, 2, f) != 2)
            n = 0;
        n |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    }
    char *header = n == 0 || n > MAX_HEADER_BYTES ? NULL : calloc(1, n + 1);
    bool is_ok = header != NULL && fread(header, 1, n, f) == n && parse_descr(header, out) &&
                 parse_shape(header, out);
    const char *order = is_ok ? find_key(header, "fortran_order") : NULL;
    bool is_fortran = order == NULL || (strncmp(order, "True", 4) == 0 && out->rank > 1);
    free(header);
    if (!is_ok || is_fortran) {
        snprintf(why, why_bytes,
                 is_ok ? "stored in Fortran order; save it in C order"
                       : "the .npy header is not understood");
        return false;
    }
    out->data = malloc(out->n_bytes == 0 ? 1 : out->n_bytes);
    if (out->data == NULL || fread(out->data, 1, out->n_bytes, f) != out->n_bytes) {
        snprintf(why, why_bytes, "holds fewer than the %zu bytes that its shape needs",
                 out->n_bytes);
        return false;
    }
    return true;
}

bool pl_npy_read(const char *path, struct pl_npy *out, char *why, size_t why_bytes)
{
    *out = (struct pl_npy){0};
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        snprintf(why, why_bytes, "%s", strerror(errno));
        return false;
    }
    bool is_ok = read_all(f, out, why, why_bytes);
    fclose(f);
    if (!is_ok)
        pl_npy_fini(out);
    return is_ok;
}

static size_t print_header(const struct pl_npy *a, char *out, size_t out_bytes)
{
    int n =
        snprintf(out, out_bytes, "{'descr': '%s', 'fortran_order': False, 'shape': (", a->descr);
    for (int i = 0; i < a->rank; i++)
        n += snprintf(out + n, out_bytes - (size_t)n, i == 0 ? "%" PRId64 "%s" : " %" PRId64 "%s",
                      a->shape[i], i + 1 < a->rank || a->rank == 1 ? "," : "");
    n += snprintf(out + n, out_bytes - (size_t)n, "), }");
    while ((10 + n + 1) % ALIGN_BYTES != 0)
        out[n++] = ' ';
    out[n++] = '\n';
    return (size_t)n;
}

bool pl_npy_write(const char *path, const struct pl_npy *a, char *why, size_t why_bytes)
{
    char header[512];
    size_t n = print_header(a, header, sizeof header);
    FILE *f = fopen(path, "wb");
    if (f == NULL) {
        snprintf(why, why_bytes, "%s", strerror(errno));
        return false;
    }
    const unsigned char tail[4] = {1, 0, (unsigned char)(n & 255), (unsigned char)(n >> 8)};
    bool is_ok = fwrite(magic, 1, sizeof magic, f) == sizeof magic &&
                 fwrite(tail, 1, sizeof tail, f) == sizeof tail && fwrite(header, 1, n, f) == n &&
                 fwrite(a->data, 1, a->n_bytes, f) == a->n_bytes;
    is_ok = fclose(f) == 0 && is_ok;
    if (!is_ok) /* what is there stays: the path may be a device, or a file that was there before */
        snprintf(why, why_bytes, "write failed: %s", strerror(errno));
    return is_ok;
}

void pl_npy_fini(struct pl_npy *a)
{
    free(a->data);
    *a = (struct pl_npy){0};
}
