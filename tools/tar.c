#include "tools/tar.h"

#include <stdlib.h>
#include <string.h>

/* One block before each file; numbers are octal text. Source: POSIX.1-2017, pax, "ustar Interchange Format". */
struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100],
        magic[6], version[2], owner[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
enum { BLOCK_BYTES = 512, CHECKSUM_AT = 148 };
_Static_assert(sizeof(struct header) == BLOCK_BYTES, "a header is a block");
_Static_assert(offsetof(struct header, checksum) == CHECKSUM_AT, "as POSIX lays it out");

/* Of all bytes, those of the checksum itself taken for blanks. */
static unsigned checksum_of(const struct header *h)
{
    unsigned char bytes[BLOCK_BYTES];
    unsigned sum = 0;
    memcpy(bytes, h, sizeof bytes);
    memset(bytes + CHECKSUM_AT, ' ', sizeof h->checksum);
    for (int i = 0; i < BLOCK_BYTES; i++)
        sum += bytes[i];
    return sum;
}

static void put_octal(char *field, size_t n_bytes, uint64_t v)
{
    field[n_bytes - 1] = '\0';
    for (size_t i = n_bytes - 1; i-- > 0; v /= 8)
        field[i] = (char)('0' + v % 8);
}

static bool get_octal(const char *field, size_t n_bytes, uint64_t *v)
{
    size_t i = 0;
    *v = 0;
    while (i < n_bytes && field[i] == ' ')
        i++;
    for (; i < n_bytes && field[i] >= '0' && field[i] <= '7'; i++)
        *v = *v * 8 + (uint64_t)(field[i] - '0');
    return i == n_bytes || field[i] == '\0' || field[i] == ' ';
}

static size_t padding(size_t n_bytes)
{
    return (BLOCK_BYTES - n_bytes % BLOCK_BYTES) % BLOCK_BYTES;
}

bool pl_tar_add(FILE *tar, const char *name, const void *data, size_t n_bytes)
{
    static const char zeros[BLOCK_BYTES];
    struct header h = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
    if (strlen(name) >= sizeof h.name)
        return false;
    memcpy(h.name, name, strlen(name));
    put_octal(h.mode, sizeof h.mode, 0600);
    put_octal(h.uid, sizeof h.uid, 0);
    put_octal(h.gid, sizeof h.gid, 0);
    put_octal(h.size, sizeof h.size, n_bytes);
    put_octal(h.mtime, sizeof h.mtime, 0);
    put_octal(h.checksum, sizeof h.checksum - 1, checksum_of(&h));
    h.checksum[7] = ' ';
    return fwrite(&h, sizeof h, 1, tar) == 1 && fwrite(data, 1, n_bytes, tar) == n_bytes &&
           fwrite(zeros, 1, padding(n_bytes), tar) == padding(n_bytes);
}

bool pl_tar_end(FILE *tar)
{
    static const char zeros[2 * BLOCK_BYTES];
    return fwrite(zeros, sizeof zeros, 1, tar) == 1 && fflush(tar) == 0;
}

static bool is_zero(const struct header *h)
{
    static const struct header zero;
    return memcmp(h, &zero, sizeof zero) == 0;
}

/* Past n bytes and their padding. */
static bool pass_over(FILE *tar, uint64_t n_bytes)
{
    char block[BLOCK_BYTES];
    for (uint64_t n = (n_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES; n > 0; n--)
        if (fread(block, sizeof block, 1, tar) != 1)
            return false;
    return true;
}

static bool read_file(FILE *tar, uint8_t **data, size_t n_bytes)
{
    char pad[BLOCK_BYTES];
    *data = malloc(n_bytes + 1);
    if (*data != NULL && fread(*data, 1, n_bytes, tar) == n_bytes &&
        fread(pad, 1, padding(n_bytes), tar) == padding(n_bytes))
        return true;
    free(*data);
    *data = NULL;
    return false;
}

enum pl_tar_result pl_tar_next(FILE *tar, char name[100], uint8_t **data, size_t *n_bytes,
                               size_t limit_bytes)
{
    struct header h;
    uint64_t size, sum;
    *data = NULL;
    for (;;) {
        if (fread(&h, sizeof h, 1, tar) != 1)
            return PL_TAR_BROKEN;
        if (is_zero(&h))
            return PL_TAR_END;
        if (!get_octal(h.checksum, sizeof h.checksum, &sum) || sum != checksum_of(&h) ||
            !get_octal(h.size, sizeof h.size, &size))
            return PL_TAR_BROKEN;
        if (h.type == '0' || h.type == '\0')
            break;
        if (!pass_over(tar, size))
            return PL_TAR_BROKEN;
    }
    memcpy(name, h.name, 99);
    name[99] = '\0';
    *n_bytes = (size_t)size;
    return size <= limit_bytes && read_file(tar, data, (size_t)size) ? PL_TAR_FILE : PL_TAR_BROKEN;
}
